//! The machine's own memory latency: a walk in which each address is known
//! only when the line before it has come.
use std::hint::black_box;

use super::keys::Draw;

/// A cache line that names the next.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(u32);

/// Steps by the clock.
const STEPS: u32 = 1 << 18;

/// Cycles per step of a random walk over all lines of `bytes` bytes, in
/// ordinary pages: the least of `repetitions`.
pub(super) fn latency(bytes: usize, repetitions: usize) -> f64 {
    let lines = cycle((bytes / size_of::<Line>()).max(2));
    let mut at = walk(&lines, 0, STEPS.max(lines.len().min(1 << 20) as u32));
    let mut least = u64::MAX;
    for _ in 0..repetitions.max(1) {
        let start = dpdk::cycles();
        at = black_box(walk(&lines, at, STEPS));
        least = least.min(dpdk::cycles().saturating_sub(start));
    }
    least as f64 / f64::from(STEPS)
}

fn walk(lines: &[Line], from: u32, steps: u32) -> u32 {
    (0..steps).fold(from, |at, _| lines.get(at as usize).map_or(0, |line| line.0))
}

/// One cycle through all lines in random order (Sattolo's algorithm).
fn cycle(count: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = (0..count as u32).map(Line).collect();
    let mut draw = Draw::new(count as u64);
    for last in (1..lines.len()).rev() {
        lines.swap(last, draw.below(last as u32) as usize);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_passes_every_line_once() {
        for count in [2, 3, 100, 1000] {
            let lines = cycle(count);
            let mut seen = vec![false; count];
            let mut at = 0;
            for _ in 0..count {
                assert!(!std::mem::replace(&mut seen[at as usize], true));
                at = walk(&lines, at, 1);
            }
            assert_eq!(at, 0);
        }
    }
}
