//! The status socket: whoever connects is sent the report as one JSON text.
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a client may take to read its report.
const CLIENT_PATIENCE: Duration = Duration::from_secs(2);

/// Why the status can't be served or read.
#[derive(Debug, thiserror::Error)]
pub enum StatusSocketError {
    /// Another instance serves it.
    #[error(
        "{path}: another hnlb serves this status socket; give this one another [status] socket"
    )]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// It can't be made.
    #[error(
        "{path}: the status socket can't be made: {source}; [status] socket must lie in a directory that this user may write"
    )]
    Bind {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody answers.
    #[error(
        "{path}: no running hnlb answers here: {source}; is it started, with this [status] socket?"
    )]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The serving side; its file is removed when it goes.
#[derive(Debug)]
pub struct StatusSocket {
    path: PathBuf,
    listener: UnixListener,
}

impl StatusSocket {
    /// Makes the socket, and its directory if that is missing. A socket left
    /// behind by a crash is replaced.
    ///
    /// # Errors
    /// Another instance serves it, or it can't be made.
    pub fn bind(path: &Path) -> Result<Self, StatusSocketError> {
        let failed = |source| StatusSocketError::Bind { path: path.to_owned(), source };
        if UnixStream::connect(path).is_ok() {
            return Err(StatusSocketError::Taken { path: path.to_owned() });
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { path: path.to_owned(), listener })
    }

    /// Serves everybody who is waiting; `report` is asked once for each.
    pub fn serve(&self, mut report: impl FnMut() -> String) {
        while let Ok((mut client, _)) = self.listener.accept() {
            let sent = client
                .set_nonblocking(false)
                .and_then(|()| client.set_write_timeout(Some(CLIENT_PATIENCE)))
                .and_then(|()| client.write_all(report().as_bytes()));
            if let Err(error) = sent {
                tracing::debug!(%error, "a status client left early");
            }
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the status socket stays behind");
        }
    }
}

/// Reads the report of the instance that serves `path`.
///
/// # Errors
/// Nobody answers there.
pub fn read(path: &Path) -> Result<String, StatusSocketError> {
    let failed = |source| StatusSocketError::Connect { path: path.to_owned(), source };
    let mut text = String::new();
    UnixStream::connect(path)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.read_to_string(&mut text)
        })
        .map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_travels_and_a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/hnlb.sock");
        std::mem::forget(StatusSocket::bind(&path).unwrap().listener.try_clone());
        let socket = StatusSocket::bind(&path).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || read(&path).unwrap()
        });
        while !reader.is_finished() {
            socket.serve(|| "{\"ready\":true}".to_owned());
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), "{\"ready\":true}");
        drop(socket);
        assert!(!path.exists());
        assert!(read(&path).unwrap_err().to_string().contains("no running hnlb"));
    }

    #[test]
    fn a_socket_in_use_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let _first = StatusSocket::bind(&path).unwrap();
        assert!(StatusSocket::bind(&path).unwrap_err().to_string().contains("another hnlb"));
    }
}
