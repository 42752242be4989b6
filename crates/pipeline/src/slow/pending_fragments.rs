//! Fragments that wait for the first fragment of their datagram: a fixed number of
//! places, in a queue for each datagram.
//!
//! The places are divided into shares, and the source address says which share
//! a fragment may use, so that one source never holds more than one share. A
//! share keeps the fragments that came last: each takes the place of the oldest.
use std::ops::Range;

const NIL: u32 = u32::MAX;

/// Shares, if there are places enough.
const SHARES: usize = 8;
/// The fewest places that are worth dividing.
const DIVISIBLE: usize = 64;

/// A queue of waiting packets: its first and last place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingQueue {
    first: u32,
    last: u32,
}

impl PendingQueue {
    /// The empty queue.
    pub(crate) const NONE: Self = Self { first: NIL, last: NIL };
}

/// The places of all queues.
#[derive(Debug)]
pub(crate) struct PendingFragments<T> {
    places: Box<[Option<Pending<T>>]>,
    /// By share: the place that its next packet takes.
    next: Box<[usize]>,
}

#[derive(Debug)]
struct Pending<T> {
    packet: T,
    /// The datagram whose queue this is.
    datagram: usize,
    /// The place of the next packet in the queue.
    behind: u32,
}

impl<T> PendingFragments<T> {
    /// Room for about `size` packets.
    pub(crate) fn new(size: usize) -> Self {
        let size = size.clamp(1, 1 << 20);
        let shares = if size < DIVISIBLE { 1 } else { SHARES };
        let each = size / shares;
        let places = (0..each * shares).map(|_| None).collect();
        Self { places, next: (0..shares).map(|share| share * each).collect() }
    }

    /// The datagram whose oldest packet a packet of the source with hash `source`
    /// is going to displace.
    pub(crate) fn displaced_by(&self, source: usize) -> Option<usize> {
        let place = *self.next.get(source % self.next.len())?;
        self.places.get(place)?.as_ref().map(|pending| pending.datagram)
    }

    /// Puts `packet` of the source with hash `source` at the end of `queue`,
    /// which is that of `datagram`. The place must be free: see
    /// [`displaced_by`](Self::displaced_by).
    pub(crate) fn push(
        &mut self,
        queue: &mut PendingQueue,
        (source, datagram): (usize, usize),
        packet: T,
    ) {
        let share = source % self.next.len();
        let Range { start, end } = self.share(share);
        let Some(next) = self.next.get_mut(share) else { return };
        let place = *next;
        *next = if place + 1 < end { place + 1 } else { start };
        let at = u32::try_from(place).unwrap_or(NIL);
        if let Some(free) = self.places.get_mut(place) {
            *free = Some(Pending { packet, datagram, behind: NIL });
        }
        match self.places.get_mut(queue.last as usize) {
            Some(Some(last)) => last.behind = at,
            _ => queue.first = at,
        }
        queue.last = at;
    }

    /// Takes the first packet of `queue`.
    pub(crate) fn pop(&mut self, queue: &mut PendingQueue) -> Option<T> {
        let pending = self.places.get_mut(queue.first as usize)?.take()?;
        queue.first = pending.behind;
        if queue.first == NIL {
            queue.last = NIL;
        }
        Some(pending.packet)
    }

    /// Drops all packets of `queue` and returns how many there were.
    pub(crate) fn clear(&mut self, queue: &mut PendingQueue) -> u64 {
        let mut dropped = 0;
        while self.pop(queue).is_some() {
            dropped += 1;
        }
        dropped
    }

    fn share(&self, share: usize) -> Range<usize> {
        let each = self.places.len() / self.next.len();
        share * each..(share + 1) * each
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The packets of one source in order of arrival: number and datagram of each,
    /// and whether it has been taken.
    type Came = Vec<(u32, usize, bool)>;

    proptest! {
        /// Each source has a share of 8 places here, which hold the last 8 packets
        /// that came of it, without those that were taken.
        #[test]
        fn a_share_holds_the_packets_that_came_last(
            steps in prop::collection::vec((0..6_usize, prop::option::of(0..1000_u32)), 0..200),
        ) {
            let mut waiting = PendingFragments::new(64);
            let mut queues = [PendingQueue::NONE; 6];
            let mut came: [Came; 2] = Default::default();
            for (datagram, step) in steps {
                // Three datagrams of each source.
                let source = datagram % 2;
                let came = &mut came[source];
                match step {
                    Some(value) => {
                        if let Some(old) = waiting.displaced_by(source) {
                            let place = came.len() - 8;
                            prop_assert_eq!(waiting.pop(&mut queues[old]), Some(came[place].0));
                            prop_assert_eq!((old, came[place].2), (came[place].1, false));
                            came[place].2 = true;
                        }
                        waiting.push(&mut queues[datagram], (source, datagram), value);
                        came.push((value, datagram, false));
                        let kept = came.len().saturating_sub(8);
                        prop_assert!(came[..kept].iter().all(|(.., gone)| *gone));
                    }
                    None => {
                        let own = came.iter_mut().find(|(_, of, gone)| *of == datagram && !gone);
                        let wanted = own.map(|(value, _, gone)| {
                            *gone = true;
                            *value
                        });
                        prop_assert_eq!(waiting.pop(&mut queues[datagram]), wanted);
                    }
                }
            }
        }
    }
}
