//! Lines for systemd's journal: each begins with its priority (sd-daemon(3)), so that
//! `journalctl --priority warning` finds warnings.
use std::os::unix::fs::MetadataExt;
use std::{env, fmt, fs};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format as Lines, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// What a line of an error begins with.
const ERROR: &str = "<3>";

/// The last words of a program that ends early, for standard error.
pub(crate) fn last_words(error: &str) -> String {
    let priority = if is_stderr() { ERROR } else { "" };
    error.lines().map(|line| format!("{priority}{line}\n")).collect()
}

/// Whether standard error goes to the journal: systemd says which stream that is.
pub(crate) fn is_stderr() -> bool {
    let Ok(stream) = env::var("JOURNAL_STREAM") else { return false };
    let Ok(own) = fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", own.dev(), own.ino())
}

/// Lines without a time, which the journal has itself.
pub(crate) struct Format(Lines<Full, ()>);

impl Default for Format {
    fn default() -> Self {
        Self(tracing_subscriber::fmt::format().without_time())
    }
}

impl<S, N> FormatEvent<S, N> for Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => ERROR,
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            _ => "<7>",
        };
        // A message may have several lines, and each is an entry of the journal.
        let mut text = String::new();
        self.0.format_event(cx, Writer::new(&mut text), event)?;
        text.lines().try_for_each(|line| writeln!(to, "{priority}{line}"))
    }
}
