//! The paper's figures 4 to 8 from our points.

use crate::bars::{Bars, Series};
use crate::chart::{Chart, Curve};
use crate::style::{SHADES, STYLES, short};
use crate::summary::Sweep;
use crate::{Point, ReportError, Results};

/// One plot.
#[derive(Debug, Clone)]
pub struct Figure {
    /// The paper's figure.
    pub number: u8,
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
        found.push(Figure { number, name: name.to_owned(), caption, svg });
    };
    if results.figure(4).next().is_some() {
        let caption = "Best case: one flow, one backend, one queue, 64 bytes";
        add(4, "figure4", caption.into(), bars(results, 4, caption, |_| 0, |_| "1 flow".into())?);
    }
    if results.figure(5).next().is_some() {
        let caption = "Maximum throughput against connections, 64 bytes";
        add(5, "figure5", caption.into(), connections(results, caption, "Mpps", |p| p.mpps)?);
        let caption = "Busy time per packet against connections, 64 bytes";
        let svg = connections(results, caption, "ns per packet", |p| p.ns_per_packet)?;
        add(5, "figure5-ns", caption.into(), svg);
    }
    if results.figure(6).next().is_some() {
        let caption = "Maximum throughput by packet size in bytes";
        let svg = bars(results, 6, caption, |p| u64::from(p.packet_size), |s| s.to_string())?;
        add(6, "figure6", caption.into(), svg);
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
                let caption =
                    format!("{title}. Solid: {slb}, dashed: {hnlb}; upright lines: first loss.");
                let svg = sweep(results, number, systems, &title, value)?;
                add(number, &format!("figure{number}-{suffix}-{slb}"), caption, svg);
            }
        }
    }
    Ok(found)
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
    let series = STYLES.iter().filter_map(|style| {
        let points: Vec<&Point> = results.of_system(figure, style.system).collect();
        let value = |wanted: &u64| points.iter().find(|p| category(p) == *wanted).map(|p| p.mpps);
        (!points.is_empty()).then(|| Series {
            label: style.label.into(),
            color: style.color,
            values: categories.iter().map(value).collect(),
        })
    });
    let bars = Bars {
        title: title.into(),
        x_label: if figure == 6 { "packet size in bytes".into() } else { String::new() },
        y_label: "Mpps".into(),
        series: series.collect(),
        categories: categories.into_iter().map(name).collect(),
    };
    bars.svg()
}

fn connections(
    results: &Results,
    title: &str,
    y_label: &str,
    value: impl Fn(&Point) -> crate::Estimate,
) -> Result<String, ReportError> {
    let curves = STYLES.iter().filter_map(|style| {
        let points: Vec<_> = results
            .of_system(5, style.system)
            .map(|point| (point.connections as f64, value(point)))
            .map(|(x, value)| (x, value.median, (value.low, value.high)))
            .collect();
        (!points.is_empty()).then(|| Curve {
            label: style.label.into(),
            color: style.color,
            dashed: style.dashed,
            points,
            mark: None,
        })
    });
    let chart = Chart {
        title: title.into(),
        x_label: "concurrent connections".into(),
        y_label: y_label.into(),
        log_x: true,
        y_max: None,
        curves: curves.collect(),
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
                let ends = (percent(value.low), percent(value.high));
                (point.offered(), percent(value.median), ends)
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
        y_max: Some(105.0),
        curves,
    };
    chart.svg()
}
