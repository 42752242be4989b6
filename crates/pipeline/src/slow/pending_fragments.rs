//! Fragments that wait for the first of their datagram: a fixed number of places,
//! in a queue for each datagram.

const NIL: u32 = u32::MAX;

/// A queue of waiting packets: its first and last place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingQueue {
    first: u32,
    last: u32,
}

impl PendingQueue {
    /// The empty queue.
    pub(crate) const NONE: Self = Self { first: NIL, last: NIL };

    pub(crate) const fn is_empty(self) -> bool {
        self.first == NIL
    }
}

/// The places of all queues.
#[derive(Debug)]
pub(crate) struct PendingFragments<T> {
    places: Box<[Place<T>]>,
    free: u32,
}

#[derive(Debug)]
struct Place<T> {
    packet: Option<T>,
    next: u32,
}

impl<T> PendingFragments<T> {
    /// Room for `size` packets.
    pub(crate) fn new(size: usize) -> Self {
        let size = u32::try_from(size).unwrap_or(NIL).min(1 << 20);
        let next = |at| if at + 1 < size { at + 1 } else { NIL };
        let places = (0..size).map(|at| Place { packet: None, next: next(at) }).collect();
        Self { places, free: if size == 0 { NIL } else { 0 } }
    }

    /// Puts `packet` at the end of `queue`. `false`, and the packet is gone, if
    /// there is no place.
    pub(crate) fn push(&mut self, queue: &mut PendingQueue, packet: T) -> bool {
        let at = self.free;
        let Some(place) = self.places.get_mut(at as usize) else { return false };
        self.free = place.next;
        *place = Place { packet: Some(packet), next: NIL };
        match self.places.get_mut(queue.last as usize) {
            Some(last) => last.next = at,
            None => queue.first = at,
        }
        queue.last = at;
        true
    }

    /// Takes the first packet of `queue`.
    pub(crate) fn pop(&mut self, queue: &mut PendingQueue) -> Option<T> {
        let at = queue.first;
        let place = self.places.get_mut(at as usize)?;
        let packet = place.packet.take();
        queue.first = place.next;
        place.next = self.free;
        self.free = at;
        if queue.first == NIL {
            queue.last = NIL;
        }
        packet
    }

    /// Drops all of `queue`; how many.
    pub(crate) fn clear(&mut self, queue: &mut PendingQueue) -> u64 {
        let mut dropped = 0;
        while self.pop(queue).is_some() {
            dropped += 1;
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_queues_of_bounded_total_length(
            steps in prop::collection::vec((0usize..3, prop::option::of(0u32..1000)), 0..200),
        ) {
            let mut waiting = PendingFragments::new(5);
            let mut queues = [PendingQueue::NONE; 3];
            let mut model: [VecDeque<u32>; 3] = Default::default();
            for (queue, step) in steps {
                let total: usize = model.iter().map(VecDeque::len).sum();
                match step {
                    Some(value) => {
                        let pushed = waiting.push(&mut queues[queue], value);
                        prop_assert_eq!(pushed, total < 5);
                        if pushed {
                            model[queue].push_back(value);
                        }
                    }
                    None => prop_assert_eq!(waiting.pop(&mut queues[queue]), model[queue].pop_front()),
                }
                prop_assert_eq!(queues[queue].is_empty(), model[queue].is_empty());
            }
        }
    }
}
