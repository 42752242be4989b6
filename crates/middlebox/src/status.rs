//! The status socket: a connection gets one report as JSON.
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::report::Report;

/// How long a peer may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// No status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// Nobody answers.
    #[error("no server answers at {path}: {source}; is `hnlb nf run` running?")]
    Connect {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Answers all that ask at `listener`, which does not block, now.
pub fn answer(listener: &UnixListener, report: &Report) {
    while let Ok((mut stream, _)) = listener.accept() {
        let mut answer = || {
            let mut bytes = serde_json::to_vec(report)?;
            bytes.push(b'\n');
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(&bytes)
        };
        if let Err(error) = answer() {
            tracing::debug!("a status was not delivered: {error}");
        }
    }
}

/// The report of a running server as JSON.
///
/// # Errors
/// Nobody answers.
pub fn ask(path: &Path) -> Result<String, StatusError> {
    let answer = || {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(4 * PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    answer().map_err(|source| StatusError::Connect { path: path.to_owned(), source })
}
