//! Records that are not in use: those never used, and stacks of those given back.
//!
//! There are several stacks, and a connection's hash says which one it takes from:
//! workers seldom meet at one, and the records of the next connections of a burst
//! can be fetched ahead, where one stack would name the next only when the last
//! has come.
use crate::readers::Readers;
use crate::stack::{Chain, NIL, Stack};
use crate::sync::{AtomicU32, Mutex, Ordering};
use std::sync::PoisonError;

/// Stacks; a power of two.
const STACKS: usize = if cfg!(loom) { 1 } else { 8 };

/// The unused records of one family.
#[derive(Debug)]
pub(crate) struct Free {
    /// How many records there are.
    all: u32,
    fresh: Fresh,
    stacks: [Own; STACKS],
    limbo: Limbo,
}

/// Records from this number on were never used, nor their memory touched.
#[derive(Debug)]
#[repr(align(128))]
struct Fresh(AtomicU32);

/// A stack on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Own(Stack);

impl Free {
    /// All of `all` records, never used.
    pub(crate) fn new(all: usize) -> Self {
        Self {
            all: u32::try_from(all).unwrap_or(u32::MAX),
            fresh: Fresh(AtomicU32::new(0)),
            stacks: std::array::from_fn(|_| Own(Stack::new())),
            limbo: Limbo::new(),
        }
    }

    /// Numbers of records that have ever been used: all below this.
    pub(crate) fn used(&self) -> u32 {
        self.fresh.0.load(Ordering::Acquire)
    }

    /// How many records were taken, modulo 2^32.
    pub(crate) fn taken(&self) -> u32 {
        self.stacks.iter().fold(self.used(), |sum, own| sum.wrapping_add(own.0.pops()))
    }

    #[inline]
    fn stack(&self, hash: usize) -> &Stack {
        &self.stacks[hash % STACKS].0
    }

    /// Whether [`Self::take`] would find nothing now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used() >= self.all && self.stacks.iter().all(|own| own.0.top().is_none())
    }

    /// The record that [`Self::take`] most likely gives next for `hash`.
    #[inline]
    pub(crate) fn next(&self, hash: usize) -> u32 {
        self.stack(hash).top().unwrap_or_else(|| self.fresh.0.load(Ordering::Relaxed))
    }

    /// A record of its own for the caller.
    #[inline]
    pub(crate) fn take<'a>(
        &self,
        hash: usize,
        link: impl Fn(u32) -> Option<&'a AtomicU32> + Copy,
    ) -> Option<u32> {
        self.stack(hash).pop(link).or_else(|| self.take_elsewhere(link))
    }

    #[inline(never)]
    fn take_elsewhere<'a>(
        &self,
        link: impl Fn(u32) -> Option<&'a AtomicU32> + Copy,
    ) -> Option<u32> {
        let next = |fresh| (fresh < self.all).then_some(fresh + 1);
        let fresh = self.fresh.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok();
        fresh.or_else(|| self.stacks.iter().find_map(|own| own.0.pop(link)))
    }

    /// Takes a record in that is out of the index but may still be read.
    pub(crate) fn leave<'a>(&self, record: u32, link: impl Fn(u32) -> Option<&'a AtomicU32>) {
        self.limbo.removed.push(Chain { first: record, last: record }, link);
    }

    /// Gives back what no reader can hold any more, and begins a grace period for
    /// what has left since the last one; how many records came back.
    pub(crate) fn reclaim<'a>(
        &self,
        readers: &Readers,
        link: impl Fn(u32) -> Option<&'a AtomicU32> + Copy,
    ) -> usize {
        let mut waiting = self.limbo.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        // Twice: without readers a grace period is over at once.
        for _ in 0..2 {
            if let Some(Waiting { epoch, chains, length }) = *waiting {
                if !readers.all_passed(epoch) {
                    break;
                }
                count += length;
                for (own, chain) in self.stacks.iter().zip(chains) {
                    chain.into_iter().for_each(|chain| own.0.push(chain, link));
                }
                *waiting = None;
            }
            let first = self.limbo.removed.take();
            if first == NIL {
                break;
            }
            let (chains, length) = deal(first, link);
            *waiting = Some(Waiting { epoch: readers.raise(), chains, length });
        }
        count
    }
}

/// Removed records on their way back.
#[derive(Debug)]
struct Limbo {
    /// Removed since the last grace period began.
    removed: Stack,
    waiting: Mutex<Option<Waiting>>,
}

/// Those that wait for the end of a grace period.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    epoch: u64,
    /// By stack.
    chains: [Option<Chain>; STACKS],
    length: usize,
}

impl Limbo {
    fn new() -> Self {
        Self { removed: Stack::new(), waiting: Mutex::new(None) }
    }
}

/// Deals a list out to the stacks by the records' numbers; and its length.
fn deal<'a>(
    first: u32,
    link: impl Fn(u32) -> Option<&'a AtomicU32>,
) -> ([Option<Chain>; STACKS], usize) {
    let (mut chains, mut count, mut record) = ([None::<Chain>; STACKS], 0, first);
    while let Some(next) = link(record).map(|next| next.load(Ordering::Relaxed)) {
        let chain = &mut chains[record as usize % STACKS];
        let before = chain.map(|chain| chain.last);
        if let Some(last) = before.and_then(&link) {
            last.store(record, Ordering::Relaxed);
        }
        *chain = Some(Chain { first: chain.map_or(record, |chain| chain.first), last: record });
        count += 1;
        record = next;
    }
    (chains, count)
}
