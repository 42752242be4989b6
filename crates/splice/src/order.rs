//! Connections by their numbers in the order in which they came, of which any may leave.

/// Nobody.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    behind: u32,
}

/// A queue of numbers. It takes memory only as its numbers grow, within what was reserved.
#[derive(Debug)]
pub(crate) struct Order {
    /// By number; a number that is not in the queue is before and behind itself.
    links: Vec<Link>,
    first: u32,
    last: u32,
    len: usize,
}

impl Order {
    /// For numbers below `max`.
    pub(crate) fn new(max: usize) -> Self {
        Self { links: Vec::with_capacity(max), first: NONE, last: NONE, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The number that has been in it for longest.
    pub(crate) fn first(&self) -> Option<usize> {
        (self.first != NONE).then_some(self.first as usize)
    }

    fn has(&self, at: u32) -> bool {
        self.links.get(at as usize).is_some_and(|link| link.before != at)
    }

    /// Adds `at` behind all others, or takes it out, as `wanted` says; one that is in it
    /// already keeps its place.
    #[inline]
    pub(crate) fn set(&mut self, at: usize, wanted: bool) {
        let number = at as u32;
        if wanted == self.has(number) {
            return;
        }
        if wanted { self.push(number) } else { self.remove(number) }
    }

    fn push(&mut self, at: u32) {
        while self.links.len() <= at as usize {
            let own = self.links.len() as u32;
            self.links.push(Link { before: own, behind: own });
        }
        let link = Link { before: self.last, behind: NONE };
        self.last = at;
        self.join(link.before, at);
        if let Some(own) = self.links.get_mut(at as usize) {
            *own = link;
        }
        self.len += 1;
    }

    fn remove(&mut self, at: u32) {
        let Some(link) = self.links.get_mut(at as usize) else { return };
        let Link { before, behind } = std::mem::replace(link, Link { before: at, behind: at });
        self.join(before, behind);
        match self.links.get_mut(behind as usize) {
            Some(link) => link.before = before,
            None => self.last = before,
        }
        self.len -= 1;
    }

    /// Behind `before` comes `behind`.
    fn join(&mut self, before: u32, behind: u32) {
        match self.links.get_mut(before as usize) {
            Some(link) => link.behind = behind,
            None => self.first = behind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_who_came_first_of_those_that_stayed(
            steps in prop::collection::vec((0_usize..9, any::<bool>()), 0..80),
        ) {
            let (mut order, mut model) = (Order::new(9), Vec::new());
            for (at, wanted) in steps {
                order.set(at, wanted);
                if !wanted {
                    model.retain(|own| *own != at);
                } else if !model.contains(&at) {
                    model.push(at);
                }
                prop_assert_eq!(order.first(), model.first().copied());
                prop_assert_eq!(order.len(), model.len());
            }
            for at in model {
                prop_assert_eq!(order.first(), Some(at));
                order.set(at, false);
            }
            prop_assert_eq!(order.first(), None);
        }
    }
}
