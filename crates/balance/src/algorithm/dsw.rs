//! The rules of DPDK's distributed software event device (`drivers/event/dsw`,
//! `dsw_event.c`): a busy CPU gives flows, here buckets, to one that stays below a bound.
use crate::{Algorithm, Move, Snapshot};

/// `DSW_MIN_SOURCE_LOAD_FOR_MIGRATION`, in 1000ths.
const MIN_SOURCE: u64 = 700;
/// `DSW_MAX_TARGET_LOAD_FOR_MIGRATION`, in 1000ths.
const MAX_TARGET: u64 = 950;
/// `DSW_REBALANCE_THRESHOLD`, in 1000ths.
const THRESHOLD: u64 = 30;
/// `DSW_MAX_FLOWS_PER_MIGRATION`.
const MOST: usize = 8;

/// DSW's rules; the busiest CPU is the source. Its moves are meant for
/// [`crate::Order::Drain`], as DSW pauses a flow until both sides have confirmed.
#[derive(Debug, Default)]
pub struct Dsw {
    packets: Vec<u64>,
    sums: Vec<u64>,
    loads: Vec<u64>,
}

impl Algorithm for Dsw {
    fn decide(&mut self, seen: &Snapshot<'_>, moves: &mut Vec<Move>) {
        self.packets.clear();
        self.packets.extend(seen.packets.iter().map(|packets| u64::from(*packets)));
        seen.sum_by_cpu(&self.packets, &mut self.sums);
        self.loads.clear();
        self.loads.extend(seen.busy.iter().map(|busy| u64::from(*busy)));
        let busiest = self.loads.iter().enumerate().max_by_key(|(_, load)| **load);
        let Some((source, _)) = busiest else { return };
        let of_source = self.sums.get(source).copied().unwrap_or(0).max(1);
        let first = moves.len();
        while moves.len() - first < MOST {
            let own = self.loads.get(source).copied().unwrap_or(0);
            if own < MIN_SOURCE {
                return;
            }
            let given = moves.get(first..).unwrap_or_default();
            let mut best: Option<(u64, usize, usize, u64)> = None;
            for bucket in seen.buckets_of(source) {
                if given.iter().any(|gone| usize::from(gone.bucket) == bucket) {
                    continue;
                }
                let packets = self.packets.get(bucket).copied().unwrap_or(0);
                let load = (seen.busy.get(source).map_or(0, |busy| u64::from(*busy))) * packets
                    / of_source;
                for (target, room) in self.loads.iter().enumerate() {
                    let after = room + load;
                    let left = own.saturating_sub(load);
                    if target == source
                        || load == 0
                        || after > MAX_TARGET
                        || own < after + THRESHOLD
                    {
                        continue;
                    }
                    let gain = own - left.max(after);
                    if best.is_none_or(|(least, ..)| gain > least) {
                        best = Some((gain, bucket, target, load));
                    }
                }
            }
            let Some((_, bucket, target, load)) = best else { return };
            for (cpu, sum) in self.loads.iter_mut().enumerate() {
                if cpu == source {
                    *sum = sum.saturating_sub(load);
                } else if cpu == target {
                    *sum += load;
                }
            }
            let [bucket, from, to] = [bucket, source, target].map(|number| number as u16);
            moves.push(Move { bucket, from, to });
        }
    }
}
