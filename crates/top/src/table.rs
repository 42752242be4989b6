//! A view's table: columns, and rows that can be sorted and filtered by any of them.
use std::cmp::Ordering;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Its least width, in characters.
    pub(crate) width: u16,
    pub(crate) is_number: bool,
}

impl Column {
    pub(crate) const fn text(name: &'static str, width: u16) -> Self {
        Self { name, width, is_number: false }
    }

    pub(crate) const fn number(name: &'static str, width: u16) -> Self {
        Self { name, width, is_number: true }
    }
}

/// How something is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Warning,
    Bad,
}

/// A cell: what is shown, and what it is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// Numbers are sorted as numbers; what has none is below all numbers.
    order: Option<f64>,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain, order: None }
    }

    /// A number with its text.
    pub(crate) const fn number(value: f64, text: String) -> Self {
        Self { text, tone: Tone::Plain, order: Some(value) }
    }

    /// A number that may not be known.
    pub(crate) fn maybe(value: Option<f64>, text: impl Fn(Option<f64>) -> String) -> Self {
        Self { text: text(value), tone: Tone::Plain, order: value }
    }

    pub(crate) fn marked(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self.order, other.order) {
            (None, None) => self.text.cmp(&other.text),
            (own, other) => {
                own.unwrap_or(f64::NEG_INFINITY).total_cmp(&other.unwrap_or(f64::NEG_INFINITY))
            }
        }
    }
}

/// Columns and rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Keeps the rows of which a cell contains `filter`, in letters of either case.
    pub(crate) fn filter(&mut self, filter: &str) {
        let filter = filter.to_lowercase();
        self.rows.retain(|row| row.iter().any(|cell| cell.text.to_lowercase().contains(&filter)));
    }

    /// Sorts by a column: numbers from the greatest on, text from A on, or the other way
    /// round. Equal rows stay in their order.
    pub(crate) fn sort(&mut self, column: usize, is_reversed: bool) {
        let descends = self.columns.get(column).is_some_and(|own| own.is_number) != is_reversed;
        self.rows.sort_by(|one, other| {
            let order = match (one.get(column), other.get(column)) {
                (Some(one), Some(other)) => one.compare(other),
                _ => Ordering::Equal,
            };
            if descends { order.reverse() } else { order }
        });
    }

    /// The width of each column, so that every cell fits, in characters.
    pub(crate) fn widths(&self) -> Vec<u16> {
        let width = |at: usize, column: &Column| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let widest = cells.map(|cell| cell.text.chars().count()).max().unwrap_or_default();
            let widest = u16::try_from(widest).unwrap_or(u16::MAX);
            let name = u16::try_from(column.name.chars().count()).unwrap_or(u16::MAX);
            column.width.max(widest).max(name)
        };
        self.columns.iter().enumerate().map(|(at, column)| width(at, column)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |name: &str, value: Option<f64>| {
            vec![Cell::text(name), Cell::maybe(value, |v| format!("{v:?}"))]
        };
        Table {
            columns: vec![Column::text("name", 4), Column::number("rate", 4)],
            rows: vec![row("b", Some(9.0)), row("A", Some(10.0)), row("c", None)],
        }
    }

    fn names(table: &Table) -> String {
        table.rows.iter().map(|row| row[0].text.as_str()).collect()
    }

    #[test]
    fn numbers_are_sorted_as_numbers_and_unknown_ones_are_least() {
        let mut table = table();
        table.sort(1, false);
        assert_eq!(names(&table), "Abc");
        table.sort(1, true);
        assert_eq!(names(&table), "cbA");
        table.sort(0, true);
        assert_eq!(names(&table), "cbA");
        table.sort(7, false);
        assert_eq!(names(&table), "cbA", "there is no such column");
    }

    #[test]
    fn a_filter_looks_at_every_cell() {
        let mut table = table();
        table.filter("a");
        assert_eq!(names(&table), "A");
        table.filter("10.0");
        assert_eq!(names(&table), "A");
        table.filter("9");
        assert_eq!(names(&table), "");
    }
}
