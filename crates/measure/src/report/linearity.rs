//! How linear util+ is (condition iii of the paper's section IV).

use serde::Serialize;

use crate::report::figures::{parameter, parameters};
use crate::report::summary::Sweep;
use crate::report::{Line, Results};

/// util+ of one curve of figure 7 or 8 against the offered rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Linearity {
    /// The figure.
    pub figure: u8,
    /// The system.
    pub system: String,
    /// Connections in figure 7, packet size in bytes in figure 8.
    pub parameter: u64,
    /// The lowest offered rate at which packets were lost in the median.
    pub first_loss_mpps: Option<f64>,
    /// The line through the points below the first loss; `None` if they are
    /// too few.
    pub line: Option<Line>,
}

/// All curves of figure 7 or 8, systems in the order of their first row.
#[must_use]
pub fn linearity(results: &Results, figure: u8) -> Vec<Linearity> {
    let mut systems: Vec<&str> = Vec::new();
    for point in results.figure(figure) {
        if !systems.contains(&point.system.as_str()) {
            systems.push(&point.system);
        }
    }
    let parameters = parameters(results, figure);
    let curves =
        systems.into_iter().flat_map(|system| parameters.iter().map(move |at| (system, *at)));
    let found = curves.filter_map(|(system, at)| {
        let points = results.of_system(figure, system);
        let sweep = Sweep::of(points.filter(|point| parameter(figure, point) == at));
        (!sweep.points.is_empty()).then(|| Linearity {
            figure,
            system: system.to_owned(),
            parameter: at,
            first_loss_mpps: sweep.first_loss(),
            line: sweep.line(),
        })
    });
    found.collect()
}
