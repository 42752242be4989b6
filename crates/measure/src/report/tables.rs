//! Every table of the report, once for the page and the terminal.
use traffic::Zipf;

use crate::report::columns::{Cell, Table};
use crate::report::row::{IPV6, UNIFORM};
use crate::report::style::label;
use crate::report::{Findings, Point, Results, churns, installs, latencies, linearity, new_flows};

/// The points of the paper's figures.
pub(crate) fn points(results: &Results) -> Table {
    let least = results.points().iter().map(|point| point.mpps.coverage).fold(1.0, f64::min);
    let note = format!(
        "Medians over the repetitions, in brackets the confidence interval of the median by \
         order statistics (coverage at least {:.1} %). Stolen: time that other processes had on \
         the measured core, part of no other column.",
        least * 100.0
    );
    let head = [
        "System",
        "Traffic",
        "Figure",
        "Connections",
        "Bytes",
        "Offered Mpps",
        "Mpps",
        "ns per packet",
        "util %",
        "util+ %",
        "Loss %",
        "Empty polls %",
        "NIC matched %",
        "Stolen %",
        "n",
    ];
    let row = |point: &Point| {
        vec![
            label(&point.system).into(),
            Cell::from(&point.traffic),
            point.figure.into(),
            point.connections.into(),
            point.packet_size.into(),
            Cell::number(point.offered_mpps, 2),
            Cell::around(Some(point.mpps), 1.0, 2),
            Cell::around(Some(point.ns_per_packet), 1.0, 1),
            Cell::around(Some(point.util), 100.0, 1),
            Cell::around(Some(point.util_plus), 100.0, 1),
            Cell::number(Some(point.loss.median * 100.0), 3),
            Cell::number(Some(point.empty_polls.median * 100.0), 1),
            Cell::number(Some(point.matched.median * 100.0), 1),
            Cell::number(Some(point.stolen.median * 100.0), 1),
            point.mpps.count.into(),
        ]
    };
    Table::new("", 2, &head).note(note).rows(results.points().iter().map(row))
}

/// How straight util+ is, for each curve of figure 7 or 8.
pub(crate) fn straightness(results: &Results, figure: u8) -> Table {
    let (title, what) = match figure {
        7 => ("Linearity of util+ below the first loss, by connections", "Connections"),
        _ => ("Linearity of util+ below the first loss, by packet size", "Bytes"),
    };
    let rows = linearity(results, figure).into_iter().map(|curve| {
        let loss = curve.first_loss_mpps.map_or_else(|| "none".into(), |at| format!("{at:.2}"));
        let (r, off) = match curve.line {
            None => ("too few points".into(), None),
            Some(line) => (format!("{:.4}", line.r_squared), Some(line.greatest_deviation * 100.0)),
        };
        let parameter = curve.parameter.into();
        vec![label(&curve.system).into(), parameter, loss.into(), r.into(), Cell::number(off, 1)]
    });
    let head = ["System", what, "First loss, Mpps", "R²", "Greatest deviation, % points"];
    Table::new(title, 1, &head).rows(rows)
}

/// Latencies at shares of each system's own maximum rate.
pub(crate) fn latency(found: &Findings) -> Table {
    let rows = latencies(&found.latency).into_iter().map(|point| {
        let row = point.first;
        vec![
            label(&row.system).into(),
            Cell::number(Some(row.share * 100.0), 0),
            Cell::around(point.over(|row| row.rate_mpps), 1.0, 2),
            Cell::around(point.over(|row| row.p50_us), 1.0, 1),
            Cell::around(point.over(|row| row.p90_us), 1.0, 1),
            Cell::around(point.over(|row| row.p99_us), 1.0, 1),
            Cell::around(point.over(|row| row.p999_us), 1.0, 1),
            Cell::around(point.over(|row| row.p9999_us), 1.0, 1),
            Cell::number(Some(point.median(|row| row.loss) * 100.0), 4),
            point.count().into(),
        ]
    });
    let head = [
        "System",
        "% of its maximum",
        "Mpps",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "p99.9 µs",
        "p99.99 µs",
        "Loss %",
        "n",
    ];
    let note = "From the writing of a packet into its mbuf to its return to the source, which \
        polls. Times in which another process had a core are among them.";
    Table::new("Latency", 1, &head).note(note).rows(rows)
}

/// What new connections cost.
pub(crate) fn new_connections(found: &Findings) -> Table {
    let rows = new_flows(&found.new_flows).into_iter().map(|point| {
        let row = point.first;
        vec![
            Cell::from(&row.path),
            Cell::from(&row.part),
            row.table.into(),
            Cell::number(Some(row.fill * 100.0), 0),
            Cell::around(point.over(|row| row.ns), 1.0, 0),
            Cell::number(Some(1e3 / point.median(|row| row.ns).max(1e-9)), 2),
            point.count().into(),
        ]
    });
    let head = ["Path", "Part", "Room in the table", "Full %", "ns", "Millions a second", "n"];
    let note = "software: from the SYN to the connection in the table. parts: what parts of that \
        cost by themselves; the rest is receiving, the client's check, next hops and sending. full: \
        a SYN that the full table has no room for. hardware: from the SYN to the rule in the \
        emulated NIC; the worker's part is that of SYN, SYN/ACK and ACK, the keeper's the offloader \
        with the emulated NIC in place of a driver. Source, load balancer and keeper take turns on \
        one core, so packets are in its cache; only the part named is measured.";
    Table::new("New connections", 2, &head).note(note).rows(rows)
}

/// What the worker pays while rules are installed.
pub(crate) fn installation(found: &Findings) -> Table {
    let rows = installs(&found.installs).into_iter().map(|point| {
        vec![
            label(&point.first.system).into(),
            Cell::around(point.over(|row| row.rules_per_second), 1.0, 0),
            Cell::around(point.over(|row| row.ns_per_packet), 1.0, 1),
            Cell::around(point.over(|row| row.mpps), 1.0, 2),
            point.count().into(),
        ]
    });
    let head = ["System", "Rules a second", "The worker's ns per packet", "Mpps", "n"];
    let note = "The rules are of connections that send nothing meanwhile. The keeper works on the \
        source's core.";
    Table::new("While rules are installed", 1, &head).note(note).rows(rows)
}

/// Connections that come and go.
pub(crate) fn churn(found: &Findings) -> Table {
    let rows = churns(&found.churn).into_iter().map(|point| {
        let row = point.first;
        let bound = if row.highest { format!("highest; bound: {}", row.bound) } else { "".into() };
        let percent = |value| Cell::around(value, 100.0, 2);
        vec![
            label(&row.system).into(),
            bound.into(),
            Cell::around(point.over(|row| row.arrivals_per_second), 1.0, 0),
            Cell::around(point.over(|row| row.opened_per_second), 1.0, 0),
            Cell::around(point.over(|row| row.removed_per_second), 1.0, 0),
            Cell::around(point.over(|row| row.rules_made_per_second), 1.0, 0),
            Cell::around(point.over(|row| row.rules_undone_per_second), 1.0, 0),
            Cell::number(Some(point.median(|row| row.connections as f64)), 0),
            Cell::around(point.over(|row| row.mpps), 1.0, 2),
            Cell::around(point.over(|row| row.ns_per_packet), 1.0, 1),
            percent(point.over(|row| row.util)),
            percent(point.over(|row| row.matched)),
            percent(point.over(|row| row.loss)),
            percent(point.over(|row| row.behind)),
            point.count().into(),
        ]
    });
    let head = [
        "System",
        "Rate without loss",
        "New a second",
        "Opened a second",
        "Removed a second",
        "Rules made a second",
        "Rules destroyed a second",
        "Open",
        "Mpps",
        "ns per packet",
        "util %",
        "NIC matched %",
        "Loss %",
        "Source behind %",
        "n",
    ];
    let note = "Nine of ten connections live for 20 ms and send ten packets, the tenth lives for \
        2 s and sends 100 a second (means of exponential distributions). Nine of ten end by FIN and \
        are removed 100 ms later, the tenth falls silent and is removed after 300 ms. Clients, \
        backends, the emulated NIC, which decides about every packet, and the keeper share the \
        source's core; packets that this core could not send in time are in the last but one column. \
        The highest rate without loss is searched for; its bound is what was in the way of a higher \
        one: loss, or the source, whose core had no time for more. Then util says how much the load \
        balancer had left.";
    Table::new("Connections that come and go", 2, &head).note(note).rows(rows)
}

/// IPv6 beside IPv4.
pub(crate) fn ipv6(results: &Results) -> Table {
    let rows = results.under(5, IPV6).filter_map(|six| {
        let mut points = results.of_system(5, &six.system);
        let four = points.find(|point| point.connections == six.connections)?;
        let ratio = results.traffic_ratio(&six.system, six.connections, [IPV6, UNIFORM]);
        Some(vec![
            label(&six.system).into(),
            six.connections.into(),
            Cell::number(Some(six.matched.median * 100.0), 1),
            Cell::around(Some(four.ns_per_packet), 1.0, 1),
            Cell::around(Some(six.ns_per_packet), 1.0, 1),
            Cell::number(ratio, 2),
        ])
    });
    let head =
        ["System", "Connections", "NIC matched, %", "IPv4, ns", "IPv6, ns", "IPv6 over IPv4"];
    let note = "Frames of 78 bytes over IPv6, of 64 over IPv4. The emulated NIC is an E810 for \
        IPv6, since the X550 matches IPv4 only.";
    Table::new("IPv6 beside IPv4", 1, &head).note(note).rows(rows)
}

/// More backends than queues, beside the encodings that it is made of.
pub(crate) fn shared(results: &Results) -> Table {
    let systems = ["hnlb-queue", "hnlb-shared", "hnlb-mark"];
    let points = |system: &'static str| results.of_system(5, system);
    let rows = points("hnlb-shared").map(|row| {
        let time = |system| {
            let point = points(system).find(|point| point.connections == row.connections);
            Cell::around(point.map(|point| point.ns_per_packet), 1.0, 1)
        };
        let share = Cell::number(Some(row.matched.median * 100.0), 1);
        [vec![row.connections.into(), share], systems.map(time).to_vec()].concat()
    });
    let what = |system: &'static str| {
        points(system).next().map_or_else(String::new, |point| {
            format!("{}: {} backends, {} queues", label(system), point.backends, point.queues)
        })
    };
    let queues = systems.map(what);
    let (backends, named) = points("hnlb-shared")
        .next()
        .map_or((0, 0), |shared| (shared.backends, shared.queues.saturating_sub(1)));
    let note = format!(
        "Of the {backends} backends, {named} have a queue; the others share queue 0, where the \
         rule's mark says which of them it is (the paper's section VIII). Nanoseconds per packet."
    );
    let head: Vec<&str> = ["Connections", "NIC matched, %"]
        .into_iter()
        .chain(queues.iter().map(String::as_str))
        .collect();
    Table::new("More backends than queues", 0, &head).note(note).rows(rows)
}

/// Connections that the NIC of the measurement takes.
const CAPACITY: u32 = 8192;

/// Which share of the packets the connections in the NIC carry, and how far
/// HNLB is ahead by that.
pub(crate) fn heavy(results: &Results) -> Table {
    let mut rows = Vec::new();
    for (traffic, alpha) in [("zipf-1.0", 1.0), ("zipf-1.2", 1.2)] {
        let mut sizes: Vec<u64> = results.under(5, traffic).map(|p| p.connections).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for connections in sizes {
            let point = |system: &str| {
                let mut points = results.under(5, traffic);
                points.find(|p| p.connections == connections && p.system == system)
            };
            let share = u32::try_from(connections)
                .ok()
                .and_then(|count| Zipf::new(count, alpha, 0).ok())
                .map(|zipf| zipf.share(CAPACITY) * 100.0);
            let over = |one: &str, other: &str| {
                let chosen = |row: &crate::report::Row| {
                    row.figure == 5 && row.traffic == traffic && row.connections == connections
                };
                Cell::number(results.ratio([one, other], chosen, |row| row.mpps), 2)
            };
            let seen = point("hnlb-mark").or_else(|| point("hnlb-queue"));
            rows.push(vec![
                traffic.into(),
                connections.into(),
                Cell::number(share, 1),
                Cell::number(seen.map(|point| point.matched.median * 100.0), 1),
                over("hnlb-queue", "slb"),
                over("hnlb-mark", "slb"),
                over("hnlb-queue", "slb-paper"),
                over("hnlb-mark", "slb-paper"),
            ]);
        }
    }
    let head = [
        "Traffic",
        "Connections",
        "Share of the 8192 heaviest, by definition, %",
        "NIC matched, %",
        "queue over SLB (ours)",
        "mark over SLB (ours)",
        "queue over SLB as in the paper",
        "mark over SLB as in the paper",
    ];
    let title = "Heavy connections: packets they carry, and throughput by it";
    Table::new(title, 1, &head).rows(rows.into_iter())
}
