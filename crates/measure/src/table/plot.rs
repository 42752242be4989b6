//! The growth plot, as SVG.
use std::fmt::Display;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

use super::growth::Growth;

/// The plot's file in the directory asked for.
const FILE: &str = "table-growth.svg";
const SIZE: (u32, u32) = (960, 600);
const CURVES: [(RGBColor, u32); 5] =
    [(BLUE, 3), (BLUE, 1), (RED, 3), (RED, 1), (RGBColor(110, 110, 110), 2)];

/// The plot can't be written.
#[derive(Debug, thiserror::Error)]
#[error("the growth plot {file} can't be written: {reason}")]
pub struct PlotError {
    file: PathBuf,
    reason: String,
}

/// Writes the plot into the directory `out`, which is made if need be.
pub(super) fn write(growth: &Growth, out: &Path) -> Result<(), PlotError> {
    let file = out.join(FILE);
    let wrong = |reason: &dyn Display| PlotError { file: file.clone(), reason: reason.to_string() };
    std::fs::create_dir_all(out).map_err(|error| wrong(&error))?;
    let text = draw(growth).map_err(|error| wrong(&error))?;
    std::fs::write(&file, text).map_err(|error| wrong(&error))
}

fn draw(growth: &Growth) -> Result<String, Box<dyn std::error::Error>> {
    let points = &growth.points;
    let (first, last) = match (points.first(), points.last()) {
        (Some(first), Some(last)) => (f64::from(first.entries), f64::from(last.entries)),
        _ => (1.0, 2.0),
    };
    let highest = points
        .iter()
        .flat_map(|point| point.lookups.into_iter().chain([point.latency]))
        .fold(1.0, f64::max);
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption("Lookups over the size of the table, one thread", ("sans-serif", 20))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(
                (first * 0.9..last.max(first * 2.0) * 1.1).log_scale(),
                (1.0..highest * 1.3).log_scale(),
            )?;
        chart
            .configure_mesh()
            .x_desc("connections (hnlb, two keys each) or keys (rte_hash); load 0.5")
            .y_desc("ns per lookup, ns per step")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .draw()?;
        let names = Growth::NAMES.into_iter().chain(["pointer chase over hnlb's bytes"]);
        for ((at, name), (colour, width)) in names.enumerate().zip(CURVES) {
            let style = colour.stroke_width(width);
            let curve = points.iter().map(|point| {
                let ns = point.lookups.get(at).copied().unwrap_or(point.latency);
                (f64::from(point.entries), ns)
            });
            let line = LineSeries::new(curve, style);
            chart
                .draw_series(line)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::growth::Point;
    use super::*;

    #[test]
    fn a_plot_has_every_curve() {
        let point = |entries: u32| Point {
            entries,
            bytes: 92 * entries as usize,
            lookups: [20.0, 10.0, 40.0, 20.0],
            latency: 5.0,
        };
        let growth = Growth { points: [1 << 10, 1 << 12, 1 << 14].map(point).to_vec() };
        let svg = draw(&growth).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for name in Growth::NAMES {
            assert!(svg.contains(name), "{name}");
        }
        // A curve and its sample in the legend, and the axes' lines.
        assert!(svg.matches("<polyline").count() >= 10);
        assert!(draw(&Growth::default()).is_ok());
    }
}
