//! The contenders side by side.

use std::path::Path;

use super::{Contender, Measured};

/// Width of the first column and of the others.
const WIDTHS: (usize, usize) = (46, 12);

/// What the figures mean and what they don't.
const NOTES: &str = "\
Medians over the rounds.
- workers: HNLB's busy cycles (OPS of the paper's algorithm 1). The real cost of balancing once a
  card does the card's work. Counted by the clock, so it includes time in which another process had
  the processor.
- process: utime + stime. HNLB's includes the emulated NIC, AF_PACKET and polling that finds
  nothing; it uses whatever is idle. HAProxy's includes the kernel's work within its system calls,
  not what runs in soft interrupts.
- soft interrupts: of the whole machine, from /proc/stat: bridge, veth and TCP of clients and
  backends on every hop too, and of anything else that runs here. A sample at each tick, not a sum.
- over routed: the same less that of `routed`, where the kernel only forwards and backends have the
  VIP themselves. What is left for nftables is NAT and connection tracking, without the forwarding
  that HNLB's workers do as well. A difference of two large samples: it says nothing unless it is well
  above what rounds differ by (`spread`: largest less smallest).
";

/// The table with its notes.
pub(super) fn render(all: &[Measured]) -> String {
    let names = Contender::ALL.map(Contender::name);
    let mut text = line("", names.into_iter().map(ToOwned::to_owned));
    for use_ in ["keep-alive", "short"] {
        text += &format!("{use_} connections (processor time in microseconds)\n");
        let median = |system: &str, of: &dyn Fn(&Measured) -> Option<f64>| {
            let mine = all.iter().filter(|m| m.system == system && m.connections == use_);
            median(mine.filter_map(of).collect())
        };
        let mut row = |label: &str, decimals: usize, of: &dyn Fn(&Measured) -> Option<f64>| {
            text += &line(label, names.into_iter().map(|name| cell(median(name, of), decimals)));
        };
        row("  requests/s", 0, &|m| Some(m.rps));
        row("  requests failed", 0, &|m| Some(m.failed as f64));
        row("  packets into the balancer per request", 1, &|m| per(m.packets as f64, m.requests));
        row("  workers, per request", 2, &|m| per(m.worker_ns? / 1e3, m.requests));
        row("  workers, per packet", 3, &|m| per(m.worker_ns? / 1e3, m.packets));
        row("  process, per request", 2, &|m| per(m.process_ns? as f64 / 1e3, m.requests));
        row("  process, per packet", 3, &|m| per(m.process_ns? as f64 / 1e3, m.packets));
        row("  soft interrupts, per request", 2, &softirq);
        let base = median("routed", &softirq);
        let over = |m: &Measured| Some(softirq(m)? - base?);
        row("  soft interrupts, per request, over routed", 2, &over);
        let spread = |name: &str| {
            let mine = all.iter().filter(|m| m.system == name && m.connections == use_);
            let values = || mine.clone().filter_map(softirq);
            // One value says nothing of how far others would be from it.
            values().nth(1)?;
            Some(values().max_by(f64::total_cmp)? - values().min_by(f64::total_cmp)?)
        };
        row("  soft interrupts, per packet, over routed", 3, &|m| {
            per(over(m)? * m.requests as f64, m.packets)
        });
        let spreads = names.into_iter().map(|name| cell(spread(name), 2));
        text += &line("  soft interrupts, per request, spread", spreads);
    }
    text + NOTES + ipvs(Path::new("/proc/net/ip_vs").exists())
}

/// The contender that is missing.
const fn ipvs(present: bool) -> &'static str {
    if present {
        "- IPVS, the kernel's own load balancer, is here but not compared: the lab has no set-up for it.\n"
    } else {
        "- IPVS, the kernel's own load balancer, is not compared: this kernel runs without it (there is \
         no\n  /proc/net/ip_vs).\n"
    }
}

/// Microseconds of soft interrupts per request.
fn softirq(measured: &Measured) -> Option<f64> {
    per(measured.softirq_ns as f64 / 1e3, measured.requests)
}

fn per(value: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| value / count as f64)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get(values.len().saturating_sub(1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

fn cell(value: Option<f64>, decimals: usize) -> String {
    let Some(value) = value else { return "-".into() };
    let text = format!("{value:.decimals$}");
    // A trace below zero is zero.
    let zero = text.bytes().all(|byte| b"-0.".contains(&byte));
    if zero { text.trim_start_matches('-').to_owned() } else { text }
}

fn line(label: &str, cells: impl Iterator<Item = String>) -> String {
    let mut line = format!("{label:<width$}", width = WIDTHS.0);
    for cell in cells {
        line += &format!("{cell:>width$}", width = WIDTHS.1);
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(system: &str, round: u32, softirq_ns: u64) -> Measured {
        Measured {
            system: system.into(),
            connections: "short",
            round,
            requests: 1000,
            failed: 0,
            rps: 500.0,
            packets: 10_000,
            worker_ns: (system == "hnlb-mark").then_some(2e6),
            process_ns: (system != "routed").then_some(50_000_000),
            softirq_ns,
        }
    }

    #[test]
    fn a_kernel_without_ipvs_is_told() {
        assert!(ipvs(false).contains("this kernel runs without it"));
        let here = std::path::Path::new("/proc/net/ip_vs").exists();
        assert!(render(&[]).ends_with(ipvs(here)));
    }

    #[test]
    fn figures_are_medians_per_request_and_per_packet() {
        let mut all = vec![measured("hnlb-mark", 0, 20_000_000)];
        for (round, ns) in [(0, 10_000_000), (1, 90_000_000), (2, 12_000_000)] {
            all.push(measured("routed", round, ns));
            all.push(measured("nftables", round, ns + 3_000_000));
        }
        let text = render(&all);
        let find = |label: &str| {
            let line = text.lines().rev().find(|line| line.starts_with(label)).unwrap();
            line[WIDTHS.0..].split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(find("  workers, per request"), ["-", "-", "-", "-", "-", "2.00", "-"]);
        assert_eq!(find("  workers, per packet"), ["-", "-", "-", "-", "-", "0.200", "-"]);
        assert_eq!([-1e-9, -0.02].map(|v| cell(Some(v), 2)), ["0.00", "-0.02"]);
        assert_eq!(find("  process, per request")[..2], ["-", "50.00"]);
        assert_eq!(find("  soft interrupts, per request  ")[0], "12.00");
        assert_eq!(
            find("  soft interrupts, per request, over routed"),
            ["0.00", "3.00", "-", "-", "-", "8.00", "-"]
        );
        assert_eq!(find("  soft interrupts, per packet, over routed")[1], "0.300");
        assert_eq!(find("  soft interrupts, per request, spread")[..2], ["80.00", "80.00"]);
        assert_eq!(
            find("  soft interrupts, per request, spread")[2..],
            ["-"; 5],
            "one value or none"
        );
    }
}
