//! The paper's figures 4 to 8 from our points.

use crate::report::bars::{Bars, Series};
use crate::report::chart::{Chart, Curve, Spot};
use crate::report::row::UNIFORM;
use crate::report::style::{SHADES, STYLES, Style, short};
use crate::report::summary::Sweep;
use crate::report::{
    ChurnRow, Estimate, Findings, Group, LatencyRow, NewFlowRow, Point, ReportError, Results,
    churns, latencies, new_flows,
};

/// One plot.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The paper's figure; 0: none.
    pub number: u8,
    /// What it belongs to, if it is none of the paper's: `latency`, `new`, `churn`.
    pub study: &'static str,
    /// Name of its file, without `.svg`.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// The plot.
    pub svg: String,
}

/// The systems that figures 7 and 8 set against each other: those of the
/// paper, and ours.
const PAIRS: [([&str; 2], &str); 2] =
    [(["slb-paper", "hnlb-queue"], "the paper's pair"), (["slb", "hnlb-mark"], "ours")];

/// All plots for which there are points.
///
/// # Errors
/// [`ReportError::Plot`].
pub fn figures(results: &Results) -> Result<Vec<Figure>, ReportError> {
    let mut found = Vec::new();
    let mut add = |number: u8, name: &str, caption: String, svg: String| {
        let name = name.to_owned();
        found.push(Figure { number, study: "", name, caption, svg });
    };
    if results.figure(4).next().is_some() {
        let caption = "Best case: one flow, one backend, one queue, 64 bytes";
        add(
            4,
            "figure4",
            format!("{caption}. {PALE}"),
            bars(results, 4, caption, |_| 0, |_| "1 flow".into())?,
        );
    }
    if results.figure(5).next().is_some() {
        let caption = "Maximum throughput against connections, 64 bytes";
        let svg = connections(results, UNIFORM, caption, "Mpps", |p| p.mpps)?;
        let more = "Clients' packets to ten backends, mode `nat`, two table entries per connection; 8192 \
            entries in the NIC.";
        add(5, "figure5", format!("{caption}. {more} {HOLLOW}"), svg);
        let caption = "Busy time per packet against connections, 64 bytes";
        let svg = connections(results, UNIFORM, caption, "ns per packet", |p| p.ns_per_packet)?;
        add(5, "figure5-ns", format!("{caption}. {HOLLOW}"), svg);
    }
    for (traffic, what) in OTHER_TRAFFIC {
        if results.under(5, traffic).next().is_none() {
            continue;
        }
        let title = format!("Throughput, {what}");
        let svg = connections(results, traffic, &title, "Mpps", |p| p.mpps)?;
        add(5, &format!("figure5-{traffic}"), format!("{title}, 64 bytes"), svg);
        let title = format!("Busy time per packet, {what}");
        let svg = connections(results, traffic, &title, "ns per packet", |p| p.ns_per_packet)?;
        add(5, &format!("figure5-{traffic}-ns"), format!("{title}, 64 bytes"), svg);
    }
    if let Some(svg) = thesis_sets(results)? {
        let caption = "Busy time per packet with the LASLB thesis' traffic sets at 10 Gbit/s: 1 \
            balanced, 2 with 20 elephants, 3 UDP; frames of 64 to 1504 bytes";
        add(5, "figure5-laslb", caption.into(), svg);
    }
    if results.figure(6).next().is_some() {
        let caption = "Maximum throughput by packet size in bytes";
        let svg = bars(results, 6, caption, |p| u64::from(p.packet_size), |s| s.to_string())?;
        add(6, "figure6", format!("{caption}. {PALE}"), svg);
    }
    for number in [7, 8] {
        for (systems, pair) in PAIRS {
            for (value, suffix) in [("util+", "plus"), ("util", "util")] {
                let [slb, hnlb] = systems;
                if systems.iter().all(|s| results.of_system(number, s).next().is_none()) {
                    continue;
                }
                let what = if number == 7 { "connections" } else { "packet size" };
                let title = format!("{value} against offered rate by {what}, {pair}");
                let caption = format!(
                    "{title}. Solid: {slb}, dashed: {hnlb}; upright lines: first loss; rings: \
                    another process had a core for much of the time."
                );
                let svg = sweep(results, number, systems, &title, value)?;
                add(number, &format!("figure{number}-{suffix}-{slb}"), caption, svg);
            }
        }
    }
    Ok(found)
}

/// What rings and pale bars mean in saturation runs.
const HOLLOW: &str = "Rings: the load balancer waited for the source (util below 90 %), or another \
    process had its core for much of the time; it can do more than is shown.";
const PALE: &str = "Pale: the load balancer waited for the source (util below 90 %), or another \
    process had its core for much of the time; it can do more than is shown.";

/// Traffic of figure 5 that the paper hasn't.
const OTHER_TRAFFIC: [(&str, &str); 3] = [
    ("zipf-1.0", "Zipf 1.0, 8192 in the NIC"),
    ("zipf-1.2", "Zipf 1.2, 8192 in the NIC"),
    ("both-ways", "NAT: requests and replies by turns"),
];

/// The thesis' traffic sets side by side; `None` if there are none.
fn thesis_sets(results: &Results) -> Result<Option<String>, ReportError> {
    let sets = ["laslb-1", "laslb-2", "laslb-3"];
    let there: Vec<&str> =
        sets.into_iter().filter(|set| results.under(5, set).next().is_some()).collect();
    if there.is_empty() {
        return Ok(None);
    }
    let series = series(&there, |system, set| {
        let mut points = results.under(5, set).filter(|point| point.system == system);
        points.next().map(|point| (point.ns_per_packet, false))
    });
    let bars = Bars {
        title: "Busy time per packet, traffic sets of the LASLB thesis".into(),
        x_label: "traffic set".into(),
        y_label: "ns per packet".into(),
        series,
        categories: there.iter().map(|set| set.trim_start_matches("laslb-").to_owned()).collect(),
    };
    bars.svg().map(Some)
}

/// The plots of latency, new connections and churn for which there are points.
pub(crate) fn study_figures(findings: &Findings) -> Result<Vec<Figure>, ReportError> {
    let mut found = Vec::new();
    let mut add = |study: &'static str, name: &str, caption: &str, svg: String| {
        let (name, caption) = (name.to_owned(), caption.to_owned());
        found.push(Figure { number: 0, study, name, caption, svg });
    };
    let points = latencies(&findings.latency);
    type Percentile = fn(&LatencyRow) -> f64;
    let percentiles: [(&str, Percentile); 3] =
        [("p50", |row| row.p50_us), ("p99", |row| row.p99_us), ("p99.99", |row| row.p9999_us)];
    for (name, time) in percentiles {
        if points.is_empty() {
            break;
        }
        let title = format!("Latency against load, {name}");
        let svg = latency(&points, &title, time)?;
        add("latency", &format!("latency-{name}"), &title, svg);
    }
    let points = new_flows(&findings.new_flows);
    if points.iter().any(|point| point.first.path == "software") {
        let title = "Time for a new connection in software, by the table's size";
        add("new", "new", title, fresh(&points, title)?);
    }
    let points = churns(&findings.churn);
    if !points.is_empty() {
        let title = "Busy time per packet with connections that come and go";
        add("churn", "churn", title, churn(&points, title)?);
    }
    Ok(found)
}

fn latency(
    points: &[Group<'_, LatencyRow>],
    title: &str,
    time: fn(&LatencyRow) -> f64,
) -> Result<String, ReportError> {
    let curves = curves(|system| {
        let own = points.iter().filter(|point| point.first.system == system);
        own.filter_map(|p| Some(Spot::new(p.first.share * 100.0, &p.over(time)?))).collect()
    });
    let chart = Chart {
        title: title.into(),
        x_label: "% of the system's own maximum rate".into(),
        y_label: "microseconds".into(),
        log_x: false,
        log_y: true,
        y_max: None,
        curves,
    };
    chart.svg()
}

fn fresh(points: &[Group<'_, NewFlowRow>], title: &str) -> Result<String, ReportError> {
    let software = || points.iter().filter(|point| point.first.path == "software");
    let mut fills: Vec<f64> = software().map(|point| point.first.fill).collect();
    fills.sort_by(f64::total_cmp);
    fills.dedup();
    let curves = fills.iter().zip(SHADES).map(|(fill, color)| Curve {
        label: format!("{:.0} % full", fill * 100.0),
        color,
        dashed: false,
        points: software()
            .filter(|point| point.first.fill == *fill)
            .filter_map(|p| Some(Spot::new(p.first.table as f64, &p.over(|row| row.ns)?)))
            .collect(),
        mark: None,
    });
    let chart = Chart {
        title: title.into(),
        x_label: "connections that the table has room for".into(),
        y_label: "ns per new connection".into(),
        log_x: true,
        log_y: false,
        y_max: None,
        curves: curves.collect(),
    };
    chart.svg()
}

fn churn(points: &[Group<'_, ChurnRow>], title: &str) -> Result<String, ReportError> {
    let rate = |point: &Group<'_, ChurnRow>| point.first.arrivals_per_second as u64;
    let points: Vec<_> = points.iter().filter(|point| !point.first.highest).collect();
    let mut rates: Vec<u64> = points.iter().map(|point| rate(point)).collect();
    rates.sort_unstable();
    rates.dedup();
    let series = series(&rates, |system, wanted| {
        let mut own = points.iter().filter(|point| point.first.system == system);
        Some((own.find(|p| rate(p) == *wanted)?.over(|row| row.ns_per_packet)?, false))
    });
    let bars = Bars {
        title: title.into(),
        x_label: "new connections a second".into(),
        y_label: "ns per packet".into(),
        series,
        categories: rates.iter().map(|rate| short(*rate)).collect(),
    };
    bars.svg()
}

/// The bars of every system that has a value, one a category, each with whether
/// it is pale.
fn series<C>(
    categories: &[C],
    value: impl Fn(&str, &C) -> Option<(Estimate, bool)>,
) -> Vec<Series> {
    let of = |style: &Style| {
        let own: Vec<_> = categories.iter().map(|category| value(style.system, category)).collect();
        let pale = own.iter().map(|value| value.is_some_and(|(_, pale)| pale)).collect();
        let values: Vec<_> = own.iter().map(|value| value.map(|(value, _)| value)).collect();
        let some = values.iter().any(Option::is_some);
        some.then(|| Series { label: style.label.into(), color: style.color, values, pale })
    };
    STYLES.iter().filter_map(of).collect()
}

/// The curve of every system that has a point.
fn curves(points: impl Fn(&str) -> Vec<Spot>) -> Vec<Curve> {
    let of = |style: &Style| {
        let Style { color, dashed, .. } = *style;
        let points = points(style.system);
        let label = style.label.into();
        (!points.is_empty()).then_some(Curve { label, color, dashed, points, mark: None })
    };
    STYLES.iter().filter_map(of).collect()
}

fn bars(
    results: &Results,
    figure: u8,
    title: &str,
    category: impl Fn(&Point) -> u64,
    name: impl Fn(u64) -> String,
) -> Result<String, ReportError> {
    let mut categories: Vec<u64> = results.figure(figure).map(&category).collect();
    categories.sort_unstable();
    categories.dedup();
    let series = series(&categories, |system, wanted| {
        let point = results.of_system(figure, system).find(|point| category(point) == *wanted)?;
        Some((point.mpps, point.is_doubtful()))
    });
    let bars = Bars {
        title: title.into(),
        x_label: if figure == 6 { "packet size in bytes".into() } else { String::new() },
        y_label: "Mpps".into(),
        series,
        categories: categories.into_iter().map(name).collect(),
    };
    bars.svg()
}

fn connections(
    results: &Results,
    traffic: &str,
    title: &str,
    y_label: &str,
    value: impl Fn(&Point) -> Estimate,
) -> Result<String, ReportError> {
    let curves = curves(|system| {
        let own = results.under(5, traffic).filter(|point| point.system == system);
        let spot = |point: &Point| Spot {
            hollow: point.is_doubtful(),
            ..Spot::new(point.connections as f64, &value(point))
        };
        own.map(spot).collect()
    });
    let chart = Chart {
        title: title.into(),
        x_label: "concurrent connections".into(),
        y_label: y_label.into(),
        log_x: true,
        log_y: false,
        y_max: None,
        curves,
    };
    chart.svg()
}

/// Series of figures 7 and 8: a number of connections or a packet size.
pub(crate) fn parameter(figure: u8, point: &Point) -> u64 {
    if figure == 7 { point.connections } else { u64::from(point.packet_size) }
}

/// All numbers of connections, or packet sizes, of figure 7 or 8.
pub(crate) fn parameters(results: &Results, figure: u8) -> Vec<u64> {
    let mut found: Vec<u64> = results.figure(figure).map(|p| parameter(figure, p)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn sweep(
    results: &Results,
    figure: u8,
    systems: [&str; 2],
    title: &str,
    value: &str,
) -> Result<String, ReportError> {
    let mut curves = Vec::new();
    let parameters = parameters(results, figure);
    for (system, dashed) in systems.into_iter().zip([false, true]) {
        for (wanted, color) in parameters.iter().zip(SHADES.iter().cycle()) {
            let points = results.of_system(figure, system);
            let sweep = Sweep::of(points.filter(|p| parameter(figure, p) == *wanted));
            if sweep.points.is_empty() {
                continue;
            }
            let unit = if figure == 7 { "conn." } else { "bytes" };
            let at = |point: &&Point| {
                let value = if value == "util" { point.util } else { point.util_plus };
                let percent = |v: f64| v * 100.0;
                Spot {
                    x: point.offered(),
                    y: percent(value.median),
                    low: percent(value.low),
                    high: percent(value.high),
                    hollow: point.is_doubtful(),
                }
            };
            curves.push(Curve {
                label: format!("{system}, {} {unit}", short(*wanted)),
                color: *color,
                dashed,
                points: sweep.points.iter().map(at).collect(),
                mark: sweep.first_loss(),
            });
        }
    }
    let chart = Chart {
        title: title.into(),
        x_label: "offered Mpps".into(),
        y_label: format!("{value} in %"),
        log_x: false,
        log_y: false,
        y_max: Some(105.0),
        curves,
    };
    chart.svg()
}
