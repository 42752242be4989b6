//! Blocks of classes: cut into pieces for new owners, and joined again.
use std::collections::BinaryHeap;

use crate::classes::Block;
use crate::shares::Part;

/// Cuts `free` so that each backend gets its part, counted in classes of `bits`
/// bits. Largest pieces first, each from the smallest block that has room for
/// it, so that as few blocks as possible are cut.
pub(crate) fn give(mut free: Vec<Block>, bits: u8, parts: &[Part]) -> Vec<Block> {
    let mut given = Vec::new();
    let mut pieces: BinaryHeap<(u32, std::cmp::Reverse<u16>)> = BinaryHeap::new();
    for (place, classes) in parts {
        let powers = (0..u32::BITS).map(|power| 1 << power).filter(|size| classes & size != 0);
        pieces.extend(powers.map(|size| (size, std::cmp::Reverse(*place))));
    }
    let size = |block: &Block| 1_u32 << (bits - block.bits);
    while let Some((wanted, owner)) = pieces.pop() {
        let fitting = free.iter().enumerate().filter(|(_, block)| size(block) >= wanted);
        let smallest = fitting.min_by_key(|(_, block)| (size(block), block.value));
        let largest = || free.iter().enumerate().max_by_key(|(_, block)| size(block));
        let Some((at, _)) = smallest.or_else(largest) else { break };
        let mut block = free.swap_remove(at);
        while size(&block) > wanted {
            let [low, high] = block.halves();
            free.push(high);
            block = low;
        }
        // No block is large enough: the rest of the piece comes from others.
        let mut rest = size(&block);
        while rest < wanted {
            pieces.push((rest, owner));
            rest *= 2;
        }
        given.push(Block { owner: Some(owner.0), ..block });
    }
    given
}

/// Joins blocks that are halves of one and have the same owner, and puts all in
/// order: few bits first.
pub(crate) fn merge(blocks: &mut Vec<Block>) {
    // In the order of the tree of suffixes, where halves are neighbours.
    blocks.sort_unstable_by_key(|block| (block.value.reverse_bits(), block.bits));
    let mut joined: Vec<Block> = Vec::with_capacity(blocks.len());
    for mut block in blocks.drain(..) {
        while let Some(low) = joined.last().filter(|low| halves(low, &block)).copied() {
            joined.pop();
            block = Block { bits: low.bits - 1, ..low };
        }
        joined.push(block);
    }
    joined.sort_unstable_by_key(|block| (block.bits, block.value));
    *blocks = joined;
}

/// Whether `high` is the other half of `low`, of the same owner.
fn halves(low: &Block, high: &Block) -> bool {
    low.bits == high.bits
        && low.bits > 0
        && low.value ^ high.value == 1 << (low.bits - 1)
        && low.owner == high.owner
}
