//! The status socket: a connection gets one report as JSON.
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::report::Report;

/// How long a peer may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// A socket of mode 0600 that is removed when it is dropped.
pub struct StatusSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// No status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The socket can't be made.
    #[error("the status socket {path} can't be made: {source}")]
    Bind {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another server has it.
    #[error("the status socket {path} belongs to a running server")]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// Nobody answers.
    #[error("no server answers at {path}: {source}; is `hnlb nf run` running?")]
    Connect {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl StatusSocket {
    /// Makes the socket; one that a dead server has left is replaced.
    ///
    /// # Errors
    /// It can't be made, or a server answers at it.
    pub fn bind(path: &Path) -> Result<Self, StatusError> {
        let failed = |source| StatusError::Bind { path: path.to_owned(), source };
        if UnixStream::connect(path).is_ok() {
            return Err(StatusError::InUse { path: path.to_owned() });
        }
        match std::fs::remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, private).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers all that ask now.
    pub fn answer(&self, report: &Report) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let answered =
                serde_json::to_vec(report).map_err(std::io::Error::other).and_then(|mut bytes| {
                    bytes.push(b'\n');
                    stream.set_nonblocking(false)?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    stream.write_all(&bytes)
                });
            if let Err(error) = answered {
                tracing::debug!("a status was not delivered: {error}");
            }
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!("{} was not removed: {error}", self.path.display());
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
