//! Every table of the report, once for the page and the terminal.
use traffic::Zipf;

use crate::report::columns::{Cell, Column, Table};
use crate::report::points::{Point, Results, Sweep};
use crate::report::rows::{Findings, IPV6, UNIFORM};
use crate::report::style::label;
use crate::report::{churns, installs, latencies, linearity, new_flows, workers};

/// The points of the paper's figures.
pub(crate) fn points(results: &Results) -> Table {
    let coverages = results.points().iter().filter_map(|point| point.over(|row| row.loss));
    let least = coverages.map(|estimate| estimate.coverage).fold(1.0, f64::min);
    let note = format!(
        "Medians over the repetitions, in brackets the confidence interval of the median by \
         order statistics (coverage at least {:.1} %). Stolen: time that other processes had on \
         the measured core, part of no other column. A dash: nothing was measured.",
        least * 100.0
    );
    let columns: &[Column<'_, &Point>] = &[
        ("System", &|p| label(&p.first.system).into()),
        ("Traffic", &|p| p.first.traffic.as_str().into()),
        ("Figure", &|p| Cell::count(p.first.figure)),
        ("Connections", &|p| Cell::count(p.first.connections)),
        ("Bytes", &|p| Cell::count(p.first.packet_size)),
        ("Offered Mpps", &|p| Cell::number(p.median(|row| row.offered_mpps), 2)),
        ("Mpps", &|p| Cell::around(p.over(|row| row.mpps), 1.0, 2)),
        ("ns per packet", &|p| Cell::around(p.over(|row| row.ns_per_packet), 1.0, 1)),
        ("util %", &|p| Cell::around(p.over(|row| row.util), 100.0, 1)),
        ("util+ %", &|p| Cell::around(p.over(|row| row.util_plus), 100.0, 1)),
        ("Loss %", &|p| percent(p.median(|row| row.loss), 3)),
        ("Empty polls %", &|p| percent(p.median(|row| row.empty_polls), 1)),
        ("NIC matched %", &|p| percent(p.median(|row| row.matched), 1)),
        ("Stolen %", &|p| percent(p.median(|row| row.stolen), 1)),
        ("n", &|p| Cell::count(p.count())),
    ];
    Table::of("", results.points(), columns).note(note)
}

fn percent(share: impl Into<Option<f64>>, decimals: usize) -> Cell {
    Cell::number(share.into().map(|share| share * 100.0), decimals)
}

/// The highest rate without loss beside the closed loop's, in figure 4.
pub(crate) fn lossless(results: &Results) -> Table {
    let columns: &[Column<'_, &Point>] = &[
        ("System", &|p| label(&p.first.system).into()),
        ("Closed loop, Mpps", &|p| Cell::around(p.over(|row| row.mpps), 1.0, 2)),
        ("Highest rate without loss, Mpps", &|p| Cell::number(rates(results, p).lossless(), 2)),
        ("First loss, Mpps", &|p| Cell::number(rates(results, p).first_loss(), 2)),
    ];
    let note = "In the closed loop a packet is sent when another has come back, so none is lost. \
        At fixed rates, in steps of 1 % of the closed loop's, a loss is more than one packet in \
        100,000.";
    let closed = results.figure(4).filter(|point| point.first.saturates());
    Table::of("Throughput and rate without loss", closed, columns).note(note)
}

fn rates<'r>(results: &'r Results, point: &'r Point) -> Sweep<'r> {
    Sweep::of(results.of_system(4, &point.first.system))
}

/// How straight util+ is, for each curve of figure 7 or 8.
pub(crate) fn straightness(results: &Results, figure: u8) -> Table {
    let (title, what) = match figure {
        7 => ("Linearity of util+ below the first loss, by connections", "Connections"),
        _ => ("Linearity of util+ below the first loss, by packet size", "Bytes"),
    };
    Table::of(
        title,
        linearity(results, figure),
        &[
            ("System", &|curve| label(&curve.system).into()),
            (what, &|curve| Cell::count(curve.parameter)),
            ("First loss, Mpps", &|curve| Cell::number(curve.first_loss_mpps, 2)),
            ("R²", &|curve| Cell::number(curve.line.map(|line| line.r_squared), 4)),
            ("Greatest deviation, % points", &|curve| {
                percent(curve.line.map(|line| line.greatest_deviation), 1)
            }),
        ],
    )
}

/// Latencies at shares of each system's own maximum rate.
pub(crate) fn latency(found: &Findings) -> Table {
    let note = "From the writing of a packet into its mbuf to its return to the source, which \
        polls. Times in which another process had a core are among them.";
    Table::of(
        "Latency",
        latencies(&found.latency),
        &[
            ("System", &|p| label(&p.first.system).into()),
            ("% of its maximum", &|p| percent(p.first.share, 0)),
            ("Mpps", &|p| Cell::around(p.over(|row| row.rate_mpps), 1.0, 2)),
            ("p50 µs", &|p| Cell::around(p.over(|row| row.p50_us), 1.0, 1)),
            ("p90 µs", &|p| Cell::around(p.over(|row| row.p90_us), 1.0, 1)),
            ("p99 µs", &|p| Cell::around(p.over(|row| row.p99_us), 1.0, 1)),
            ("p99.9 µs", &|p| Cell::around(p.over(|row| row.p999_us), 1.0, 1)),
            ("p99.99 µs", &|p| Cell::around(p.over(|row| row.p9999_us), 1.0, 1)),
            ("Loss %", &|p| percent(p.median(|row| row.loss), 4)),
            ("n", &|p| Cell::count(p.count())),
        ],
    )
    .note(note)
}

/// What new connections cost.
pub(crate) fn new_connections(found: &Findings) -> Table {
    let note = "software: from the SYN to the connection in the table. full: a SYN that the full \
        table has no room for. hardware: from the SYN to the rule in the emulated NIC; the worker's \
        part is that of SYN, SYN/ACK and ACK, the keeper's the offloader with the emulated NIC in \
        place of a driver. Source, load balancer and keeper take turns on one core, so packets are \
        in its cache; only the part named is measured.";
    Table::of(
        "New connections",
        new_flows(&found.new_flows),
        &[
            ("Path", &|p| p.first.path.as_str().into()),
            ("Part", &|p| p.first.part.as_str().into()),
            ("Room in the table", &|p| Cell::count(p.first.table)),
            ("Full %", &|p| percent(p.first.fill, 0)),
            ("ns", &|p| Cell::around(p.over(|row| row.ns), 1.0, 0)),
            ("Millions a second", &|p| Cell::number(p.median(|row| row.ns).map(|ns| 1e3 / ns), 2)),
            ("n", &|p| Cell::count(p.count())),
        ],
    )
    .note(note)
}

/// What the worker pays while rules are installed.
pub(crate) fn installation(found: &Findings) -> Table {
    let note = "The rules are of connections that send nothing meanwhile. The keeper works on the \
        source's core.";
    Table::of(
        "While rules are installed",
        installs(&found.installs),
        &[
            ("System", &|p| label(&p.first.system).into()),
            ("Rules a second", &|p| Cell::around(p.over(|row| row.rules_per_second), 1.0, 0)),
            ("The worker's ns per packet", &|p| {
                Cell::around(p.over(|row| row.ns_per_packet), 1.0, 1)
            }),
            ("Mpps", &|p| Cell::around(p.over(|row| row.mpps), 1.0, 2)),
            ("n", &|p| Cell::count(p.count())),
        ],
    )
    .note(note)
}

/// Several workers that share a table.
pub(crate) fn several(found: &Findings) -> Table {
    Table::of(
        "Workers that share the table of connections",
        workers(&found.workers),
        &[
            ("System", &|p| label(&p.first.system).into()),
            ("Workers", &|p| Cell::count(p.first.workers)),
            ("Bytes", &|p| Cell::count(p.first.packet_size)),
            ("Mpps", &|p| Cell::around(p.over(|row| row.mpps), 1.0, 2)),
            ("Gbit/s", &|p| Cell::around(p.over(|row| row.gbit_per_second), 1.0, 1)),
            ("Stolen %", &|p| percent(p.median(|row| row.stolen), 1)),
            ("n", &|p| Cell::count(p.count())),
        ],
    )
    .note(
        "Every worker has a source of its own on its core, by turns; only the worker's time counts. \
        balance-off and balance-on are 20 heavy connections whose RSS buckets are all one worker's \
        at the start: each worker is measured with what it has, and the pair takes what its busier \
        worker can. LB-NIC's figure 6 has one to eight cores behind a port of 50 Gbit/s; here are two cores, \
        no port, and nothing beyond them is concluded.",
    )
}

/// Connections that come and go.
pub(crate) fn churn(found: &Findings) -> Table {
    let note = "Nine of ten connections live for 20 ms and send ten packets, the tenth lives for \
        2 s and sends 100 a second (means of exponential distributions). Nine of ten end by FIN and \
        are removed 100 ms later, the tenth falls silent and is removed after 300 ms. Clients, \
        backends, the emulated NIC, which decides about every packet, and the keeper share the \
        source's core; packets that this core could not send in time are in the last but one column. \
        The highest rate without loss is searched for; its bound is what was in the way of a higher \
        one: loss, or the source, whose core had no time for more. Then util says how much the load \
        balancer had left.";
    Table::of(
        "Connections that come and go",
        churns(&found.churn),
        &[
            ("System", &|p| label(&p.first.system).into()),
            ("Rate without loss", &|p| {
                let bound = || format!("highest; bound: {}", p.first.bound);
                p.first.highest.then(bound).unwrap_or_default().into()
            }),
            ("New a second", &|p| Cell::around(p.over(|row| row.arrivals_per_second), 1.0, 0)),
            ("Opened a second", &|p| Cell::around(p.over(|row| row.opened_per_second), 1.0, 0)),
            ("Removed a second", &|p| Cell::around(p.over(|row| row.removed_per_second), 1.0, 0)),
            ("Rules made a second", &|p| {
                Cell::around(p.over(|row| row.rules_made_per_second), 1.0, 0)
            }),
            ("Rules destroyed a second", &|p| {
                Cell::around(p.over(|row| row.rules_undone_per_second), 1.0, 0)
            }),
            ("Open", &|p| Cell::number(p.median(|row| row.connections as f64), 0)),
            ("Mpps", &|p| Cell::around(p.over(|row| row.mpps), 1.0, 2)),
            ("ns per packet", &|p| Cell::around(p.over(|row| row.ns_per_packet), 1.0, 1)),
            ("util %", &|p| Cell::around(p.over(|row| row.util), 100.0, 2)),
            ("NIC matched %", &|p| Cell::around(p.over(|row| row.matched), 100.0, 2)),
            ("Loss %", &|p| Cell::around(p.over(|row| row.loss), 100.0, 2)),
            ("Source behind %", &|p| Cell::around(p.over(|row| row.behind), 100.0, 2)),
            ("n", &|p| Cell::count(p.count())),
        ],
    )
    .note(note)
}

/// IPv6 beside IPv4.
pub(crate) fn ipv6(results: &Results) -> Table {
    let pairs = results.under(5, IPV6).filter_map(|six| {
        let mut points = results.of_system(5, &six.first.system);
        Some((six, points.find(|four| four.first.connections == six.first.connections)?))
    });
    let columns: &[Column<'_, (&Point, &Point)>] = &[
        ("System", &|(six, _)| label(&six.first.system).into()),
        ("Connections", &|(six, _)| Cell::count(six.first.connections)),
        ("NIC matched, %", &|(six, _)| percent(six.median(|row| row.matched), 1)),
        ("IPv4, ns", &|(_, four)| Cell::around(four.over(|row| row.ns_per_packet), 1.0, 1)),
        ("IPv6, ns", &|(six, _)| Cell::around(six.over(|row| row.ns_per_packet), 1.0, 1)),
        ("IPv6 over IPv4", &|(six, _)| {
            let (system, connections) = (&six.first.system, six.first.connections);
            Cell::number(results.traffic_ratio(system, connections, [IPV6, UNIFORM]), 2)
        }),
    ];
    let note = "Frames of 78 bytes over IPv6, of 64 over IPv4. The emulated NIC is an E810 for \
        IPv6, since the X550 matches IPv4 only.";
    Table::of("IPv6 beside IPv4", pairs, columns).note(note)
}

/// More backends than queues, beside the encodings that it is made of.
pub(crate) fn shared(results: &Results) -> Table {
    let systems = ["hnlb-queue", "hnlb-shared", "hnlb-mark"];
    let points = |system| results.of_system(5, system);
    let heads = systems.map(|system| {
        points(system).next().map_or_else(String::new, |point| {
            let (backends, queues) = (point.first.backends, point.first.queues);
            format!("{}: {backends} backends, {queues} queues", label(system))
        })
    });
    let time = |at: usize| {
        move |shared: &&Point| {
            let connections = shared.first.connections;
            let system = systems.get(at).copied().unwrap_or_default();
            let point = points(system).find(|point| point.first.connections == connections);
            Cell::around(point.and_then(|point| point.over(|row| row.ns_per_packet)), 1.0, 1)
        }
    };
    let (queue, own, mark) = (time(0), time(1), time(2));
    let [head_queue, head_own, head_mark] = heads.each_ref().map(String::as_str);
    let columns: &[Column<'_, &Point>] = &[
        ("Connections", &|p| Cell::count(p.first.connections)),
        ("NIC matched, %", &|p| percent(p.median(|row| row.matched), 1)),
        (head_queue, &queue),
        (head_own, &own),
        (head_mark, &mark),
    ];
    let (backends, named) = points("hnlb-shared")
        .next()
        .map_or((0, 0), |p| (p.first.backends, p.first.queues.saturating_sub(1)));
    let note = format!(
        "Of the {backends} backends, {named} have a queue; the others share queue 0, where the \
         rule's mark says which of them it is (the paper's section VIII). Nanoseconds per packet."
    );
    Table::of("More backends than queues", points("hnlb-shared"), columns).note(note)
}

/// Connections that the NIC of the measurement takes.
const CAPACITY: u32 = 8192;

/// Which share of the packets the connections in the NIC carry, and how far
/// HNLB is ahead by that.
pub(crate) fn heavy(results: &Results) -> Table {
    let lines = [("zipf-1.0", 1.0), ("zipf-1.2", 1.2)].into_iter().flat_map(|(traffic, alpha)| {
        let mut sizes: Vec<u64> = results.under(5, traffic).map(|p| p.first.connections).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.into_iter().map(move |connections| (traffic, alpha, connections))
    });
    let over = |one, other| {
        move |&(traffic, _, connections): &(&str, f64, u64)| {
            let chosen = |row: &crate::report::Row| {
                row.figure == 5 && row.traffic == traffic && row.connections == connections
            };
            Cell::number(results.ratio([one, other], chosen, |row| row.mpps), 2)
        }
    };
    let ratios = ["slb", "slb-bulk", "slb-paper"]
        .map(|other| [over("hnlb-queue", other), over("hnlb-mark", other)]);
    let [[queue_slb, mark_slb], [queue_bulk, mark_bulk], [queue_paper, mark_paper]] = &ratios;
    let columns: &[Column<'_, (&str, f64, u64)>] = &[
        ("Traffic", &|line| line.0.into()),
        ("Connections", &|line| Cell::count(line.2)),
        ("Share of the 8192 heaviest, by definition, %", &|&(_, alpha, connections)| {
            let count = u32::try_from(connections).ok();
            let zipf = count.and_then(|count| Zipf::new(count, alpha, 0).ok());
            percent(zipf.map(|zipf| zipf.share(CAPACITY)), 1)
        }),
        ("NIC matched, %", &|&(traffic, _, connections)| {
            let mut points =
                results.under(5, traffic).filter(|p| p.first.connections == connections);
            let seen =
                points.find(|p| ["hnlb-queue", "hnlb-mark"].contains(&p.first.system.as_str()));
            percent(seen.and_then(|point| point.median(|row| row.matched)), 1)
        }),
        ("queue over SLB (ours)", queue_slb),
        ("mark over SLB (ours)", mark_slb),
        ("queue over rte_hash in bulk", queue_bulk),
        ("mark over rte_hash in bulk", mark_bulk),
        ("queue over SLB as in the paper", queue_paper),
        ("mark over SLB as in the paper", mark_paper),
    ];
    Table::of("Heavy connections: packets they carry, and throughput by it", lines, columns)
}
