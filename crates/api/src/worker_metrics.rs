//! What workers do, as metrics.
use state::{Counter, CounterKind};
use status::{AutoscalingStatus, Status};

use crate::open_metrics::{Kind, OpenMetrics};

/// Counters of workers: the family's name, its label, its sentence, and which kinds of
/// counters are in it.
type OfWorker = (&'static str, &'static str, &'static str, fn(CounterKind) -> bool);

/// The metrics of the workers, and of the load that they leave room for.
pub(crate) fn workers(text: &mut OpenMetrics, status: &Status) {
    let names: Vec<String> = status.workers.iter().map(|own| own.worker.to_string()).collect();
    let workers = || names.iter().zip(&status.workers);
    let mut util = text.family(
        ("hnlb_worker_utilization_ratio", Kind::Gauge),
        Some("ratio"),
        "util over the last second: the part of the cycles spent on packets.",
    );
    for (name, own) in workers() {
        util.sample(&[("worker", name)], own.util);
    }
    let mut util = text.family(
        ("hnlb_worker_utilization_plus_ratio", Kind::Gauge),
        Some("ratio"),
        "util+ over the last second (HNLB paper, section IV), which grows with the load.",
    );
    for (name, own) in workers() {
        util.sample(&[("worker", name)], own.util_plus);
    }
    let busiest = status.workers.iter().map(|own| own.util_plus).fold(0.0, f64::max);
    text.family(
        ("hnlb_headroom_ratio", Kind::Gauge),
        Some("ratio"),
        "1 minus util+ of the busiest worker: the load that can still come.",
    )
    .sample(&[], 1.0 - busiest);
    let AutoscalingStatus { peak, scale_out, .. } = &status.autoscaling;
    text.family(
        ("hnlb_load_peak_ratio", Kind::Gauge),
        Some("ratio"),
        "The highest util+ of the busiest worker in the last minute.",
    )
    .sample(&[], *peak);
    text.family(
        ("hnlb_scale_out", Kind::Gauge),
        None,
        "1 from a peak of 0.8 on until it is below 0.6: another load balancer is needed.",
    )
    .sample(&[], (*scale_out).into());
    let mut cycles = text.family(
        ("hnlb_worker_cycles", Kind::Counter),
        None,
        "Cycles of a worker's loop: all, and those that found packets.",
    );
    for (name, own) in workers() {
        cycles.sample(&[("worker", name), ("kind", "all")], own.totals.ref_cycles as f64);
        cycles.sample(&[("worker", name), ("kind", "busy")], own.totals.ops_cycles as f64);
    }
    let mut naps = text.family(
        ("hnlb_worker_naps", Kind::Counter),
        None,
        "Times that a worker has slept because nothing came.",
    );
    for (name, own) in workers() {
        naps.sample(&[("worker", name)], own.naps as f64);
    }
    let mut slept = text.family(
        ("hnlb_worker_slept_seconds", Kind::Counter),
        Some("seconds"),
        "Time that a worker has slept because nothing came.",
    );
    for (name, own) in workers() {
        slept.sample(&[("worker", name)], own.slept_ms as f64 / 1000.0);
    }
    let mut buckets = text.family(
        ("hnlb_worker_buckets", Kind::Gauge),
        None,
        "Entries of the ports' redirection tables that name a worker's queues; 0 if no table is balanced.",
    );
    for (name, own) in workers() {
        buckets.sample(&[("worker", name)], own.buckets as f64);
    }
    text.by_name(
        ("hnlb_balance_moves", Kind::Counter),
        "result",
        "Moves of redirection table entries between workers, by what became of them.",
        &status.balance.counters,
    );
    let families: [OfWorker; 3] = [
        (
            "hnlb_worker_packets",
            "fate",
            "Packets by what became of them; received are all others together.",
            |kind| {
                use CounterKind::{Dropped, Held, Info, Level};
                !matches!(kind, Dropped | Info | Held | Level)
            },
        ),
        ("hnlb_worker_drops", "reason", "Packets dropped, by reason.", |kind| {
            kind == CounterKind::Dropped
        }),
        ("hnlb_worker_events", "event", "What happened to packets and connections.", |kind| {
            kind == CounterKind::Info
        }),
    ];
    let levels: OfWorker = (
        "hnlb_worker_level",
        "of",
        "What a worker has at present: packets that wait, and what the L7 agent keeps.",
        |kind| matches!(kind, CounterKind::Held | CounterKind::Level),
    );
    let families = families.map(|family| (family, Kind::Counter));
    for ((family, label, help, is_of), kind) in families.into_iter().chain([(levels, Kind::Gauge)])
    {
        let mut family = text.family((family, kind), None, help);
        let counters = Counter::ALL.iter().filter(|counter| is_of(counter.kind()));
        for counter in counters.map(|counter| counter.name()) {
            for (name, own) in workers() {
                let value = own.counters.get(counter).copied().unwrap_or_default();
                family.sample(&[("worker", name), (label, counter)], value as f64);
            }
        }
    }
}
