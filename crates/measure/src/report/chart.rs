//! Curves as SVG.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::{Estimate, ReportError};

pub(crate) const SIZE: (u32, u32) = (760, 400);
/// Width of the plot; the legend is to its right.
pub(crate) const PLOT: u32 = 530;
/// What counts as 0 on a logarithmic axis.
const LEAST_Y: f64 = 1e-3;
pub(crate) const FONT: &str = "sans-serif";
/// Ink of text and axes.
pub(crate) const INK: RGBColor = RGBColor(60, 60, 60);

/// One curve.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) color: RGBColor,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<Spot>,
    /// Where a vertical line stands.
    pub(crate) mark: Option<f64>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// y's interval.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Drawn as a ring: it says less than it should.
    pub(crate) hollow: bool,
}

impl Spot {
    /// A value without an interval.
    pub(crate) const fn only(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y, hollow: false }
    }

    /// At `x`, as high as `y`.
    pub(crate) const fn new(x: f64, y: &Estimate) -> Self {
        Self { x, y: y.median, low: y.low, high: y.high, hollow: false }
    }
}

/// Curves in one system of axes, both from 0; a logarithmic x from 1, a
/// logarithmic y from the power of ten below the least value.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) log_x: bool,
    pub(crate) log_y: bool,
    /// Upper end of y; by the curves if not given.
    pub(crate) y_max: Option<f64>,
    pub(crate) curves: Vec<Curve>,
}

type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Chart {
    /// Draws it.
    pub(crate) fn svg(&self) -> Result<String, ReportError> {
        draw(&self.title, |root| self.draw(root))
    }

    fn x(&self, x: f64) -> f64 {
        if self.log_x { x.max(1.0).log10() } else { x }
    }

    fn y(&self, y: f64) -> f64 {
        if self.log_y { y.max(LEAST_Y).log10() } else { y }
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        let (left, right) = root.split_horizontally(PLOT);
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let widest = points().map(|spot| self.x(spot.x)).fold(0.0, f64::max);
        let highest = points().map(|spot| self.y(spot.y.max(spot.high)));
        let highest = highest.fold(self.y(0.0), f64::max);
        let lowest = points().map(|spot| self.y(spot.y.min(spot.low))).fold(highest, f64::min);
        // A logarithmic axis begins and ends with a power of ten.
        let y_max = if self.log_y { highest.ceil() } else { room(highest) };
        let y_min = if self.log_y { lowest.floor().min(y_max - 1.0) } else { 0.0 };
        let (x_max, y_max) = (room(widest), self.y_max.unwrap_or(y_max));
        let y_ticks = if self.log_y { (y_max - y_min) as usize + 1 } else { 8 };
        let mut plane = ChartBuilder::on(&left)
            .caption(&self.title, (FONT, 17).into_font().color(&INK))
            .margin(8)
            .x_label_area_size(46)
            .y_label_area_size(58)
            .build_cartesian_2d(0.0..x_max, y_min..y_max)?;
        let (log_x, log_y) = (self.log_x, self.log_y);
        plane
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .axis_style(INK)
            .label_style((FONT, 15).into_font().color(&INK))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_labels(if log_x { x_max.ceil() as usize + 1 } else { 9 })
            .y_labels(y_ticks)
            .x_label_formatter(&move |x| if log_x { power(*x) } else { number(*x) })
            .y_label_formatter(&move |y| number(if log_y { 10_f64.powf(*y) } else { *y }))
            .draw()?;
        for curve in &self.curves {
            self.curve(&mut plane, curve, (y_min, y_max))?;
        }
        legend(&right, self.curves.iter().map(|c| (c.label.as_str(), c.color, c.dashed)))
    }

    fn curve(&self, plane: &mut Plane<'_, '_>, curve: &Curve, ends: (f64, f64)) -> Drawn {
        let style = curve.color.stroke_width(2);
        let line: Vec<(f64, f64)> =
            curve.points.iter().map(|spot| (self.x(spot.x), self.y(spot.y))).collect();
        if curve.dashed {
            plane.draw_series(DashedLineSeries::new(line.clone(), 7, 4, style))?;
        } else {
            plane.draw_series(LineSeries::new(line.clone(), style))?;
        }
        plane.draw_series(curve.points.iter().map(|spot| {
            let x = self.x(spot.x);
            PathElement::new(vec![(x, self.y(spot.low)), (x, self.y(spot.high))], curve.color)
        }))?;
        let filled = line.iter().map(|at| Circle::new(*at, 3, curve.color.filled()));
        plane.draw_series(filled)?;
        let hollow = line.iter().zip(&curve.points).filter(|(_, spot)| spot.hollow);
        plane.draw_series(hollow.map(|(at, _)| Circle::new(*at, 2, WHITE.filled())))?;
        if let Some(x) = curve.mark {
            let upright = vec![(self.x(x), ends.0), (self.x(x), ends.1)];
            let thin = curve.color.mix(0.7).stroke_width(1);
            if curve.dashed {
                plane.draw_series(DashedLineSeries::new(upright, 3, 3, thin))?;
            } else {
                plane.draw_series(LineSeries::new(upright, thin))?;
            }
        }
        Ok(())
    }
}

/// Runs a drawing into a new SVG.
pub(crate) fn draw(
    title: &str,
    drawing: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, ReportError> {
    let mut svg = String::new();
    let done = {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)
            .map_err(Into::into)
            .and_then(|()| drawing(&root))
            .and_then(|()| root.present().map_err(Into::into))
    };
    done.map_err(|error: Box<dyn std::error::Error>| ReportError::Plot {
        title: title.to_owned(),
        reason: error.to_string(),
    })?;
    // Scales with the page it is shown on.
    let (width, height) = SIZE;
    let fixed = format!("<svg width=\"{width}\" height=\"{height}\"");
    Ok(svg.replacen(&fixed, "<svg", 1))
}

/// Names beside strokes, from top to bottom.
pub(crate) fn legend<'l>(
    area: &Area<'_>,
    entries: impl Iterator<Item = (&'l str, RGBColor, bool)>,
) -> Drawn {
    let text = (FONT, 15).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (at, (label, color, dashed)) in (0..).zip(entries) {
        let y = 44 + at * 21;
        let style = color.stroke_width(3);
        let ends: &[(i32, i32)] = if dashed { &[(4, 14), (20, 30)] } else { &[(4, 30)] };
        for (from, to) in ends {
            area.draw(&PathElement::new(vec![(*from, y), (*to, y)], style))?;
        }
        area.draw(&Text::new(label, (38, y), text.clone()))?;
    }
    Ok(())
}

/// A little more than the greatest value.
pub(crate) fn room(greatest: f64) -> f64 {
    if greatest > 0.0 { greatest * 1.08 } else { 1.0 }
}

/// A tick of a linear axis.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A tick of a logarithmic axis.
fn power(exponent: f64) -> String {
    crate::report::style::short(10_f64.powf(exponent).round() as u64)
}
