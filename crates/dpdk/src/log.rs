//! DPDK's log: to stderr, or caught to become part of an error's text.
use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The least severe level that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Errors only.
    Error,
    /// And warnings.
    #[default]
    Warning,
    /// And what is normal but notable.
    Notice,
    /// And information.
    Info,
    /// Everything.
    Debug,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
            Self::Debug => "debug",
        })
    }
}

/// One capture at a time.
static CAPTURE: Mutex<()> = Mutex::new(());

/// Runs `work` and gives what DPDK logged meanwhile on top of its result.
///
/// Drivers return bare error numbers and say why only in the log. If `work`
/// succeeds its log goes to stderr as usual.
pub(crate) fn explained<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, (E, String)> {
    let _one = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: only sets a flag, under the shim's lock.
    unsafe { dpdk_sys::hnlb_log_capture() };
    let result = work();
    let mut text = vec![0_u8; 4096];
    // SAFETY: `text` is `text.len()` writable bytes, and c_char has u8's layout.
    let used = unsafe { dpdk_sys::hnlb_log_release(text.as_mut_ptr().cast(), text.len()) };
    text.truncate(used);
    match result {
        Ok(value) => {
            // Nothing better can be done about a closed stderr.
            let _ = std::io::stderr().write_all(&text);
            Ok(value)
        }
        Err(error) => Err((error, one_line(&String::from_utf8_lossy(&text)))),
    }
}

/// The lines of a log as one, without repetitions.
fn one_line(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("; ")
}

/// `reason`, and what the log adds to it.
pub(crate) fn with_log(reason: String, log: &str) -> String {
    if log.is_empty() { reason } else { format!("{reason}: {log}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lines_are_told_once() {
        assert_eq!(one_line("a\n\n b\na\n"), "a; b");
        assert_eq!(with_log("x".into(), ""), "x");
        assert_eq!(with_log("x".into(), "a; b"), "x: a; b");
    }
}
