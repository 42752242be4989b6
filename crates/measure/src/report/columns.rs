//! A table of the report, as HTML and as text.
use crate::report::Estimate;

/// One cell.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// Words, or a number that has no interval.
    Text(String),
    /// Words in a colour of the style sheet.
    Marked {
        /// The words.
        text: &'static str,
        /// The style sheet's class.
        class: &'static str,
    },
    /// A median with its interval, both times `scale`; the text page has the
    /// median alone.
    Around {
        /// Over the repetitions; nothing is shown without.
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

    /// The number, or nothing.
    pub(crate) fn number(value: Option<f64>, decimals: usize) -> Self {
        Self::Text(value.map_or_else(String::new, |value| format!("{value:.decimals$}")))
    }

    fn html(&self) -> String {
        match *self {
            Self::Text(ref text) => escaped(text),
            Self::Marked { text, class } => format!("<span class=\"{class}\">{text}</span>"),
            Self::Around { estimate: None, .. } => String::new(),
            Self::Around { estimate: Some(estimate), scale, decimals } => {
                let Estimate { median, low, high, .. } = estimate;
                let [median, low, high] = [median, low, high].map(|value| value * scale);
                format!("{median:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
            }
        }
    }

    fn text(&self) -> String {
        match *self {
            Self::Text(ref text) => text.clone(),
            Self::Marked { text, .. } => text.to_owned(),
            Self::Around { estimate, scale, decimals } => {
                estimate.map_or_else(String::new, |e| format!("{:.decimals$}", e.median * scale))
            }
        }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(value: T) -> Self {
        Self::Text(value.to_string())
    }
}

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) title: &'static str,
    /// A paragraph above it, for the page.
    pub(crate) note: String,
    /// Names of the columns.
    pub(crate) head: Vec<String>,
    /// Columns from this one on are numbers; beyond all: the text may be long.
    pub(crate) numbers: usize,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(title: &'static str, numbers: usize, head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Self { title, note: String::new(), head, numbers, rows: Vec::new() }
    }

    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    pub(crate) fn rows(self, rows: impl Iterator<Item = Vec<Cell>>) -> Self {
        Self { rows: rows.collect(), ..self }
    }

    /// Heading, note and table; nothing without rows.
    pub(crate) fn html(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let title = if self.title.is_empty() {
            String::new()
        } else {
            format!("<h3>{}</h3>\n", self.title)
        };
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!("<p>{}</p>\n", escaped(&self.note))
        };
        title + &note + &self.grid()
    }

    fn grid(&self) -> String {
        let class = |at: usize| if at >= self.numbers { " class=\"n\"" } else { "" };
        let cells = |tag: &str, cells: Vec<String>| -> String {
            let cell = |(at, text): (usize, String)| format!("<{tag}{}>{text}</{tag}>", class(at));
            cells.into_iter().enumerate().map(cell).collect()
        };
        let head = cells("th", self.head.iter().map(|name| escaped(name)).collect());
        let row = |row: &Vec<Cell>| cells("td", row.iter().map(Cell::html).collect());
        let rows: String = self.rows.iter().map(|r| format!("<tr>{}</tr>\n", row(r))).collect();
        let kind = if self.numbers >= self.head.len() { "wide wrap" } else { "wide" };
        format!("<div class=\"{kind}\"><table>\n<tr>{head}</tr>\n{rows}</table></div>\n")
    }

    /// The table for a terminal; nothing without rows.
    pub(crate) fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        let lines = || std::iter::once(&self.head).chain(&rows);
        let width = |at: usize| {
            lines().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..self.head.len()).filter_map(width).collect();
        let mut text =
            if self.title.is_empty() { String::new() } else { format!("\n{}\n", self.title) };
        for line in lines() {
            let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
                if at >= self.numbers {
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

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_the_same_on_page_and_terminal() {
        let estimate = Estimate::of(&[1.0, 2.0, 4.0]);
        let row = vec!["a < b".into(), Cell::around(estimate, 10.0, 1), Cell::number(None, 2)];
        let table = Table::new("Times", 1, &["System", "ns", "x"]).rows(std::iter::once(row));
        assert_eq!(table.text(), "\nTimes\nSystem    ns  x\na < b   20.0\n");
        let html = table.html();
        assert!(html.contains("<h3>Times</h3>") && html.contains("<td>a &lt; b</td>"), "{html}");
        assert!(html.contains("<td class=\"n\">20.0 [10.0, 40.0]</td>"), "{html}");
        assert_eq!(Table::new("Times", 1, &["System"]).text(), "");
    }
}
