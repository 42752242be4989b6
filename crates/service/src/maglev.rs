//! Maglev's consistent hashing (Eisenbud et al., "Maglev: A Fast and Reliable
//! Software Network Load Balancer", NSDI 2016, section 3.4).
use std::net::IpAddr;
use std::sync::Arc;

use crate::prime::{is_prime, next_prime};
use crate::siphash::{self, Key};

/// Slots per backend that a table must have at least (Maglev paper, section
/// 3.4: with M > 100 N no backend has more than 1 % above its share).
pub const MAGLEV_PER_BACKEND: u32 = 100;

/// The largest table, the greatest prime below 2^24: 32 MiB.
pub const MAGLEV_MAX: u32 = 16_777_213;

// Fixed, so that several load balancers with the same backends agree.
const OFFSET_KEY: Key = [0x4d61_676c_6576_206f, 0x6666_7365_7420_6b31];
const SKIP_KEY: Key = [0x4d61_676c_6576_2073, 0x6b69_7020_6b65_7931];

/// Why a number cannot be the size of a Maglev table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaglevSizeError {
    /// Only a prime lets every backend's permutation reach every slot.
    #[error("{size} is not a prime; the next one is {next}")]
    NotPrime {
        /// The size asked for.
        size: u32,
        /// The smallest prime above it.
        next: u32,
    },
    /// The shares would be uneven.
    #[error(
        "{size} is too small for {backends} backends; take a prime of at least {least}, as {next}"
    )]
    TooSmall {
        /// The size asked for.
        size: u32,
        /// The service's backends.
        backends: usize,
        /// The least size for as many.
        least: u32,
        /// The smallest prime that is enough.
        next: u32,
    },
    /// More than [`MAGLEV_MAX`] slots, or more backends than such a table can
    /// serve.
    #[error("{size} is above the largest table size, {MAGLEV_MAX}")]
    TooLarge {
        /// The size asked for or needed.
        size: u32,
    },
}

/// Whether a Maglev table of `size` slots serves `backends` backends evenly.
///
/// # Errors
/// Says what is wrong with the size and which one would be right.
pub fn check_maglev_size(size: u32, backends: usize) -> Result<(), MaglevSizeError> {
    let least = u32::try_from(backends).unwrap_or(u32::MAX).saturating_mul(MAGLEV_PER_BACKEND);
    if size > MAGLEV_MAX || least > MAGLEV_MAX {
        return Err(MaglevSizeError::TooLarge { size: size.max(least) });
    }
    if size < least {
        let next = next_prime(least).unwrap_or(MAGLEV_MAX);
        return Err(MaglevSizeError::TooSmall { size, backends, least, next });
    }
    if !is_prime(size) {
        let next = next_prime(size).unwrap_or(MAGLEV_MAX);
        return Err(MaglevSizeError::NotPrime { size, next });
    }
    Ok(())
}

/// What a backend's permutation and share follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) weight: u16,
}

/// A filled lookup table: slot to place in the list of members.
#[derive(Clone, Debug)]
pub(crate) struct Maglev {
    slots: Arc<[u16]>,
}

/// A backend while the table is filled.
struct Turn {
    place: u16,
    weight: u32,
    credit: u32,
    next: u64,
    skip: u64,
}

impl Maglev {
    /// The table of `size` slots, a prime, for `members`; those of weight 0
    /// get no slot. Doesn't depend on the members' order, only their places
    /// do; members must be different.
    pub(crate) fn fill(size: u32, members: &[Member]) -> Self {
        let mut turns = turns(u64::from(size), members);
        let Some(heaviest) = turns.iter().map(|turn| turn.weight).max() else {
            return Self { slots: Arc::default() };
        };
        let mut slots = vec![u16::MAX; size as usize];
        let mut left = slots.len();
        // A backend has a turn in every round if it is the heaviest, else in
        // its weight's share of the rounds (section 3.4: "backend weights are
        // achieved by altering the relative frequency of the turns").
        while left > 0 {
            for turn in &mut turns {
                turn.credit += turn.weight;
                if turn.credit >= heaviest && left > 0 {
                    turn.credit -= heaviest;
                    take(&mut slots, turn, u64::from(size));
                    left -= 1;
                }
            }
        }
        Self { slots: slots.into() }
    }

    /// The place of the member that `hash` belongs to; `None` if none has a
    /// weight.
    #[inline]
    pub(crate) fn get(&self, hash: u64) -> Option<u16> {
        self.slots.get(siphash::below(hash, self.slots.len() as u64) as usize).copied()
    }
}

/// The members with a weight, in an order of their own.
fn turns(size: u64, members: &[Member]) -> Vec<Turn> {
    let mut sorted: Vec<_> = members.iter().zip(0..=u16::MAX - 1).collect();
    sorted.retain(|(member, _)| member.weight > 0);
    sorted.sort_by_key(|(member, _)| (member.address, member.port));
    sorted
        .into_iter()
        .map(|(member, place)| {
            let hash = |key| siphash::address(key, member.address, u64::from(member.port));
            Turn {
                place,
                weight: u32::from(member.weight),
                credit: 0,
                next: siphash::below(hash(OFFSET_KEY), size),
                skip: siphash::below(hash(SKIP_KEY), size - 1) + 1,
            }
        })
        .collect()
}

/// Gives the next free slot of the turn's permutation to it. There must be
/// one: the permutation reaches all slots, since the size is a prime.
fn take(slots: &mut [u16], turn: &mut Turn, size: u64) {
    for _ in 0..size {
        let at = turn.next as usize;
        turn.next = (turn.next + turn.skip) % size;
        if let Some(slot) = slots.get_mut(at).filter(|slot| **slot == u16::MAX) {
            *slot = turn.place;
            return;
        }
    }
}

#[cfg(test)]
mod tests;
