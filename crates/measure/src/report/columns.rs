//! A table of the report, as HTML and as text.
use maud::{Markup, html};

use crate::report::Estimate;

/// One cell.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// Words in a colour of the style sheet: its class.
    Marked(&'static str, &'static str),
    /// A whole number or one that has its form.
    Count(String),
    /// A median with its interval; the text page has the median alone.
    Around {
        /// Over the repetitions; `None`: nothing was measured.
        estimate: Option<Estimate>,
        /// For instance 100 for shares in percent.
        scale: f64,
        /// Digits behind the point.
        decimals: usize,
    },
}

impl Cell {
    pub(crate) const fn around(estimate: Option<Estimate>, scale: f64, decimals: usize) -> Self {
        Self::Around { estimate, scale, decimals }
    }

    pub(crate) fn count(number: impl ToString) -> Self {
        Self::Count(number.to_string())
    }

    /// The number, or a dash where nothing was measured.
    pub(crate) fn number(value: impl Into<Option<f64>>, decimals: usize) -> Self {
        Self::Count(value.into().map_or_else(|| DASH.into(), |value| fixed(value, decimals)))
    }

    /// Whether it stands to the right of its column.
    const fn is_number(&self) -> bool {
        matches!(self, Self::Count(_) | Self::Around { .. })
    }

    fn html(&self) -> Markup {
        match *self {
            Self::Marked(text, class) => html! { span class=(class) { (text) } },
            Self::Around { estimate: Some(estimate), scale, decimals } => {
                let Estimate { median, low, high, .. } = estimate;
                let [median, low, high] =
                    [median, low, high].map(|value| fixed(value * scale, decimals));
                html! { (median) " [" (low) ", " (high) "]" }
            }
            _ => html! { (self.text()) },
        }
    }

    fn text(&self) -> String {
        match *self {
            Self::Text(ref text) | Self::Count(ref text) => text.clone(),
            Self::Marked(text, _) => text.to_owned(),
            Self::Around { estimate, scale, decimals } => {
                estimate.map_or_else(|| DASH.into(), |e| fixed(e.median * scale, decimals))
            }
        }
    }
}

/// Where nothing was measured.
const DASH: &str = "-";

/// A number with so many digits behind the point; what rounds to zero has no
/// sign.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|c| "0.".contains(c)) => zero.to_owned(),
        _ => text,
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// A column: its name, and its cell for a line.
pub(crate) type Column<'c, T> = (&'c str, &'c dyn Fn(&T) -> Cell);

/// A table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    title: &'static str,
    /// A paragraph above it, for the page.
    note: String,
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A line for each of `items`.
    pub(crate) fn of<T>(
        title: &'static str,
        items: impl IntoIterator<Item = T>,
        columns: &[Column<'_, T>],
    ) -> Self {
        let line = |item: T| columns.iter().map(|(_, cell)| cell(&item)).collect();
        let head = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { title, note: String::new(), head, rows: items.into_iter().map(line).collect() }
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn is_number(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row.get(column).is_some_and(Cell::is_number))
    }

    /// Heading, note and table; nothing without rows.
    pub(crate) fn html(&self) -> Markup {
        let class = |at: usize| self.is_number(at).then_some("n");
        let wrap = (!(0..self.head.len()).any(|at| self.is_number(at))).then_some("wrap");
        html! {
            @if !self.rows.is_empty() {
                @if !self.title.is_empty() { h3 { (self.title) } }
                @if !self.note.is_empty() { p { (self.note) } }
                div.wide class=[wrap] { table {
                    tr { @for (at, name) in self.head.iter().enumerate() {
                        th class=[class(at)] { (name) }
                    } }
                    @for row in &self.rows {
                        tr { @for (at, cell) in row.iter().enumerate() {
                            td class=[class(at)] { (cell.html()) }
                        } }
                    }
                } }
            }
        }
    }

    /// The table for a terminal; nothing without rows.
    pub(crate) fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::text).collect());
        let lines: Vec<Vec<String>> = std::iter::once(self.head.clone()).chain(rows).collect();
        let width = |at: usize| {
            lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..self.head.len()).filter_map(width).collect();
        let mut text =
            if self.title.is_empty() { String::new() } else { format!("\n{}\n", self.title) };
        for line in &lines {
            let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
                if self.is_number(at) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_same_on_page_and_terminal() {
        let estimate = Estimate::of(&[1.0, 2.0, 4.0]);
        let table = Table::of(
            "Times",
            ["a < b"],
            &[
                ("System", &|name| (*name).into()),
                ("ns", &|_| Cell::around(estimate, 10.0, 1)),
                ("x", &|_| Cell::number(None, 2)),
            ],
        );
        assert_eq!(table.text(), "\nTimes\nSystem    ns  x\na < b   20.0  -\n");
        let html = table.html().into_string();
        assert!(html.contains("<h3>Times</h3>") && html.contains("<td>a &lt; b</td>"), "{html}");
        assert!(html.contains("<td class=\"n\">20.0 [10.0, 40.0]</td>"), "{html}");
        assert_eq!(Table::of("Times", [(); 0], &[("System", &|()| "".into())]).text(), "");
    }

    #[test]
    fn nothing_is_less_than_zero_by_rounding() {
        let all = [-0.04, -0.06, 0.0, 12.0].map(|value| fixed(value, 1));
        assert_eq!(all, ["0.0", "-0.1", "0.0", "12.0"]);
    }
}
