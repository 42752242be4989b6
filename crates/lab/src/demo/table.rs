//! The runs side by side.

use super::RunReport;
use crate::column::Column;
use crate::topology::BACKENDS;

/// Width of the first column and of the others.
const WIDTHS: (usize, usize) = (44, 16);

/// The table, one column a run, with the notes that belong to it.
pub(super) fn render(reports: &[RunReport]) -> String {
    let mut text = row(
        "",
        reports.iter().map(|report| match report.column {
            Column::Off => "off (SLB)".to_owned(),
            other => other.name().to_owned(),
        }),
    );
    let mut line = |label: &str, cell: &dyn Fn(&RunReport) -> String| {
        text += &row(label, reports.iter().map(cell));
    };
    line("requests served", &|r| r.served().to_string());
    line("requests failed", &|r| r.failed().to_string());
    for (at, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
        line(&format!("  requests/s, long connections, {family}"), &|r| rate(r.long.get(at)));
        line(&format!("  requests/s, short connections, {family}"), &|r| rate(r.short.get(at)));
        line(&format!("  DNS queries/s, {family}"), &|r| {
            r.dns.get(at).map_or_else(String::new, |dns| format!("{:.0}", dns.qps))
        });
    }
    for host in &BACKENDS {
        line(&format!("HTTP requests to backend {}", host.name), &|r| {
            let backends = r.backends();
            let all: u64 = backends.values().sum();
            percent(backends.get(host.name).copied().unwrap_or(0), all)
        });
    }
    line("HTTP connections opened", &|r| r.connections().to_string());
    line("connections entered in HNLB's table", &|r| r.last.connections.created.to_string());
    for (at, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let label = format!("{family} packets of long connections");
        line(&format!("{label}, by NIC"), &|r| {
            r.matches.get(at).map_or_else(String::new, |m| percent(m.matched, m.matched + m.missed))
        });
        line(&format!("{label}, software"), &|r| {
            r.matches.get(at).map_or_else(String::new, |m| percent(m.missed, m.matched + m.missed))
        });
    }
    line("NIC rules in use / capacity", &|r| {
        format!("{} / {}", r.loaded.nic.rules, r.loaded.nic.capacity)
    });
    let workers = reports.iter().map(|report| report.utilization.len()).max().unwrap_or(0);
    for at in 0..workers {
        line(&format!("util, long IPv4 connections, worker {at}"), &|r| {
            r.utilization.get(at).map_or_else(String::new, |(util, _)| share(*util))
        });
        line(&format!("util+, long IPv4 connections, worker {at}"), &|r| {
            r.utilization.get(at).map_or_else(String::new, |(_, plus)| share(*plus))
        });
    }
    text + "\n\
        The emulated NIC runs on a core of its own and plays the hardware; util and util+ are the \
        worker's alone.\n\
        The x550 profile matches IPv4 only, so IPv6 is looked up in software; rewrite runs on the \
        connectx profile. With xdp the \
        kernel is the NIC. A NAT connection takes two rules, one that is answered past HNLB takes \
        one.\n"
}

fn share(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn rate(result: Option<&crate::load::HttpResult>) -> String {
    result.map_or_else(String::new, |result| format!("{:.0}", result.rps))
}

#[allow(clippy::cast_precision_loss)]
fn percent(part: u64, all: u64) -> String {
    if all == 0 { "-".into() } else { format!("{:.1} %", part as f64 * 100.0 / all as f64) }
}

fn row(label: &str, cells: impl Iterator<Item = String>) -> String {
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
    use crate::load::{DnsResult, HttpResult};
    use crate::status::{Matches, Status};

    fn report(column: Column) -> RunReport {
        let backends = BACKENDS.iter().map(|host| (host.name.to_owned(), 25)).collect();
        let http = HttpResult { requests: 100, backends, rps: 50.0, ..HttpResult::default() };
        let dns = DnsResult { sent: 10, completed: 10, ..DnsResult::default() };
        RunReport {
            column,
            long: [http.clone(), http.clone()],
            short: [http.clone(), http],
            dns: [dns, dns],
            checks: 18,
            wrong: vec![],
            matches: [Matches { matched: 99, missed: 1 }, Matches { matched: 0, missed: 10 }],
            utilization: vec![(0.5, 0.25)],
            loaded: Status::default(),
            last: Status::default(),
        }
    }

    #[test]
    fn a_run_has_a_column() {
        let text = render(&[report(Column::Mark), report(Column::Off)]);
        let find = |label: &str| {
            let line = text.lines().find(|line| line.starts_with(label)).unwrap();
            line[WIDTHS.0..]
                .split("  ")
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .collect::<Vec<_>>()
        };
        assert_eq!(text.lines().next().unwrap().split_whitespace().next(), Some("mark"));
        assert_eq!(find("requests served"), ["438", "438"]);
        assert_eq!(find("HTTP requests to backend b3"), ["25.0 %", "25.0 %"]);
        assert_eq!(find("IPv4 packets of long connections, by NIC"), ["99.0 %", "99.0 %"]);
        assert_eq!(find("IPv6 packets of long connections, by NIC"), ["0.0 %", "0.0 %"]);
        assert_eq!(find("util+, long IPv4 connections, worker 0"), ["25.0 %", "25.0 %"]);
    }

    #[test]
    fn a_run_as_it_should_be_has_no_failures() {
        for column in [Column::Mark, Column::Queue, Column::Off] {
            assert_eq!(report(column).failures(), Vec::<String>::new());
        }
    }

    #[test]
    fn each_way_to_fail_is_named() {
        let mut bad = report(Column::Mark);
        bad.long[0].failed = 1;
        bad.dns[1].lost = 2;
        bad.short[1] = HttpResult::default();
        bad.matches[0] = Matches { matched: 9, missed: 1 };
        bad.wrong.push("curl: no".into());
        for http in bad.long.iter_mut().chain(&mut bad.short) {
            http.backends.remove("b4");
        }
        let text = bad.failures().join("\n");
        for part in [
            "1 of 101 requests over long IPv4",
            "2 of 10 IPv6 DNS",
            "no requests over short IPv6",
            "backend b4",
            "90.0 %",
            "curl: no",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(bad.failures().len(), 6);
        assert_eq!(bad.failed(), 4);
        bad.column = Column::Off;
        assert_eq!(bad.failures().len(), 5, "SLB matches nothing in the NIC");
        bad.column = Column::Xdp;
        assert_eq!(bad.failures().len(), 7, "the kernel matches both families");
    }
}
