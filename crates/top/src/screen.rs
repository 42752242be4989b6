//! What the user has chosen: the view, its order, a filter. Takes keys.
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use status::Picture;

use crate::table::Table;
use crate::view::View;

/// Rows that a page up or down goes over.
const PAGE: usize = 10;

/// What a key asks for beside another picture on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    Nothing,
    /// A new report at once.
    Report,
    /// The end.
    Quit,
}

/// The order of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The column's number.
    pub(crate) column: usize,
    pub(crate) is_reversed: bool,
}

/// The choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    view: View,
    orders: [Order; View::ALL.len()],
    filter: String,
    is_typing: bool,
    is_paused: bool,
    shows_help: bool,
    /// The first row that is shown.
    top: usize,
}

impl Default for Screen {
    fn default() -> Self {
        let order = |view: View| Order { column: view.first_order(), is_reversed: false };
        Self {
            view: View::default(),
            orders: View::ALL.map(order),
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            shows_help: false,
            top: 0,
        }
    }
}

impl Screen {
    /// The screen with this view.
    #[must_use]
    pub fn with_view(self, view: View) -> Self {
        Self { view, top: 0, ..self }
    }

    /// The screen whose view is sorted by its column with this number.
    #[must_use]
    pub fn sorted_by(mut self, column: usize) -> Self {
        self.order_mut().column = column.min(self.view.columns().len() - 1);
        self
    }

    /// The screen that shows only rows with this text in them.
    #[must_use]
    pub fn filtered_by(self, filter: &str) -> Self {
        Self { filter: filter.to_owned(), ..self }
    }

    /// Whether the picture stands still.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(crate) const fn view(&self) -> View {
        self.view
    }

    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    pub(crate) const fn is_typing(&self) -> bool {
        self.is_typing
    }

    pub(crate) const fn shows_help(&self) -> bool {
        self.shows_help
    }

    pub(crate) const fn order(&self) -> Order {
        self.orders[self.view as usize]
    }

    const fn order_mut(&mut self) -> &mut Order {
        &mut self.orders[self.view as usize]
    }

    /// The view's rows of `picture`, in their order, through the filter.
    pub(crate) fn table(&self, picture: &Picture) -> Table {
        let mut table = self.view.table(picture);
        table.filter(&self.filter);
        table.sort(self.order().column, self.order().is_reversed);
        table
    }

    /// The first row to show of `rows`, of which `room` fit.
    pub(crate) fn first_row(&self, rows: usize, room: usize) -> usize {
        self.top.min(rows.saturating_sub(room))
    }

    /// Obeys a key. `rows`: how many the table has, as it is shown.
    pub fn key(&mut self, key: KeyEvent, rows: usize) -> Wish {
        let ends = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if ends {
            return Wish::Quit;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return Wish::Nothing;
        }
        let was_helping = std::mem::take(&mut self.shows_help);
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('?' | 'h') => self.shows_help = !was_helping,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('u') => return Wish::Report,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('r') => {
                let order = self.order_mut();
                order.is_reversed = !order.is_reversed;
            }
            KeyCode::Right | KeyCode::Char('>') => self.sort_beside(1),
            KeyCode::Left | KeyCode::Char('<') => self.sort_beside(self.view.columns().len() - 1),
            KeyCode::Tab => self.turn_to(self.view as usize + 1),
            KeyCode::BackTab => self.turn_to(self.view as usize + View::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if at < View::ALL.len() {
                    self.turn_to(at);
                }
            }
            other => self.scroll(other, rows),
        }
        Wish::Nothing
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.top = 0;
    }

    fn scroll(&mut self, code: KeyCode, rows: usize) {
        self.top = match code {
            KeyCode::Down | KeyCode::Char('j') => self.top + 1,
            KeyCode::Up | KeyCode::Char('k') => self.top.saturating_sub(1),
            KeyCode::PageDown => self.top + PAGE,
            KeyCode::PageUp => self.top.saturating_sub(PAGE),
            KeyCode::Home => 0,
            KeyCode::End => rows,
            _ => self.top,
        };
        self.top = self.top.min(rows.saturating_sub(1));
    }

    fn sort_beside(&mut self, steps: usize) {
        let columns = self.view.columns().len();
        let order = self.order_mut();
        order.column = (order.column + steps) % columns;
        order.is_reversed = false;
    }

    fn turn_to(&mut self, at: usize) {
        self.view = View::ALL[at % View::ALL.len()];
        self.top = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(screen: &mut Screen, keys: &str) -> Wish {
        let mut wish = Wish::Nothing;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                other => KeyCode::Char(other),
            };
            wish = screen.key(code.into(), 100);
        }
        wish
    }

    #[test]
    fn a_filter_is_typed_and_its_letters_command_nothing() {
        let mut screen = Screen::default();
        assert_eq!(press(&mut screen, "/quix\x08t"), Wish::Nothing);
        assert_eq!((screen.filter(), screen.is_typing()), ("quit", true));
        assert_eq!(press(&mut screen, "\nq"), Wish::Quit);
        press(&mut screen, "\x1b");
        assert_eq!(screen.filter(), "");
        press(&mut screen, "/x\x1b");
        assert_eq!((screen.filter(), screen.is_typing()), ("", false));
    }

    #[test]
    fn each_view_keeps_its_order() {
        let mut screen = Screen::default();
        press(&mut screen, ">r");
        let order = screen.order();
        assert_eq!((order.column, order.is_reversed), (5, true));
        press(&mut screen, "3");
        assert_eq!(screen.view(), View::Workers);
        assert_eq!(screen.order(), Order { column: 0, is_reversed: false });
        press(&mut screen, "<");
        assert_eq!(screen.order().column, View::Workers.columns().len() - 1, "around the end");
        press(&mut screen, "2");
        assert_eq!(screen.order(), order);
        press(&mut screen, "\t\t\t\t\t");
        assert_eq!(screen.view(), View::Services, "around the end");
        press(&mut screen, "9");
        assert_eq!(screen.view(), View::Services, "there is no ninth view");
    }

    #[test]
    fn rows_scroll_within_the_table() {
        let mut screen = Screen::default();
        assert_eq!(screen.first_row(100, 20), 0);
        screen.key(KeyCode::End.into(), 100);
        assert_eq!(screen.first_row(100, 20), 80);
        assert_eq!(screen.first_row(5, 20), 0, "the table has become shorter");
        screen.key(KeyCode::Home.into(), 100);
        screen.key(KeyCode::Up.into(), 100);
        screen.key(KeyCode::PageDown.into(), 100);
        assert_eq!(screen.first_row(100, 20), PAGE);
    }

    #[test]
    fn control_c_ends_even_while_a_filter_is_typed() {
        let mut screen = Screen::default();
        press(&mut screen, "/a");
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.key(key, 0), Wish::Quit);
    }
}
