//! The picture as text, once: every view as a table.
use std::fmt::Write as _;

use status::Picture;

use crate::draw::head;
use crate::screen::Screen;
use crate::table::Table;
use crate::view::View;

/// The picture as text: the totals, and each of `views` with the order and the filter of
/// `screen`. Tables without rows are left out.
#[must_use]
pub fn page(picture: &Picture, screen: &Screen, views: &[View]) -> String {
    let mut page = String::new();
    for line in head(picture) {
        let _ = writeln!(page, "{line}");
    }
    for view in views {
        let table = screen.clone().with_view(*view).table(picture);
        if !table.rows.is_empty() {
            let _ = write!(page, "\n{}", text(&table));
        }
    }
    page
}

fn text(table: &Table) -> String {
    let widths = table.widths();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, column), width) in cells.zip(&table.columns).zip(&widths) {
            let width = usize::from(*width);
            let _ = match column.is_number {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:<width$}  "),
            };
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut table.columns.iter().map(|own| own.name));
    for row in &table.rows {
        text += &line(&mut row.iter().map(|own| own.text.as_str()));
    }
    text
}
