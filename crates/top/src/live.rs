//! The loop over a real terminal: keys in, pictures out. Reports are asked for in a
//! thread of their own, so that a load balancer that answers slowly delays no key.
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use status::{Picture, Status};

use crate::draw::draw;
use crate::screen::{Screen, Wish};

/// How long a key may wait for a report to be drawn, and a report for a key.
const LOOK: Duration = Duration::from_millis(50);

/// A report, or why there is none.
pub type Report = Result<Status, String>;

/// Shows what `ask` reports, every `interval`, until the user quits.
///
/// # Errors
/// The terminal can't be used.
pub fn live(
    ask: impl FnMut() -> Report + Send + 'static,
    interval: Duration,
    screen: Screen,
) -> io::Result<()> {
    let (now, wishes) = mpsc::channel();
    let (reports, news) = mpsc::channel();
    // Ends when this function has: nobody takes its reports any more.
    thread::spawn(move || report(ask, interval, &wishes, &reports));
    let mut terminal = ratatui::try_init()?;
    let done = show(&mut terminal, screen, &news, &now);
    ratatui::restore();
    done
}

fn report(
    mut ask: impl FnMut() -> Report,
    interval: Duration,
    wishes: &Receiver<()>,
    reports: &Sender<Report>,
) {
    loop {
        if reports.send(ask()).is_err() {
            return;
        }
        match wishes.recv_timeout(interval) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    news: &Receiver<Report>,
    now: &Sender<()>,
) -> io::Result<()> {
    let (mut last, mut picture): (Option<Status>, _) = (None, Picture::default());
    let (mut failure, mut rows, mut is_due) = (String::new(), 0, true);
    loop {
        for report in news.try_iter() {
            is_due = true;
            match report {
                Ok(status) => {
                    failure.clear();
                    if !screen.is_paused() {
                        picture = Picture::between(last.as_ref(), &status);
                    }
                    last = Some(status);
                }
                Err(why) => failure = why,
            }
        }
        if is_due {
            terminal.draw(|frame| rows = draw(frame, &picture, &screen, &failure))?;
            is_due = false;
        }
        if !event::poll(LOOK)? {
            continue;
        }
        is_due = true;
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match screen.key(key, rows) {
            Wish::Nothing => {}
            // An error: the thread has ended, which it does with this function only.
            Wish::Report => drop(now.send(())),
            Wish::Quit => return Ok(()),
        }
    }
}
