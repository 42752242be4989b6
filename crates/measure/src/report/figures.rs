//! Every plot of the report, from the points of a run.
use plotters::style::RGBColor;

use crate::report::plot::{Plot, Series, Spot, XAxis};
use crate::report::points::{Group, Point, Results, Sweep, offered, parameter};
use crate::report::rows::{Findings, LatencyRow, Row, UNIFORM};
use crate::report::style::{SHADES, STYLES, short};
use crate::report::{Estimate, ReportError, churns, latencies, new_flows, workers};

/// One plot.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The section of the page: the paper's figure, or `latency`, `new`, `churn`,
    /// `workers`.
    pub section: String,
    /// Name of its file, without `.svg`.
    pub name: String,
    /// What it shows.
    pub caption: String,
    /// The plot.
    pub svg: String,
}

/// What rings and pale bars mean in saturation runs.
const HOLLOW: &str = "Rings and pale bars: the load balancer waited for the source (util below \
    90 %), or another process had its core for much of the time; it can do more than is shown.";

/// Traffic of figure 5 that the paper hasn't.
const OTHER_TRAFFIC: [(&str, &str); 4] = [
    ("zipf-1.0", "Zipf 1.0, 8192 in the NIC"),
    ("zipf-1.2", "Zipf 1.2, 8192 in the NIC"),
    ("both-ways", "NAT: requests and replies by turns"),
    ("dsr", "mode dsr: the table has one key a connection"),
];

/// The systems that figures 7 and 8 set against each other: those of the
/// paper, and ours.
const PAIRS: [([&str; 2], &str); 2] =
    [(["slb-paper", "hnlb-queue"], "the paper's pair"), (["slb", "hnlb-mark"], "ours")];

/// The plots that have been drawn.
#[derive(Default)]
struct Drawn(Vec<Figure>);

impl Drawn {
    /// Draws a plot that has something to show; `more` follows its title in the
    /// caption.
    fn add(
        &mut self,
        section: &str,
        name: &str,
        more: &str,
        plot: Plot,
    ) -> Result<(), ReportError> {
        if plot.series.iter().all(|series| series.points.is_empty()) {
            return Ok(());
        }
        let caption = format!("{}. {more}", plot.title).trim_end().to_owned();
        let (section, name) = (section.to_owned(), name.to_owned());
        self.0.push(Figure { section, name, caption, svg: plot.svg()? });
        Ok(())
    }
}

/// All plots for which there are points.
///
/// # Errors
/// [`ReportError::Plot`].
pub fn figures(found: &Findings, results: &Results) -> Result<Vec<Figure>, ReportError> {
    let mut drawn = Drawn::default();
    let caption = "Best case: one flow, one backend, one queue, 64 bytes";
    drawn.add("4", "figure4", HOLLOW, by_name(results, 4, caption, |_| 0, |_| "1 flow".into()))?;
    let caption = "Maximum throughput against connections, 64 bytes";
    let more = "Clients' packets to ten backends, mode nat, two table entries per connection; 8192 \
        connections in the NIC.";
    let plot = by_connections(results, UNIFORM, caption, "Mpps", |row| row.mpps);
    drawn.add("5", "figure5", &format!("{more} {HOLLOW}"), plot)?;
    let caption = "Busy time per packet against connections, 64 bytes";
    let plot = by_connections(results, UNIFORM, caption, "ns per packet", |row| row.ns_per_packet);
    drawn.add("5", "figure5-ns", HOLLOW, plot)?;
    for (traffic, what) in OTHER_TRAFFIC {
        let title = format!("Throughput, {what}, 64 bytes");
        let plot = by_connections(results, traffic, &title, "Mpps", |row| row.mpps);
        drawn.add("5", &format!("figure5-{traffic}"), "", plot)?;
        let title = format!("Busy time per packet, {what}, 64 bytes");
        let plot =
            by_connections(results, traffic, &title, "ns per packet", |row| row.ns_per_packet);
        drawn.add("5", &format!("figure5-{traffic}-ns"), "", plot)?;
    }
    let more = "10 Gbit/s: 1 balanced, 2 with 20 elephants, 3 UDP; frames of 64 to 1504 bytes.";
    drawn.add("5", "figure5-laslb", more, thesis_sets(results))?;
    let caption = "Maximum throughput by packet size in bytes";
    let plot = by_name(results, 6, caption, |row| row.packet_size.into(), |size| size.to_string());
    drawn.add("6", "figure6", HOLLOW, plot)?;
    for figure in [7, 8] {
        for (systems, pair) in PAIRS {
            for (value, suffix) in [("util+", "plus"), ("util", "util")] {
                let [slb, hnlb] = systems;
                let more = format!(
                    "Solid: {slb}, dashed: {hnlb}; upright lines: first loss; rings: another \
                     process had a core for much of the time."
                );
                let plot = sweep(results, figure, systems, pair, value);
                drawn.add(
                    &figure.to_string(),
                    &format!("figure{figure}-{suffix}-{slb}"),
                    &more,
                    plot,
                )?;
            }
        }
    }
    studies(found, &mut drawn)?;
    Ok(drawn.0)
}

/// The plots beside the paper's figures.
fn studies(found: &Findings, drawn: &mut Drawn) -> Result<(), ReportError> {
    let points = latencies(&found.latency);
    type Percentile = fn(&LatencyRow) -> f64;
    let percentiles: [(&str, Percentile); 3] =
        [("p50", |row| row.p50_us), ("p99", |row| row.p99_us), ("p99.99", |row| row.p9999_us)];
    for (name, time) in percentiles {
        let own = |system: &str| {
            let own = points.iter().filter(|point| point.first.system == system);
            own.filter_map(|p| Some(Spot::new(p.first.share * 100.0, &p.over(time)?, 1.0)))
                .collect()
        };
        let plot = Plot {
            title: format!("Latency against load, {name}"),
            x_label: "% of the system's own maximum rate".into(),
            y_label: "microseconds".into(),
            log_y: true,
            series: systems(own),
            ..Plot::default()
        };
        drawn.add("latency", &format!("latency-{name}"), "", plot)?;
    }
    drawn.add("new", "new", "", fresh(found))?;
    drawn.add("churn", "churn", "", churn(found))?;
    let more = "Each worker has a core and a source of its own, by turns; the table of connections is \
        shared. Figure 6 of the LB-NIC paper.";
    drawn.add("workers", "workers", more, several(found))
}

/// Time for a new connection in software, a curve for each filling.
fn fresh(found: &Findings) -> Plot {
    let points = new_flows(&found.new_flows);
    let software = || points.iter().filter(|point| point.first.path == "software");
    let mut fills: Vec<f64> = software().map(|point| point.first.fill).collect();
    fills.sort_by(f64::total_cmp);
    fills.dedup();
    let curves = fills.iter().zip(SHADES).map(|(fill, color)| {
        let own = software().filter(|point| point.first.fill == *fill);
        let spot = |p: &Group<_>| at(p, |row: &super::NewFlowRow| row.table as f64, |row| row.ns);
        curve(format!("{:.0} % full", fill * 100.0), color, false, own.filter_map(spot).collect())
    });
    Plot {
        title: "Time for a new connection in software, by the table's size".into(),
        x_label: "connections that the table has room for".into(),
        y_label: "ns per new connection".into(),
        x: XAxis::Log,
        series: curves.collect(),
        ..Plot::default()
    }
}

fn churn(found: &Findings) -> Plot {
    let points = churns(&found.churn);
    let points: Vec<_> = points.iter().filter(|point| !point.first.highest).collect();
    let mut rates: Vec<u64> =
        points.iter().map(|point| point.first.arrivals_per_second as u64).collect();
    rates.sort_unstable();
    rates.dedup();
    let series = systems(|system| {
        let own = points.iter().filter(|point| point.first.system == system);
        let place = |rate| rates.iter().position(|other| *other == rate as u64).unwrap_or(0) as f64;
        own.filter_map(|p| at(p, |row| place(row.arrivals_per_second), |row| row.ns_per_packet))
            .collect()
    });
    Plot {
        title: "Busy time per packet with connections that come and go".into(),
        x_label: "new connections a second".into(),
        y_label: "ns per packet".into(),
        x: XAxis::Names(rates.into_iter().map(short).collect()),
        series,
        ..Plot::default()
    }
}

/// Throughput of several workers, a curve for each system and number.
fn several(found: &Findings) -> Plot {
    let points = workers(&found.workers);
    let mut series = Vec::new();
    for count in [1, 2] {
        let all = systems(|system| {
            let own = points
                .iter()
                .filter(|p| (p.first.system.as_str(), p.first.workers) == (system, count));
            own.filter_map(|p| at(p, |row| row.packet_size.into(), |row| row.gbit_per_second))
                .collect()
        });
        series.extend(all.into_iter().map(|one| Series {
            label: format!("{}, {count}", one.label),
            dashed: count > 1,
            ..one
        }));
    }
    Plot {
        title: "Throughput of 1 and 2 workers by packet size".into(),
        x_label: "bytes".into(),
        y_label: "Gbit/s of frames".into(),
        series,
        ..Plot::default()
    }
}

fn at<R, V: Into<Option<f64>>>(
    point: &Group<R>,
    x: impl Fn(&R) -> f64,
    y: impl Fn(&R) -> V,
) -> Option<Spot> {
    Some(Spot::new(x(&point.first), &point.over(y)?, 1.0))
}

const fn curve(label: String, color: RGBColor, dashed: bool, points: Vec<Spot>) -> Series {
    Series { label, color, dashed, points, mark: None }
}

/// The series of every system that has a point.
fn systems(points: impl Fn(&str) -> Vec<Spot>) -> Vec<Series> {
    let all = STYLES
        .iter()
        .map(|style| curve(style.label.into(), style.color, style.dashed, points(style.system)));
    all.filter(|series| !series.points.is_empty()).collect()
}

/// Throughput at saturation in groups of bars, one for each value of `group`.
fn by_name(
    results: &Results,
    figure: u8,
    title: &str,
    group: impl Fn(&Row) -> u64,
    name: impl Fn(u64) -> String,
) -> Plot {
    let groups = results.values(figure, &group);
    let place = |row: &Row| groups.iter().position(|one| *one == group(row)).unwrap_or(0) as f64;
    let series = systems(|system| {
        let own = results.of_system(figure, system).filter(|point| point.first.saturates());
        own.filter_map(|p| spot(results, p, place(&p.first), p.over(|row| row.mpps)?.into()))
            .collect()
    });
    Plot {
        title: title.into(),
        x_label: if figure == 6 { "packet size in bytes".into() } else { String::new() },
        y_label: "Mpps".into(),
        x: XAxis::Names(groups.iter().copied().map(name).collect()),
        series,
        ..Plot::default()
    }
}

fn spot(results: &Results, point: &Point, x: f64, y: Option<Estimate>) -> Option<Spot> {
    Some(Spot { hollow: results.is_doubtful(point), ..Spot::new(x, &y?, 1.0) })
}

fn by_connections(
    results: &Results,
    traffic: &str,
    title: &str,
    y_label: &str,
    value: impl Fn(&Row) -> Option<f64>,
) -> Plot {
    let series = systems(|system| {
        let own = results.under(5, traffic).filter(|point| point.first.system == system);
        own.filter_map(|p| spot(results, p, p.first.connections as f64, p.over(&value))).collect()
    });
    Plot {
        title: title.into(),
        x_label: "concurrent connections".into(),
        y_label: y_label.into(),
        x: XAxis::Log,
        series,
        ..Plot::default()
    }
}

/// The thesis' traffic sets side by side.
fn thesis_sets(results: &Results) -> Plot {
    let all = ["laslb-1", "laslb-2", "laslb-3"];
    let sets: Vec<&str> =
        all.into_iter().filter(|set| results.under(5, set).next().is_some()).collect();
    let series = systems(|system| {
        let own = sets.iter().enumerate().filter_map(|(place, set)| {
            let point = results.under(5, set).find(|point| point.first.system == system)?;
            at(point, |_| place as f64, |row| row.ns_per_packet)
        });
        own.collect()
    });
    Plot {
        title: "Busy time per packet, traffic sets of the LASLB thesis".into(),
        x_label: "traffic set".into(),
        y_label: "ns per packet".into(),
        x: XAxis::Names(sets.iter().map(|set| set.trim_start_matches("laslb-").into()).collect()),
        series,
        ..Plot::default()
    }
}

fn sweep(results: &Results, figure: u8, systems: [&str; 2], pair: &str, value: &str) -> Plot {
    let mut series = Vec::new();
    for (system, dashed) in systems.into_iter().zip([false, true]) {
        for (wanted, color) in
            results.values(figure, parameter).into_iter().zip(SHADES.iter().cycle())
        {
            let points = results.of_system(figure, system);
            let sweep = Sweep::of(points.filter(|p| parameter(&p.first) == wanted));
            if sweep.points.is_empty() {
                continue;
            }
            let unit = if figure == 7 { "conn." } else { "bytes" };
            let at = |point: &&Point| {
                let percent =
                    point.over(|row| if value == "util" { row.util } else { row.util_plus })?;
                let hollow = results.is_doubtful(point);
                Some(Spot { hollow, ..Spot::new(offered(point), &percent, 100.0) })
            };
            series.push(Series {
                label: format!("{system}, {} {unit}", short(wanted)),
                color: *color,
                dashed,
                points: sweep.points.iter().filter_map(at).collect(),
                mark: sweep.first_loss(),
            });
        }
    }
    let what = if figure == 7 { "connections" } else { "packet size" };
    Plot {
        title: format!("{value} against offered rate by {what}, {pair}"),
        x_label: "offered Mpps".into(),
        y_label: format!("{value} in %"),
        y_max: Some(105.0),
        series,
        ..Plot::default()
    }
}
