//! A picture on a frame: the totals, a bar for each worker, the table, the keys.
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Gauge, Paragraph, Row, Table as Widget, Wrap};
use status::{Picture, WorkerPicture};

use crate::screen::Screen;
use crate::table::{Cell, Column, Table, Tone};
use crate::units::{count, percent, rate, time};
use crate::view::{View, load_tone};

/// Workers with a bar; more are in their view only.
const BARS: usize = 4;
/// Between columns, in characters.
const GAP: u16 = 2;
/// The least width of a bar.
const BAR_WIDTH: u16 = 24;

const KEYS: &str = "1-6 or Tab view   < > sort by   r reverse   / filter   Esc no filter   \
                    Space pause   u report now   ? help   q quit";

const HELP: &str = "\
1 to 6, Tab      another view
< and >, arrows  sort by the column beside
r                the other way round
/                show only rows that contain what is typed, until Enter; Esc: all rows
j k, arrows, Page Up and Down, Home, End  scroll
Space            the picture stands still, or goes on
u                a new report at once
q, Ctrl-C        quit

Rates are per second, over the time between two reports. util is the part of a \
worker's cycles that is spent on packets; util+ also counts how full the bursts are, \
and grows with the load up to 100 % (docs/user/operations.md).

Any key closes this.";

/// The lines about everything together.
pub(crate) fn head(picture: &Picture) -> [String; 4] {
    let totals = &picture.totals;
    let state = match picture.ready {
        true => "ready".to_owned(),
        false => format!("waiting for {}", picture.waiting_for.join(", ")),
    };
    let rules = match totals.rules_limit {
        0 => totals.rules.to_string(),
        limit => format!("{} of {limit}", totals.rules),
    };
    [
        format!("hnlb {}, up {}, {state}", picture.version, time(picture.uptime_seconds)),
        format!(
            "packets/s    in {}, out {}, past workers {}, dropped {}",
            rate(totals.received),
            rate(totals.sent),
            rate(totals.past_workers),
            rate(totals.dropped)
        ),
        format!(
            "connections  {} of {}, {} new/s",
            totals.connections,
            count(totals.connections_limit as f64),
            rate(totals.new_connections)
        ),
        format!("rules        {rules}; util+ of the busiest worker {}", percent(totals.util_plus)),
    ]
}

/// Puts `picture` on `frame` as `screen` says, and gives how many rows the table has.
/// `failure`: why there is no newer report.
pub fn draw(frame: &mut Frame<'_>, picture: &Picture, screen: &Screen, failure: &str) -> usize {
    let bars = u16::from(!picture.workers.is_empty());
    let heights = [4, bars, 1, 1].map(Constraint::Length);
    let heights = heights.into_iter().chain([Constraint::Min(1), Constraint::Length(1)]);
    let [top, bars, tabs, told, rows, keys] = Layout::vertical(heights).areas(frame.area());
    let tone = if picture.ready { Tone::Good } else { Tone::Warning };
    let [first, more @ ..] = head(picture);
    let lines: Vec<Line<'_>> = std::iter::once(Line::styled(first, tone_style(tone)).bold())
        .chain(more.into_iter().map(Line::from))
        .collect();
    frame.render_widget(Paragraph::new(lines), top);
    draw_bars(frame, &picture.workers, bars);
    frame.render_widget(tab_line(screen), tabs);
    let table = screen.table(picture);
    frame.render_widget(told_line(screen, &table, failure), told);
    draw_table(frame, &table, screen, rows);
    frame.render_widget(Line::from(KEYS).dim(), keys);
    if screen.shows_help() {
        draw_help(frame);
    }
    table.rows.len()
}

fn draw_bars(frame: &mut Frame<'_>, workers: &[WorkerPicture], area: Rect) {
    let fit = usize::from(area.width / BAR_WIDTH).clamp(1, BARS).min(workers.len());
    let areas = Layout::horizontal(vec![Constraint::Fill(1); fit]).spacing(1).split(area);
    for (worker, area) in workers.iter().zip(areas.iter()) {
        let label = format!("worker {} util+ {}", worker.worker, percent(worker.util_plus));
        let color = match load_tone(worker.util_plus) {
            Tone::Bad => Color::Red,
            Tone::Warning => Color::Yellow,
            _ => Color::Green,
        };
        let gauge = Gauge::default()
            .ratio(worker.util_plus.clamp(0.0, 1.0))
            .label(label)
            .use_unicode(true)
            .gauge_style(Style::new().fg(color));
        frame.render_widget(gauge, *area);
    }
}

fn tab_line(screen: &Screen) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let style = match view == screen.view() {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {} {} ", at + 1, view.name()), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

/// What has been chosen, and what is wrong.
fn told_line(screen: &Screen, table: &Table, failure: &str) -> Line<'static> {
    let mut spans = vec![Span::raw(format!("{} rows", table.rows.len())).dim()];
    if screen.is_typing() {
        spans.push(Span::raw(format!("   filter: {}_", screen.filter())).bold());
    } else if !screen.filter().is_empty() {
        spans.push(Span::raw(format!("   filter: {}", screen.filter())));
    }
    if screen.is_paused() {
        spans.push(Span::styled("   paused", tone_style(Tone::Warning)));
    }
    if !failure.is_empty() {
        spans.push(Span::styled(format!("   no new report: {failure}"), tone_style(Tone::Bad)));
    }
    Line::from(spans)
}

fn draw_table(frame: &mut Frame<'_>, table: &Table, screen: &Screen, area: Rect) {
    let order = screen.order();
    let mut widths = table.widths();
    if let Some(sorted) = widths.get_mut(order.column) {
        // Room for the arrow.
        *sorted = sorted.saturating_add(2);
    }
    widths.truncate(fitting(&widths, area.width));
    let aligned = |text: String, is_number: bool| match is_number {
        true => Line::from(text).right_aligned(),
        false => Line::from(text),
    };
    let name = |(at, column): (usize, &Column)| {
        let arrow = match (at == order.column, column.is_number != order.is_reversed) {
            (false, _) => "",
            (true, true) => " ▼",
            (true, false) => " ▲",
        };
        aligned(format!("{}{arrow}", column.name), column.is_number)
    };
    let header = Row::new(table.columns.iter().enumerate().map(name)).bold().underlined();
    let room = usize::from(area.height.saturating_sub(1));
    let first = screen.first_row(table.rows.len(), room);
    let rows = table.rows.iter().skip(first).take(room).map(|row| {
        let cell = |(own, column): (&Cell, &Column)| {
            aligned(own.text.clone(), column.is_number).style(tone_style(own.tone))
        };
        Row::new(row.iter().zip(&table.columns).map(cell).collect::<Vec<_>>())
    });
    let widths = widths.into_iter().map(Constraint::Length);
    let widget = Widget::new(rows.collect::<Vec<_>>(), widths).header(header).column_spacing(GAP);
    frame.render_widget(widget, area);
}

/// How many columns fit side by side: those on the right are left out, so that none is cut
/// off but the first.
fn fitting(widths: &[u16], room: u16) -> usize {
    let mut end = 0_u16;
    let fit = widths.iter().take_while(|width| {
        end = end.saturating_add(**width);
        let fits = end <= room;
        end = end.saturating_add(GAP);
        fits
    });
    fit.count().max(1)
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(76), area.height.min(18));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let text = Paragraph::new(HELP).wrap(Wrap { trim: false });
    frame.render_widget(text.block(Block::bordered().title(" hnlb top ")), place);
}

/// Of the 16 colours, which every terminal shows as its user has chosen them.
fn tone_style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red).bold(),
    }
}
