//! Shows how far the demo is: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress on stderr.
#[derive(Debug)]
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// For so many steps.
    pub(super) fn new(steps: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let style = "{elapsed:>4} [{bar:30}] {pos}/{len} {msg}";
        let bar = ProgressBar::new(steps as u64);
        let bar = match ProgressStyle::with_template(style) {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        };
        bar.enable_steady_tick(Duration::from_millis(250));
        Self(Some(bar))
    }

    /// The next step begins.
    pub(super) fn step(&self, what: &str) {
        match &self.0 {
            Some(bar) => {
                // A step counts when the next one begins.
                if !bar.message().is_empty() {
                    bar.inc(1);
                }
                bar.set_message(what.to_owned());
            }
            None => eprintln!("demo: {what}"),
        }
    }

    /// All is done; the bar goes.
    pub(super) fn done(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
