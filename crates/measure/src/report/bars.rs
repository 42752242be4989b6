//! Groups of bars as SVG.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::chart::{FONT, INK, PLOT, draw, legend, number, room};
use crate::report::{Estimate, ReportError};

/// Bars of one system, one a category.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) color: RGBColor,
    /// By category; `None` where nothing was measured.
    pub(crate) values: Vec<Option<Estimate>>,
    /// By category, if any is: whether the value says less than it should.
    pub(crate) pale: Vec<bool>,
}

/// Groups of bars, one group a category.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) categories: Vec<String>,
    pub(crate) series: Vec<Series>,
}

impl Bars {
    /// Draws it.
    pub(crate) fn svg(&self) -> Result<String, ReportError> {
        draw(&self.title, |root| {
            let (left, right) = root.split_horizontally(PLOT);
            let values = self.series.iter().flat_map(|series| series.values.iter().flatten());
            let highest = values.map(|value| value.high).fold(0.0, f64::max);
            let groups = self.categories.len();
            let mut plane = ChartBuilder::on(&left)
                .caption(&self.title, (FONT, 17).into_font().color(&INK))
                .margin(8)
                .x_label_area_size(46)
                .y_label_area_size(58)
                .build_cartesian_2d(0.0..groups as f64, 0.0..room(highest))?;
            plane
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(RGBColor(225, 225, 225))
                .axis_style(INK)
                .label_style((FONT, 15).into_font().color(&INK))
                .x_desc(&self.x_label)
                .y_desc(&self.y_label)
                .x_labels(0)
                .y_labels(8)
                .y_label_formatter(&|y| number(*y))
                .draw()?;
            // The categories by hand: ticks would stand between the groups.
            let area = plane.plotting_area().clone();
            let middle = Pos::new(HPos::Center, VPos::Top);
            let name = (FONT, 15).into_font().color(&INK).pos(middle);
            for (at, category) in self.categories.iter().enumerate() {
                let (x, y) = area.map_coordinate(&(at as f64 + 0.5, 0.0));
                left.draw(&Text::new(category.as_str(), (x, y + 6), name.clone()))?;
            }
            for (at, series) in self.series.iter().enumerate() {
                plane.draw_series(self.bars(at, series))?;
                plane.draw_series(self.whiskers(at, series))?;
            }
            if groups == 1 {
                let name =
                    (FONT, 15).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Bottom));
                for (at, value) in self.placed().filter(|(_, value)| value.median > 0.0) {
                    let text = format!("{:.1}", value.median);
                    let (x, y) = area.map_coordinate(&(f64::midpoint(at.0, at.1), value.high));
                    left.draw(&Text::new(text, (x, y - 3), name.clone()))?;
                }
            }
            legend(&right, self.series.iter().map(|s| (s.label.as_str(), s.color, false)))
        })
    }

    /// Left and right of a bar: groups are one wide with a gap between.
    fn place(&self, series: usize, category: usize) -> (f64, f64) {
        let width = 0.8 / self.series.len() as f64;
        let from = category as f64 + 0.1 + width * series as f64;
        (from + width * 0.06, from + width * 0.94)
    }

    fn placed(&self) -> impl Iterator<Item = ((f64, f64), &Estimate)> {
        self.series.iter().enumerate().flat_map(move |(at, series)| {
            series.values.iter().enumerate().filter_map(move |(category, value)| {
                value.as_ref().map(|value| (self.place(at, category), value))
            })
        })
    }

    fn bars(&self, at: usize, series: &Series) -> Vec<Rectangle<(f64, f64)>> {
        let style = |category: usize| {
            let pale = series.pale.get(category).copied().unwrap_or(false);
            series.color.mix(if pale { 0.4 } else { 1.0 }).filled()
        };
        let value = |(category, value): (usize, &Option<Estimate>)| {
            let (from, to) = self.place(at, category);
            value.map(|value| Rectangle::new([(from, 0.0), (to, value.median)], style(category)))
        };
        series.values.iter().enumerate().filter_map(value).collect()
    }

    fn whiskers(&self, at: usize, series: &Series) -> Vec<PathElement<(f64, f64)>> {
        let value = |(category, value): (usize, &Option<Estimate>)| {
            let (from, to) = self.place(at, category);
            let x = f64::midpoint(from, to);
            value.map(|value| PathElement::new(vec![(x, value.low), (x, value.high)], INK))
        };
        series.values.iter().enumerate().filter_map(value).collect()
    }
}
