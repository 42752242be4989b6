//! Which backends serve the classes of drained ones: a function of which are drained,
//! not of the order in which that happened.
//!
//! Every class has, in principle, an order of all backends; the first that isn't
//! drained serves it. So a class moves only when the backend that serves it is
//! drained, and returns with it. The first in the order is the class's home.
//! The classes whose first backends are those of a set, whichever of them is
//! first, have their next ones divided in proportion to the weights of the rest:
//! by few and even blocks as long as there are enough classes; else rendezvous
//! gives the rest of the order at once (Thaler and Ravishankar, "Using
//! name-based mappings to increase hit rates", 1998; with weights as by
//! Schindelhauer and Schomaker, 2005). Only the sets that are drained are looked
//! at.
use std::collections::BTreeMap;

use crate::classes::Block;
use crate::shares::{self, Member, Wanted};
use crate::{blocks, siphash};

/// Fixed, so that several load balancers agree.
const KEY: siphash::Key = [0x7375_6363_6573_7369, 0x6f6e_206f_6620_6261];
/// The most by which a part may differ from what the weights say, as a share of
/// that part. What differs is another backend with each set.
const DEVIATION: f64 = 0.1;
/// Pieces that are given by rendezvous, in parts of what the smallest backend has.
const PIECE: f64 = 1.0 / 32.0;

/// Drained backends, the number first, so that small sets come first.
type Set = (usize, Vec<u16>);

/// The blocks of `home` with the backends that serve them: those of `drained`
/// backends are served by others. Blocks are cut to no more than `bits` bits. `None`
/// as an owner: all backends are drained.
pub(crate) fn succeed(home: &[Block], weights: &[u16], drained: &[bool], bits: u8) -> Vec<Block> {
    let gone = |place: u16| drained.get(usize::from(place)).is_some_and(|gone| *gone);
    let mut lost: BTreeMap<Set, Vec<Block>> = BTreeMap::new();
    let mut served = Vec::with_capacity(home.len());
    let mut free: Vec<Block> = home.to_vec();
    let mut set = Vec::new();
    loop {
        for block in free {
            match block.owner.filter(|owner| gone(*owner)) {
                None => served.push(block),
                Some(owner) => {
                    let mut larger: Vec<u16> = set.clone();
                    larger.push(owner);
                    larger.sort_unstable();
                    lost.entry((larger.len(), larger)).or_default().push(block);
                }
            }
        }
        let Some(((_, next), own)) = lost.pop_first() else { break };
        set = next;
        free = divide(own, weights, &set, (bits, &gone));
    }
    blocks::merge(&mut served);
    served
}

/// How fine blocks may be cut, and who is drained.
type Terms<'a> = (u8, &'a dyn Fn(u16) -> bool);

/// Divides the classes of `lost`, whose first backends are those of `set`.
fn divide(
    mut lost: Vec<Block>,
    weights: &[u16],
    set: &[u16],
    (bits, gone): Terms<'_>,
) -> Vec<Block> {
    lost.iter_mut().for_each(|block| block.owner = None);
    blocks::merge(&mut lost);
    let all = (0..).zip(weights).filter(|(place, weight)| **weight > 0 && !set.contains(place));
    let mut members: Vec<Member> =
        all.map(|(place, weight)| Member { place, weight: f64::from(*weight) }).collect();
    if members.is_empty() {
        return lost;
    }
    // Rounding must not favour the same backend in all sets.
    let seed = set.iter().fold(0, |seed, place| siphash::hash(KEY, &[seed, u64::from(*place)]));
    members.sort_by_key(|member| siphash::hash(KEY, &[seed, u64::from(member.place)]));
    let classes: u32 = lost.iter().map(|block| 1 << bits.saturating_sub(block.bits)).sum();
    if classes as usize >= members.len() {
        let wanted = Wanted { deviation: DEVIATION, entries: usize::MAX, bits, each: 0 };
        if let Some((bits, parts)) = shares::divide(&members, &lost, &wanted) {
            return blocks::give(lost, bits, &parts);
        }
    }
    rendezvous(lost, &members, (bits, gone))
}

/// Gives each piece of `lost` to that member, of those that aren't gone, whose
/// number for it is the lowest.
fn rendezvous(mut lost: Vec<Block>, members: &[Member], (bits, gone): Terms<'_>) -> Vec<Block> {
    let sum: f64 = members.iter().map(|member| member.weight).sum();
    let least = members.iter().map(|member| member.weight).fold(f64::MAX, f64::min);
    let largest = PIECE * least / sum;
    let mut given = Vec::with_capacity(lost.len());
    while let Some(block) = lost.pop() {
        if block.bits < bits && f64::from(block.bits).exp2().recip() > largest {
            lost.extend(block.halves());
            continue;
        }
        let (bits, value) = (u64::from(block.bits), u64::from(block.value));
        let number = |member: &Member| {
            // The highest 53 bits, as a number between 0 and 1.
            let even =
                (siphash::hash(KEY, &[bits, value, u64::from(member.place)]) >> 11) as f64 + 0.5;
            -(even / 53_f64.exp2()).ln() / member.weight
        };
        let living = members.iter().filter(|member| !gone(member.place));
        let first = living.min_by(|a, b| number(a).total_cmp(&number(b)));
        given.push(Block { owner: first.map(|member| member.place), ..block });
    }
    given
}
