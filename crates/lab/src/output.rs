//! Standard output.
use std::fmt::Arguments;
use std::io::Write;

/// Prints `text`, if there is a reader.
pub(crate) fn print(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        tracing::debug!(%error, "standard output cannot be written");
    }
}
