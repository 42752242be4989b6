//! Shows how far a command of the lab is: a bar on a terminal, lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Progress on stderr.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The command, named in each line.
    command: &'static str,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// The display of a command with so many steps.
    pub(crate) fn new(command: &'static str, steps: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { command, bar: None };
        }
        let style = "{elapsed:>4} [{bar:30}] {pos}/{len} {msg}";
        let bar = ProgressBar::new(steps as u64);
        let bar = match ProgressStyle::with_template(style) {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            Err(_) => bar,
        };
        bar.enable_steady_tick(Duration::from_millis(250));
        Self { command, bar: Some(bar) }
    }

    /// The next step begins.
    pub(crate) fn step(&self, what: &str) {
        match &self.bar {
            Some(bar) => {
                // A step counts when the next one begins.
                if !bar.message().is_empty() {
                    bar.inc(1);
                }
                bar.set_message(what.to_owned());
            }
            None => eprintln!("{}: {what}", self.command),
        }
    }

    /// One of many small steps is done; only a bar shows it.
    pub(crate) fn tick(&self) {
        self.bar.iter().for_each(|bar| bar.inc(1));
    }

    /// All is done; the bar goes.
    pub(crate) fn done(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
