//! How a bucket changes its CPU without packets that overtake others.
//!
//! CPUs are first in, first out, so one marker a CPU says which packets are back: the
//! number of the latest that has returned. A network function that keeps packets for
//! itself, or drops them, holds nothing up: a later packet's return stands for them.
use std::collections::VecDeque;

use crate::Move;

/// How buckets move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// At once, as in the thesis: packets of the bucket that the old CPU still has are
    /// overtaken.
    Instant,
    /// When no packet of the bucket is away; after `patience_ns` by holding its packets, as
    /// [`Order::Drain`].
    Idle {
        /// Nanoseconds to wait for such a moment.
        patience_ns: u64,
        /// As in [`Order::Drain`].
        hold_ns: u64,
        /// As in [`Order::Drain`].
        held: u32,
    },
    /// New packets of the bucket are held until all before them are back. A bucket that
    /// exceeds a bound stays where it was, and its held packets go there.
    Drain {
        /// The longest time to hold packets in nanoseconds.
        hold_ns: u64,
        /// The most packets to hold for a bucket.
        held: u32,
    },
}

impl Default for Order {
    /// Idle moments, and after 1 ms holding of at most 1024 packets for at most 5 ms: a
    /// full queue of an overloaded CPU.
    fn default() -> Self {
        Self::Idle { patience_ns: 1_000_000, hold_ns: 5_000_000, held: 1024 }
    }
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// To this CPU, as its packet of this number.
    Send {
        /// The CPU.
        cpu: u16,
        /// The number that [`crate::Balancer::returned`] wants back.
        sequence: u64,
    },
    /// Nowhere yet: the caller keeps it behind others of its bucket until a [`Release`].
    Hold,
}

/// The held packets of a bucket go on: the caller passes each to
/// [`crate::Balancer::to_cpu`] again, in their order, before any newer packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The bucket.
    pub bucket: u16,
}

/// A bucket's wish to move.
#[derive(Clone, Copy, Debug)]
struct Wish {
    to: u16,
    since_ns: u64,
    /// When packets began to be held, and how many are.
    holding: Option<(u64, u32)>,
}

/// Numbers of packets towards one CPU, and of the latest that is back.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    sent: u64,
    back: u64,
}

/// The map that packets go by, and the moves that wait.
#[derive(Debug)]
pub(crate) struct Keeper {
    order: Order,
    map: Vec<u16>,
    lines: Vec<Line>,
    /// The number of each bucket's latest packet towards its CPU; `None`: there is none
    /// since its last move.
    latest: Vec<Option<u64>>,
    wishes: Vec<Option<Wish>>,
    waiting: Vec<u16>,
    releases: VecDeque<Release>,
    moved: u64,
    abandoned: u64,
}

impl Keeper {
    pub(crate) fn new(order: Order, map: Vec<u16>, cpus: usize) -> Self {
        Self {
            order,
            lines: vec![Line::default(); cpus],
            latest: vec![None; map.len()],
            wishes: vec![None; map.len()],
            waiting: Vec::with_capacity(map.len()),
            releases: VecDeque::with_capacity(map.len()),
            map,
            moved: 0,
            abandoned: 0,
        }
    }

    pub(crate) fn map(&self) -> &[u16] {
        &self.map
    }

    /// The CPU of each bucket once the moves that wait are done.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = u16> + '_ {
        let wishes = self.wishes.iter().map(|wish| wish.map(|wish| wish.to));
        self.map.iter().zip(wishes).map(|(cpu, to)| to.unwrap_or(*cpu))
    }

    /// Buckets that have changed their CPU, and moves that were given up.
    pub(crate) const fn totals(&self) -> (u64, u64) {
        (self.moved, self.abandoned)
    }

    /// Wants a bucket elsewhere. A bucket that waits for a move already, or is not where
    /// the move says, stays as it is.
    pub(crate) fn want(&mut self, wanted: Move, now_ns: u64) {
        let bucket = usize::from(wanted.bucket);
        let here = self.map.get(bucket) == Some(&wanted.from) && wanted.from != wanted.to;
        if !here || usize::from(wanted.to) >= self.lines.len() {
            return;
        }
        let Some(wish) = self.wishes.get_mut(bucket).filter(|wish| wish.is_none()) else { return };
        let holding = matches!(self.order, Order::Drain { .. }).then_some((now_ns, 0));
        *wish = Some(Wish { to: wanted.to, since_ns: now_ns, holding });
        if self.order == Order::Instant || self.is_idle(bucket) {
            self.settle(bucket, Some(wanted.to));
        } else {
            self.waiting.push(wanted.bucket);
        }
    }

    /// Where a packet of a bucket goes; `None` for a bucket that there isn't.
    pub(crate) fn place(&mut self, bucket: u16, now_ns: u64) -> Option<Placement> {
        let at = usize::from(bucket);
        let mut cpu = *self.map.get(at)?;
        if let Some(wish) = self.wishes.get(at).copied().flatten() {
            if self.is_idle(at) && wish.holding.is_none_or(|(_, held)| held == 0) {
                self.settle(at, Some(wish.to));
                cpu = wish.to;
            } else if self.holds(at, now_ns) {
                return Some(Placement::Hold);
            }
        }
        let line = self.lines.get_mut(usize::from(cpu))?;
        line.sent += 1;
        let sequence = line.sent;
        if let Some(latest) = self.latest.get_mut(at) {
            *latest = Some(sequence);
        }
        Some(Placement::Send { cpu, sequence })
    }

    /// Whether a packet of a bucket that wants to move is held.
    fn holds(&mut self, bucket: usize, now_ns: u64) -> bool {
        let Some(Some(wish)) = self.wishes.get_mut(bucket) else { return false };
        let most = match self.order {
            Order::Instant => return false,
            Order::Drain { held, .. } => held,
            Order::Idle { patience_ns, held, .. } => {
                if wish.holding.is_none() && now_ns.saturating_sub(wish.since_ns) < patience_ns {
                    return false;
                }
                held
            }
        };
        let (_, held) = wish.holding.get_or_insert((now_ns, 0));
        *held += 1;
        if *held >= most {
            self.settle(bucket, None);
        }
        // The packet that is one too many is released with the others.
        true
    }

    /// A packet of a CPU is back.
    pub(crate) fn returned(&mut self, cpu: u16, sequence: u64, now_ns: u64) {
        if let Some(line) = self.lines.get_mut(usize::from(cpu)) {
            // A number that was never given out, or an old one, says nothing.
            if sequence <= line.sent {
                line.back = line.back.max(sequence);
            }
        }
        self.look(now_ns);
    }

    /// Moves what can move, and gives up what has been held for too long.
    pub(crate) fn look(&mut self, now_ns: u64) {
        if self.waiting.is_empty() {
            return;
        }
        let hold_ns = match self.order {
            Order::Instant => 0,
            Order::Idle { hold_ns, .. } | Order::Drain { hold_ns, .. } => hold_ns,
        };
        let mut at = 0;
        while let Some(&bucket) = self.waiting.get(at) {
            let bucket = usize::from(bucket);
            match self.wishes.get(bucket).copied().flatten() {
                None => {}
                Some(wish) if self.is_idle(bucket) => self.settle(bucket, Some(wish.to)),
                Some(Wish { holding: Some((since_ns, _)), .. })
                    if now_ns.saturating_sub(since_ns) >= hold_ns =>
                {
                    self.settle(bucket, None);
                }
                Some(_) => {
                    at += 1;
                    continue;
                }
            }
            self.waiting.retain(|waiting| usize::from(*waiting) != bucket);
        }
    }

    /// The CPU is dead: what it had will not come back.
    pub(crate) fn forget(&mut self, cpu: u16) {
        if let Some(line) = self.lines.get_mut(usize::from(cpu)) {
            line.back = line.sent;
        }
    }

    /// Gives up the moves to a CPU: it is dead.
    pub(crate) fn cancel(&mut self, cpu: u16) {
        for bucket in 0..self.wishes.len() {
            if self.wishes.get(bucket).copied().flatten().is_some_and(|wish| wish.to == cpu) {
                self.settle(bucket, None);
            }
        }
    }

    pub(crate) fn release(&mut self) -> Option<Release> {
        self.releases.pop_front()
    }

    /// Ends a wish: the bucket goes to `to`, or stays.
    fn settle(&mut self, bucket: usize, to: Option<u16>) {
        let Some(wish) = self.wishes.get_mut(bucket).and_then(Option::take) else { return };
        if let Some((to, cpu)) = to.zip(self.map.get_mut(bucket)) {
            *cpu = to;
            self.moved += 1;
            if let Some(latest) = self.latest.get_mut(bucket) {
                *latest = None;
            }
        } else {
            self.abandoned += 1;
        }
        if wish.holding.is_some_and(|(_, held)| held > 0) {
            self.releases.push_back(Release { bucket: bucket as u16 });
        }
    }

    /// Whether no packet of a bucket is away.
    fn is_idle(&self, bucket: usize) -> bool {
        let line = self.map.get(bucket).and_then(|cpu| self.lines.get(usize::from(*cpu)));
        match (self.latest.get(bucket).copied().flatten(), line) {
            (Some(latest), Some(line)) => latest <= line.back,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_waits_counts_as_done_for_the_algorithm() {
        let order = Order::Drain { hold_ns: 1000, held: 8 };
        let mut keeper = Keeper::new(order, vec![0, 0, 1], 2);
        keeper.place(0, 0);
        keeper.want(Move { bucket: 0, from: 0, to: 1 }, 0);
        assert_eq!(keeper.map(), [0, 0, 1]);
        assert_eq!(keeper.destinations().collect::<Vec<_>>(), [1, 0, 1]);
        keeper.look(1000);
        assert_eq!(keeper.destinations().collect::<Vec<_>>(), [0, 0, 1], "it is given up");
    }
}
