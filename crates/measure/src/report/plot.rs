//! Plots as SVG: curves, or bars where a curve would be a single point.
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::style::short;
use crate::report::{Estimate, ReportError};

const SIZE: (u32, u32) = (760, 400);
/// Width of the plot; the legend is to its right.
const PLOT: u32 = 530;
/// What counts as 0 on a logarithmic axis.
const LEAST_Y: f64 = 1e-3;
const FONT: &str = "sans-serif";
/// Ink of text and axes.
const INK: RGBColor = RGBColor(60, 60, 60);

/// The x axis, from 0; a logarithmic one from 1.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum XAxis {
    #[default]
    Linear,
    Log,
    /// Groups of bars: x is the place of a group's name.
    Names(Vec<String>),
}

/// One system or setting: a curve, or a bar in each group.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) color: RGBColor,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<Spot>,
    /// Where a vertical line stands.
    pub(crate) mark: Option<f64>,
}

/// A point of a curve, or a bar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// y's interval.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The quartiles around y, if it is drawn as a box; its whiskers are `low` and `high`.
    pub(crate) quartiles: Option<[f64; 2]>,
    /// Drawn as a ring or pale: it says less than it should.
    pub(crate) hollow: bool,
}

impl Spot {
    /// A value without an interval.
    pub(crate) const fn only(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y, quartiles: None, hollow: false }
    }

    /// At `x`, `scale` times as high as `y`.
    pub(crate) fn new(x: f64, y: &Estimate, scale: f64) -> Self {
        let [y, low, high] = [y.median, y.low, y.high].map(|value| value * scale);
        Self { x, y, low, high, quartiles: None, hollow: false }
    }

    /// A box at `x`: least, quartiles with the median between them, greatest.
    pub(crate) const fn boxed(x: f64, five: [f64; 5]) -> Self {
        let [low, first, y, third, high] = five;
        Self { x, y, low, high, quartiles: Some([first, third]), hollow: false }
    }
}

/// Series in one system of axes; y is from 0, a logarithmic one from the power of
/// ten below the least value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) x: XAxis,
    pub(crate) log_y: bool,
    /// Upper end of y; by the series if not given.
    pub(crate) y_max: Option<f64>,
    pub(crate) series: Vec<Series>,
}

type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

impl Plot {
    /// Draws it.
    pub(crate) fn svg(&self) -> Result<String, ReportError> {
        let mut svg = String::new();
        let done = {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            root.fill(&WHITE)
                .map_err(Into::into)
                .and_then(|()| self.grouped().draw(&root))
                .and_then(|()| root.present().map_err(Into::into))
        };
        done.map_err(|error: Box<dyn std::error::Error>| ReportError::Plot {
            title: self.title.clone(),
            reason: error.to_string(),
        })?;
        // Scales with the page it is shown on.
        let (width, height) = SIZE;
        let fixed = format!("<svg width=\"{width}\" height=\"{height}\"");
        Ok(svg.replacen(&fixed, "<svg", 1))
    }

    /// With groups of bars, if no series has two points to connect, or of boxes.
    fn grouped(&self) -> Self {
        let mut plot = self.clone();
        let single = self.series.iter().all(|series| series.points.len() <= 1);
        let boxes = self.spots().any(|spot| spot.quartiles.is_some());
        if (single || boxes) && !matches!(self.x, XAxis::Names(_)) {
            let mut all: Vec<f64> = self.spots().map(|spot| spot.x).collect();
            all.sort_by(f64::total_cmp);
            all.dedup();
            for spot in plot.series.iter_mut().flat_map(|series| &mut series.points) {
                spot.x = all.iter().position(|x| *x == spot.x).unwrap_or(0) as f64;
            }
            plot.x = XAxis::Names(all.into_iter().map(number).collect());
        }
        plot
    }

    fn spots(&self) -> impl Iterator<Item = &Spot> {
        self.series.iter().flat_map(|series| &series.points)
    }

    fn x(&self, x: f64) -> f64 {
        if self.x == XAxis::Log { x.max(1.0).log10() } else { x }
    }

    fn y(&self, y: f64) -> f64 {
        if self.log_y { y.max(LEAST_Y).log10() } else { y }
    }

    /// Both ends of y. A logarithmic axis begins and ends with a power of ten.
    fn height(&self) -> Range<f64> {
        let highest = self.spots().map(|spot| self.y(spot.y.max(spot.high)));
        let highest = highest.fold(self.y(0.0), f64::max);
        let lowest = self.spots().map(|spot| self.y(spot.y.min(spot.low))).fold(highest, f64::min);
        let most = self.y_max.unwrap_or(if self.log_y { highest.ceil() } else { room(highest) });
        (if self.log_y { lowest.floor().min(most - 1.0) } else { 0.0 })..most
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        let (left, right) = root.split_horizontally(PLOT);
        let (log_x, log_y, y) = (self.x == XAxis::Log, self.log_y, self.height());
        let widest = self.spots().map(|spot| self.x(spot.x)).fold(0.0, f64::max);
        let (x_max, x_ticks) = match &self.x {
            XAxis::Names(names) => (names.len() as f64, 0),
            XAxis::Linear => (room(widest), 9),
            XAxis::Log => (room(widest), room(widest).ceil() as usize + 1),
        };
        let mut plane = ChartBuilder::on(&left)
            .caption(&self.title, (FONT, 17).into_font().color(&INK))
            .margin(8)
            .x_label_area_size(46)
            .y_label_area_size(58)
            .build_cartesian_2d(0.0..x_max, y.clone())?;
        let power = |exponent: f64| short(10_f64.powf(exponent).round() as u64);
        let mut mesh = plane.configure_mesh();
        if x_ticks == 0 {
            mesh.disable_x_mesh();
        }
        mesh.light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .axis_style(INK)
            .label_style((FONT, 15).into_font().color(&INK))
            .x_desc(&self.x_label)
            .y_desc(&self.y_label)
            .x_labels(x_ticks)
            .y_labels(if log_y { (y.end - y.start) as usize + 1 } else { 8 })
            .x_label_formatter(&|x| if log_x { power(*x) } else { number(*x) })
            .y_label_formatter(&|y| number(if log_y { 10_f64.powf(*y) } else { *y }))
            .draw()?;
        match &self.x {
            XAxis::Names(names) => self.bars(&left, &mut plane, names)?,
            _ => self.series.iter().try_for_each(|series| self.curve(&mut plane, series, &y))?,
        }
        self.legend(&right)
    }

    fn bars(&self, area: &Area<'_>, plane: &mut Plane<'_, '_>, names: &[String]) -> Drawn {
        let ink =
            |vertical| (FONT, 15).into_font().color(&INK).pos(Pos::new(HPos::Center, vertical));
        // The names by hand: ticks would stand between the groups.
        let place = |plane: &Plane<'_, '_>, x, y| plane.plotting_area().map_coordinate(&(x, y));
        for (at, name) in names.iter().enumerate() {
            let (x, y) = place(plane, at as f64 + 0.5, self.height().start);
            area.draw(&Text::new(name.as_str(), (x, y + 6), ink(VPos::Top)))?;
        }
        // Groups are one wide with a gap between.
        let width = 0.8 / self.series.len() as f64;
        for (at, series) in self.series.iter().enumerate() {
            for spot in &series.points {
                let from = spot.x + 0.1 + width * at as f64;
                let (from, to) = (from + width * 0.06, from + width * 0.94);
                let color = series.color.mix(if spot.hollow { 0.4 } else { 1.0 });
                let middle = f64::midpoint(from, to);
                let [y, low, high] = [spot.y, spot.low, spot.high].map(|y| self.y(y));
                let whisker = vec![(middle, low), (middle, high)];
                plane.draw_series([PathElement::new(whisker, INK)])?;
                let ends = match spot.quartiles {
                    Some([first, third]) => [self.y(first), self.y(third)],
                    None => [if self.log_y { y.min(0.0) } else { 0.0 }, y],
                };
                let [bottom, top] = ends;
                plane.draw_series([Rectangle::new([(from, bottom), (to, top)], color.filled())])?;
                if spot.quartiles.is_some() {
                    let median = vec![(from, y), (to, y)];
                    plane.draw_series([PathElement::new(median, INK.stroke_width(2))])?;
                }
                if names.len() == 1 && spot.y > 0.0 {
                    let (x, y) = place(plane, middle, spot.high);
                    let text = format!("{:.1}", spot.y);
                    area.draw(&Text::new(text, (x, y - 3), ink(VPos::Bottom)))?;
                }
            }
        }
        Ok(())
    }

    fn curve(&self, plane: &mut Plane<'_, '_>, series: &Series, ends: &Range<f64>) -> Drawn {
        let style = series.color.stroke_width(2);
        let line: Vec<(f64, f64)> =
            series.points.iter().map(|spot| (self.x(spot.x), self.y(spot.y))).collect();
        if series.dashed {
            plane.draw_series(DashedLineSeries::new(line.clone(), 7, 4, style))?;
        } else {
            plane.draw_series(LineSeries::new(line.clone(), style))?;
        }
        plane.draw_series(series.points.iter().map(|spot| {
            let x = self.x(spot.x);
            PathElement::new(vec![(x, self.y(spot.low)), (x, self.y(spot.high))], series.color)
        }))?;
        let filled = line.iter().map(|at| Circle::new(*at, 3, series.color.filled()));
        plane.draw_series(filled)?;
        let hollow = line.iter().zip(&series.points).filter(|(_, spot)| spot.hollow);
        plane.draw_series(hollow.map(|(at, _)| Circle::new(*at, 2, WHITE.filled())))?;
        if let Some(x) = series.mark {
            let upright = vec![(self.x(x), ends.start), (self.x(x), ends.end)];
            let thin = series.color.mix(0.7).stroke_width(1);
            if series.dashed {
                plane.draw_series(DashedLineSeries::new(upright, 3, 3, thin))?;
            } else {
                plane.draw_series(LineSeries::new(upright, thin))?;
            }
        }
        Ok(())
    }

    /// Names beside strokes, from top to bottom.
    fn legend(&self, area: &Area<'_>) -> Drawn {
        let text = (FONT, 15).into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
        for (at, series) in (0..).zip(&self.series) {
            let y = 44 + at * 21;
            let style = series.color.stroke_width(3);
            let ends: &[(i32, i32)] = if series.dashed { &[(4, 14), (20, 30)] } else { &[(4, 30)] };
            for (from, to) in ends {
                area.draw(&PathElement::new(vec![(*from, y), (*to, y)], style))?;
            }
            area.draw(&Text::new(series.label.as_str(), (38, y), text.clone()))?;
        }
        Ok(())
    }
}

/// A little more than the greatest value.
fn room(greatest: f64) -> f64 {
    if greatest > 0.0 { greatest * 1.08 } else { 1.0 }
}

/// A tick of a linear axis.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_value_are_bars() {
        let series = |points: &[f64]| Series {
            label: "a".to_owned(),
            color: INK,
            dashed: false,
            points: points.iter().map(|x| Spot::only(*x, 2.0)).collect(),
            mark: None,
        };
        let plot = |all: &[&[f64]]| {
            let series = all.iter().map(|points| series(points)).collect();
            Plot { series, ..Plot::default() }.grouped()
        };
        assert_eq!(plot(&[&[8.0, 9.0], &[8.0]]).x, XAxis::Linear);
        let bars = plot(&[&[8.0], &[4.0], &[8.0]]);
        assert_eq!(bars.x, XAxis::Names(vec!["4".to_owned(), "8".to_owned()]));
        assert_eq!(bars.spots().map(|spot| spot.x).collect::<Vec<_>>(), [1.0, 0.0, 1.0]);
        assert!(bars.svg().unwrap().contains("<rect"));
    }

    #[test]
    fn boxes_stand_between_their_quartiles() {
        let boxed = |x| Spot::boxed(x, [100.0, 200.0, 300.0, 400.0, 1000.0]);
        let series = Series {
            label: "a".to_owned(),
            color: RGBColor(1, 2, 3),
            dashed: false,
            points: vec![boxed(8.0), boxed(13.0)],
            mark: None,
        };
        let plot = Plot { series: vec![series], y_max: Some(1000.0), ..Plot::default() };
        assert_eq!(plot.grouped().x, XAxis::Names(vec!["8".to_owned(), "13".to_owned()]));
        let svg = plot.svg().unwrap();
        let boxes: Vec<f64> = svg
            .lines()
            .filter(|line| line.starts_with("<rect") && line.contains("#010203"))
            .map(|line| {
                let (_, rest) = line.split_once("height=\"").unwrap();
                rest.split('"').next().unwrap().parse().unwrap()
            })
            .collect();
        // A fifth of the plot's height, which is that of the picture without its margins.
        assert_eq!(boxes.len(), 2, "{svg}");
        let plotted = f64::from(SIZE.1) - 8.0 * 2.0 - 46.0;
        assert!(boxes.iter().all(|own| (own / plotted - 0.2).abs() < 0.02), "{boxes:?}");
    }
}
