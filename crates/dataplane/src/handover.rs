//! Packets that one worker receives and another one serves: the two directions of an L7
//! connection come in at different workers, and one of them has the connection.
use arrayvec::ArrayVec;
use config::Config;
use dpdk::Mbuf;
use pipeline::BURST;
use state::Source;

/// Packets that may wait in all rings from one worker, if its peers are not very many.
const FROM_WORKER: usize = 1024;
/// Packets that may wait in any of them.
const LEAST: usize = 128;

/// A packet, and where it was received.
pub(crate) type HandedOver = (Source, Mbuf);

/// One worker's ends of the rings.
#[derive(Default)]
pub(crate) struct Ends {
    /// To each of the other workers, by their numbers.
    pub(crate) to: Vec<Option<rtrb::Producer<HandedOver>>>,
    /// From each of them.
    pub(crate) from: Vec<rtrb::Consumer<HandedOver>>,
}

/// Packets that can wait in the rings between the workers.
pub(crate) fn in_rings(config: &Config) -> usize {
    let workers = usize::from(config.workers.count);
    workers * workers.saturating_sub(1) * length(workers)
}

/// Packets that may wait in one ring, with so many workers.
fn length(workers: usize) -> usize {
    (FROM_WORKER / workers.saturating_sub(1).max(1)).max(LEAST)
}

/// A ring from every worker to every other one.
pub(crate) fn rings(workers: usize) -> Vec<Ends> {
    let mut all: Vec<Ends> = (0..workers).map(|_| Ends::default()).collect();
    for from in 0..workers {
        for to in 0..workers {
            let (sender, receiver) = match from == to {
                true => (None, None),
                false => {
                    let (sender, receiver) = rtrb::RingBuffer::new(length(workers));
                    (Some(sender), Some(receiver))
                }
            };
            if let Some(own) = all.get_mut(from) {
                own.to.push(sender);
            }
            if let Some(other) = all.get_mut(to) {
                other.from.extend(receiver);
            }
        }
    }
    all
}

/// Takes packets that were received at one place from `ring`, as many as follow each
/// other there and make a burst.
pub(crate) fn take(
    ring: &mut rtrb::Consumer<HandedOver>,
    burst: &mut ArrayVec<Mbuf, BURST>,
) -> Option<Source> {
    let (from, _) = ring.peek().ok()?;
    let from = *from;
    while !burst.is_full() && ring.peek().is_ok_and(|(at, _)| *at == from) {
        burst.extend(ring.pop().ok().map(|(_, packet)| packet));
    }
    Some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_a_way_to_every_other_one() {
        for (number, own) in rings(3).iter().enumerate() {
            let ways: Vec<bool> = own.to.iter().map(Option::is_some).collect();
            let expected: Vec<bool> = (0..3).map(|other| other != number).collect();
            assert_eq!((ways, own.from.len()), (expected, 2));
        }
    }
}
