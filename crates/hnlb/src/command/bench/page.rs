//! What was measured, for people.
use measure::report::{Estimate, Findings, Report, linearity};

/// What every reader has to know.
const APART: &str = "The NIC and the traffic source run on one core, the load balancer on the other; \
    only the load balancer is measured.\n";
/// The same with one core.
pub(super) const ALONE: &str = "In saturation runs the NIC and the traffic source run by turns with \
    the load balancer on one core; only the load balancer is measured.";

/// Of a run whose figures say nothing.
pub(super) const BUSY: &str = "What was measured while other processes had the cores counts, too: \
    these figures say nothing of speed.";

/// Of a run that did not end by itself.
pub(super) const INTERRUPTED: &str = "The run was interrupted: some points are missing, and some were \
    measured less often than the settings say.";

/// Medians over the repetitions.
pub(super) fn page(report: &Report, alone: bool) -> String {
    let mut page = if alone { ALONE.to_owned() + "\n" } else { APART.to_owned() };
    for (name, value) in &report.settings {
        page += &format!("{name}: {value}\n");
    }
    page += &points(report);
    page += &straightness(report);
    let Findings { latency, new_flows, installs, churn, .. } = report.findings();
    if !latency.is_empty() {
        page += &format!(
            "\nLatency, microseconds\n{:<12} {:>5} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>3}\n",
            "system", "share", "Mpps", "p50", "p90", "p99", "p99.9", "p99.99", "loss", "n"
        );
    }
    for point in measure::report::latencies(latency) {
        page += &format!(
            "{:<12} {:>5.2} {:>7.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>7.4} {:>3}\n",
            point.system,
            point.share,
            point.rate_mpps.median,
            point.percentiles[0].median,
            point.percentiles[1].median,
            point.percentiles[2].median,
            point.percentiles[3].median,
            point.percentiles[4].median,
            point.loss.median,
            point.loss.count,
        );
    }
    page += &heading(
        new_flows.is_empty(),
        "\nNew connections",
        &format!(
            "{:<9} {:<8} {:>8} {:>5} {:>9} {:>12}",
            "path", "part", "table", "fill", "ns", "per second"
        ),
    );
    for point in measure::report::new_flows(new_flows) {
        page += &format!(
            "{:<9} {:<8} {:>8} {:>4.0}% {:>9.1} {:>12.0} {:>3}\n",
            point.path,
            point.part,
            point.table,
            point.fill * 100.0,
            point.ns.median,
            1e9 / point.ns.median.max(1e-9),
            point.ns.count,
        );
    }
    page += &heading(
        installs.is_empty(),
        "\nWhile rules are installed",
        &format!("{:<12} {:>15} {:>8} {:>8}", "system", "rules a second", "ns", "Mpps"),
    );
    for point in measure::report::installs(installs) {
        page += &format!(
            "{:<12} {:>15.0} {:>8.1} {:>8.2} {:>3}\n",
            point.system,
            point.rules_per_second.median,
            point.ns_per_packet.median,
            point.mpps.median,
            point.mpps.count,
        );
    }
    page += &heading(
        churn.is_empty(),
        "\nConnections that come and go",
        &format!(
            "{:<12} {:>9} {:>9} {:>9} {:>7} {:>8} {:>6} {:>6} {:>7} {:>5} {:>7} {:>7} {:>7} {:<10}",
            "system",
            "asked/s",
            "opened/s",
            "forgot/s",
            "rules/s",
            "undone/s",
            "open",
            "Mpps",
            "ns",
            "util",
            "by NIC",
            "loss",
            "behind",
            "bound"
        ),
    );
    for point in measure::report::churns(churn) {
        page += &format!(
            "{:<12} {:>9.0} {:>9.0} {:>9.0} {:>7.0} {:>8.0} {:>6.0} {:>6.2} {:>7.1} {:>5.2} {:>6.1}% \
             {:>7.4} {:>7.4} {:<10} {:>3}\n",
            point.system,
            point.arrivals_per_second.median,
            point.opened_per_second.median,
            point.removed_per_second.median,
            point.rules_made_per_second.median,
            point.rules_undone_per_second.median,
            point.connections.median,
            point.mpps.median,
            point.ns_per_packet.median,
            point.util.median,
            point.matched.median * 100.0,
            point.loss.median,
            point.behind.median,
            point.bound,
            point.loss.count,
        );
    }
    page
}

fn heading(nothing: bool, title: &str, columns: &str) -> String {
    if nothing { String::new() } else { format!("{title}\n{columns}   n\n") }
}

/// The points of the paper's figures.
fn points(report: &Report) -> String {
    let points = report.results().points();
    if points.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "{:>3} {:<12} {:>11} {:>6} {:<9} {:>9} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6} {:>3}\n",
        "fig",
        "system",
        "connections",
        "bytes",
        "traffic",
        "offered",
        "Mpps",
        "ns",
        "util",
        "util+",
        "loss",
        "empty",
        "by NIC",
        "n"
    );
    for point in points {
        let offered =
            point.offered_mpps.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.2}"));
        let Estimate { median, count, .. } = point.mpps;
        text += &format!(
            "{:>3} {:<12} {:>11} {:>6} {:<9} {:>9} {:>8.2} {:>8.1} {:>6.2} {:>6.2} {:>6.3} {:>6.2} \
             {:>6.3} {:>3}\n",
            point.figure,
            point.system,
            point.connections,
            point.packet_size,
            point.traffic,
            offered,
            median,
            point.ns_per_packet.median,
            point.util.median,
            point.util_plus.median,
            point.loss.median,
            point.empty_polls.median,
            point.matched.median,
            count,
        );
    }
    text
}

/// How linear util+ is.
fn straightness(report: &Report) -> String {
    let mut text = String::new();
    for figure in [7, 8] {
        let curves = linearity(report.results(), figure);
        if curves.is_empty() {
            continue;
        }
        let what = if figure == 7 { "connections" } else { "bytes" };
        text += &format!(
            "\nFigure {figure}: linearity of util+ below the first loss\n{:<12} {:>11} {:>10} {:>8} {:>9}\n",
            "system", what, "first loss", "R2", "deviation"
        );
        for curve in curves {
            let loss =
                curve.first_loss_mpps.map_or_else(|| "-".to_owned(), |at| format!("{at:.2}"));
            let (fit, off) = curve.line.map_or_else(
                || ("-".to_owned(), "-".to_owned()),
                |line| {
                    (format!("{:.4}", line.r_squared), format!("{:.4}", line.greatest_deviation))
                },
            );
            text += &format!(
                "{:<12} {:>11} {loss:>10} {fit:>8} {off:>9}\n",
                curve.system, curve.parameter
            );
        }
    }
    text
}
