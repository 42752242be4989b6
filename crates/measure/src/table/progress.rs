//! How far the measurement is, on stderr: a bar on a terminal, lines elsewhere.
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(super) fn new(steps: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(steps as u64);
        // Drawn between measurements only: a ticker would take a core's time.
        let style = ProgressStyle::with_template("{elapsed:>4} [{bar:30}] {pos}/{len} {msg}");
        Self(Some(style.map_or(bar.clone(), |style| bar.with_style(style.progress_chars("=> ")))))
    }

    /// The next step begins.
    pub(super) fn step(&self, what: &str) {
        match &self.0 {
            Some(bar) => {
                bar.set_message(what.to_owned());
                bar.inc(1);
            }
            None => eprintln!("bench: {what}"),
        }
    }

    pub(super) fn done(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
