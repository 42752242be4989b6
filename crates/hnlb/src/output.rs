//! What commands print. `println!` would panic when the reader of a pipe has
//! gone, as in `hnlb status | head -1`.
use std::io::{self, ErrorKind, Write};

use crate::CommandError;

/// Prints `text` as it is.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether `error` only says that the reader of the pipe has gone.
pub(crate) fn reader_is_gone(error: &CommandError) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
