//! Model checking: every interleaving (up to a number of preemptions) of a few
//! threads on a tiny table, under the C11 memory model as loom knows it.
//!
//! The thread that writes is the model's first one. Loom remembers only the
//! last load of each atomic: a writer that reads a word before it writes it
//! hides an earlier load by another thread, and orders are left out. With the
//! writer in front every later load finds the write it competes with.
//!
//! `RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test -p conntrack --lib --release`
#![allow(clippy::unwrap_used, clippy::panic)]

mod insertions;
mod lookups;
mod records;

use flow::{BackendId, Direction, HopId, ServiceId};
use service::Forwarding;
use wire::{TcpFlags, Transport};

use crate::family::FamilyTable;
use crate::index::{Place, Probe};
use crate::key::{Deltas, Key};
use crate::record::Content;
use crate::segment::Segment;

type Table = FamilyTable<1>;

/// With so many preemptions at most: locks share words with what is read, so
/// readers have many values to choose from, and models grow quickly.
fn with_preemptions(most: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.map_or(most, |bound| bound.min(most)));
    builder.check(model);
}

/// Three buckets of two slots, `records` records.
fn table(records: usize) -> Table {
    Table::new(records, 3, &[3; 32]).unwrap()
}

/// Connection number `n`; every field tells `n`.
fn content(n: u32) -> Content<1> {
    let key = |net: u64| Key {
        addresses: [net << 56 | u64::from(n) << 32 | u64::from(n)],
        ports: n << 16 | n,
        proto: Transport::Tcp,
    };
    Content {
        keys: [key(10), key(172)],
        deltas: [Deltas { net: n as u16, transport: n as u16 }; 2],
        hops: [HopId(n), HopId(n)],
        service: ServiceId(n as u16),
        backend: BackendId(n as u16),
        forwarding: Forwarding::Rewrite,
    }
}

/// The first connection from number `from` on whose forward and reply key have
/// these buckets.
fn with_buckets(table: &Table, from: u32, buckets: [(usize, usize); 2]) -> Content<1> {
    (from..60_000)
        .map(content)
        .find(|content| {
            let probes = content.keys.each_ref().map(|key| table.probe(key));
            probes.map(|probe| (probe.first(), probe.second())) == buckets
        })
        .unwrap()
}

fn place_of(table: &Table, bucket: usize, probe: &Probe) -> Option<Place> {
    (0..2)
        .find(|&slot| {
            let entry = table.index().bucket(bucket).load(slot);
            !entry.is_empty() && entry.sought() == probe.sought
        })
        .map(|slot| Place { bucket, slot })
}

/// A TCP segment with these control bits.
fn segment(flags: u8) -> Segment {
    Segment { flags: TcpFlags(flags), ..Segment::default() }
}

/// Moves the entry of `probe` out of `bucket`.
fn shift(table: &Table, probe: &Probe, bucket: usize) -> bool {
    let from = place_of(table, bucket, probe).unwrap();
    let entry = table.index().bucket(bucket).load(from.slot);
    let to = table.index().vacancy(table.index().other(bucket, entry), None).unwrap();
    table.index().shift(from, to)
}

fn found(table: &Table, content: &Content<1>, direction: Direction) -> Option<u32> {
    let reference = table.look_surely(&content.keys[direction.index()])?;
    assert_eq!(reference.direction(), direction);
    Some(reference.record())
}
