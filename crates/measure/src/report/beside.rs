//! The parts of the page beside the paper's figures: latency, new connections,
//! churn, and who carries the packets under Zipf traffic.

use traffic::Zipf;

use crate::report::figures::Figure;
use crate::report::html::{around, escaped, plot, section, table};
use crate::report::row::{IPV6, UNIFORM};
use crate::report::style::label;
use crate::report::{Estimate, Report, churns, installs, latencies, new_flows};

/// The sections for which something was measured.
pub(crate) fn sections(report: &Report, figures: &[Figure]) -> String {
    let found = report.findings();
    let mut text = String::new();
    let mut add = |study: &str, title: &str, tables: String| {
        if tables.is_empty() {
            return;
        }
        let own = figures.iter().filter(|figure| figure.study == study);
        let plots: String = own.map(plot).collect();
        text += &section(title, &format!("<div class=\"plots\">\n{plots}</div>\n{tables}"));
    };
    let both = new_table(report) + &install_table(report);
    add("latency", "Latency", if found.latency.is_empty() { String::new() } else { times(report) });
    add("new", "New connections and rule installation", both);
    add("churn", "Connections that come and go", churn_table(report));
    text
}

fn times(report: &Report) -> String {
    let rows = latencies(&report.findings().latency).into_iter().map(|point| {
        let mut cells = vec![
            escaped(label(&point.system)),
            format!("{:.0}", point.share * 100.0),
            around(&point.rate_mpps, 1.0, 2),
        ];
        cells.extend(point.percentiles.iter().map(|time| around(time, 1.0, 1)));
        cells.push(format!("{:.4}", point.loss.median * 100.0));
        cells.push(point.loss.count.to_string());
        cells
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
    let text = "<p>From the writing of a packet into its mbuf to its return to the source, which \
        polls; times in which another process had a core are among them.</p>\n";
    text.to_owned() + &table(&head, 1, rows)
}

fn new_table(report: &Report) -> String {
    let points = new_flows(&report.findings().new_flows);
    if points.is_empty() {
        return String::new();
    }
    let rows = points.into_iter().map(|point| {
        vec![
            escaped(&point.path),
            escaped(&point.part),
            point.table.to_string(),
            format!("{:.0}", point.fill * 100.0),
            around(&point.ns, 1.0, 0),
            format!("{:.2}", 1e3 / point.ns.median.max(1e-9)),
            point.ns.count.to_string(),
        ]
    });
    let head = ["Path", "Part", "Room in the table", "Full %", "ns", "Millions a second", "n"];
    let text = "<p>software: from the SYN to the connection in the table. parts: what parts of \
        that cost by themselves; the rest is receiving, the client's check, next hops and \
        sending. full: a SYN that the full table has no room for. hardware: from the SYN \
        to the rule in the emulated NIC; the worker's part is that of SYN, SYN/ACK and ACK, the \
        keeper's the offloader with the emulated NIC in place of a driver. Source, load balancer \
        and keeper take turns on one core, so packets are in its cache; only the part named is \
        measured.</p>\n";
    text.to_owned() + &table(&head, 2, rows)
}

fn install_table(report: &Report) -> String {
    let points = installs(&report.findings().installs);
    if points.is_empty() {
        return String::new();
    }
    let rows = points.into_iter().map(|point| {
        vec![
            escaped(label(&point.system)),
            around(&point.rules_per_second, 1.0, 0),
            around(&point.ns_per_packet, 1.0, 1),
            around(&point.mpps, 1.0, 2),
            point.mpps.count.to_string(),
        ]
    });
    let head = ["System", "Rules a second", "The worker's ns per packet", "Mpps", "n"];
    let text = "<h3>While rules are installed</h3>\n<p>The rules are of connections that send \
        nothing meanwhile. The keeper works on the source's core.</p>\n";
    text.to_owned() + &table(&head, 1, rows)
}

fn churn_table(report: &Report) -> String {
    let points = churns(&report.findings().churn);
    if points.is_empty() {
        return String::new();
    }
    let percent = |value: &Estimate| around(value, 100.0, 2);
    let rows = points.into_iter().map(|point| {
        vec![
            escaped(label(&point.system)),
            if point.highest { format!("highest; bound: {}", point.bound) } else { String::new() },
            if point.highest {
                around(&point.arrivals_per_second, 1.0, 0)
            } else {
                format!("{:.0}", point.arrivals_per_second.median)
            },
            around(&point.opened_per_second, 1.0, 0),
            around(&point.removed_per_second, 1.0, 0),
            around(&point.rules_made_per_second, 1.0, 0),
            around(&point.rules_undone_per_second, 1.0, 0),
            format!("{:.0}", point.connections.median),
            around(&point.mpps, 1.0, 2),
            around(&point.ns_per_packet, 1.0, 1),
            percent(&point.util),
            percent(&point.matched),
            percent(&point.loss),
            percent(&point.behind),
            point.loss.count.to_string(),
        ]
    });
    let head = [
        "System",
        "Rate without loss",
        "New a second",
        "Opened a second",
        "Forgotten a second",
        "Rules made a second",
        "Rules undone a second",
        "Open",
        "Mpps",
        "ns per packet",
        "util %",
        "NIC matched %",
        "Loss %",
        "Source behind %",
        "n",
    ];
    let text = "<p>Nine of ten connections live for 20 ms and send ten packets, the tenth lives \
        for 2 s and sends 100 a second (means of exponential distributions). Nine of ten end by \
        FIN and are forgotten 100 ms later, the tenth falls silent and is forgotten after 300 ms. \
        Clients, backends, the emulated NIC, which is asked about every packet, and the keeper \
        share the source's core; what it could not send in time is in the last but one column. \
        The highest rate without loss is searched for; its bound is what was in the way of a \
        higher one: loss, or the source, whose core had no time for more. Then util says how much \
        the load balancer had left.</p>\n";
    text.to_owned() + &table(&head, 2, rows)
}

/// IPv6 beside IPv4.
pub(crate) fn ipv6_table(report: &Report) -> String {
    let results = report.results();
    let rows: Vec<Vec<String>> = results
        .under(5, IPV6)
        .filter_map(|six| {
            let mut points = results.of_system(5, &six.system);
            let four = points.find(|point| point.connections == six.connections)?;
            let ratio = results.traffic_ratio(&six.system, six.connections, [IPV6, UNIFORM]);
            Some(vec![
                escaped(label(&six.system)),
                six.connections.to_string(),
                format!("{:.1}", six.matched.median * 100.0),
                around(&four.ns_per_packet, 1.0, 1),
                around(&six.ns_per_packet, 1.0, 1),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            ])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head =
        ["System", "Connections", "NIC matched, %", "IPv4, ns", "IPv6, ns", "IPv6 over IPv4"];
    let text = "<h3>IPv6 beside IPv4</h3>\n<p>Frames of 78 bytes over IPv6, of 64 over IPv4; the \
        emulated NIC is an E810 for IPv6, since the X550 matches IPv4 only.</p>\n";
    text.to_owned() + &table(&head, 1, rows.into_iter())
}

/// More backends than queues, beside the encodings that it is made of.
pub(crate) fn shared_table(report: &Report) -> String {
    let results = report.results();
    let systems = ["hnlb-queue", "hnlb-shared", "hnlb-mark"];
    let points = |system: &'static str| results.of_system(5, system);
    let Some(shared) = points("hnlb-shared").next() else { return String::new() };
    let rows = points("hnlb-shared").map(|row| {
        let at = |system| points(system).find(|point| point.connections == row.connections);
        let times = systems.map(|system| {
            at(system).map_or_else(String::new, |point| around(&point.ns_per_packet, 1.0, 1))
        });
        let share = format!("{:.1}", row.matched.median * 100.0);
        [vec![row.connections.to_string(), share], times.to_vec()].concat()
    });
    let what = |system: &'static str| {
        points(system).next().map_or_else(String::new, |point| {
            format!("{}: {} backends, {} queues", label(system), point.backends, point.queues)
        })
    };
    let queues = systems.map(what);
    let named = shared.queues.saturating_sub(1);
    let text = format!(
        "<h3>More backends than queues</h3>\n<p>Of the {} backends, {named} have a queue; the \
         others share queue 0, where the rule's mark says which of them it is (the paper's \
         section VIII). Nanoseconds per packet.</p>\n",
        shared.backends
    );
    let head: Vec<&str> = ["Connections", "NIC matched, %"]
        .into_iter()
        .chain(queues.iter().map(String::as_str))
        .collect();
    text + &table(&head, 0, rows)
}

/// Connections that the NIC of the measurement takes.
const CAPACITY: u32 = 8192;

/// Which share of the packets the connections in the NIC carry, and how far
/// HNLB is ahead by that.
pub(crate) fn heavy_table(report: &Report) -> String {
    let results = report.results();
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
                .map(|zipf| zipf.share(CAPACITY));
            let percent = |share: Option<f64>| {
                share.map_or_else(String::new, |share| format!("{:.1}", share * 100.0))
            };
            let over = |one: &str, other: &str| {
                let chosen = |row: &crate::report::Row| {
                    row.figure == 5 && row.traffic == traffic && row.connections == connections
                };
                let ratio = results.ratio([one, other], chosen, |row| row.mpps);
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
            };
            let seen = point("hnlb-mark").or_else(|| point("hnlb-queue"));
            rows.push(vec![
                escaped(traffic),
                connections.to_string(),
                percent(share),
                percent(seen.map(|point| point.matched.median)),
                over("hnlb-queue", "slb"),
                over("hnlb-mark", "slb"),
                over("hnlb-queue", "slb-paper"),
                over("hnlb-mark", "slb-paper"),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
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
    "<h3>Heavy connections: packets they carry, and throughput by it</h3>\n".to_owned()
        + &table(&head, 1, rows.into_iter())
}
