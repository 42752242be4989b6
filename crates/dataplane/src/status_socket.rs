//! The status socket: whoever connects is sent the report as one JSON text.
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a client may take to read its report.
const CLIENT_PATIENCE: Duration = Duration::from_secs(2);
/// Clients served at a time; others wait in the socket's backlog.
const CLIENTS: usize = 16;

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
    /// Something else is there.
    #[error("{path}: this is no socket; give [status] socket a path where nothing else is")]
    NoSocket {
        /// The file.
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
    clients: Vec<Client>,
}

/// A client that has not read all yet.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    report: Vec<u8>,
    sent: usize,
    since: Instant,
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
        match std::fs::symlink_metadata(path) {
            Ok(file) if !file.file_type().is_socket() => {
                return Err(StatusSocketError::NoSocket { path: path.to_owned() });
            }
            Ok(_) => std::fs::remove_file(path).map_err(failed)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { path: path.to_owned(), listener, clients: Vec::new() })
    }

    /// Serves everybody who is waiting, without ever waiting for them; `report`
    /// is asked once for each.
    pub fn serve(&mut self, mut report: impl FnMut() -> String) {
        while self.clients.len() < CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if let Err(error) = stream.set_nonblocking(true) {
                tracing::debug!(%error, "a status client can't be served");
                continue;
            }
            let report = report().into_bytes();
            self.clients.push(Client { stream, report, sent: 0, since: Instant::now() });
        }
        self.clients.retain_mut(Client::wants_more);
    }
}

impl Client {
    /// Sends what the client takes now. Whether it is to get more.
    fn wants_more(&mut self) -> bool {
        while let Some(rest) = self.report.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.since.elapsed() < CLIENT_PATIENCE;
                }
                Err(error) => {
                    tracing::debug!(%error, "a status client left early");
                    return false;
                }
            }
        }
        false
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
        let mut socket = StatusSocket::bind(&path).unwrap();
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
    fn who_does_not_read_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let mut socket = StatusSocket::bind(&path).unwrap();
        let _silent = UnixStream::connect(&path).unwrap();
        // More than any socket's buffer.
        let report = "x".repeat(1 << 22);
        socket.serve(|| report.clone());
        assert_eq!(socket.clients.len(), 1, "still served, and we are here");
        let reader = std::thread::spawn(move || read(&path).unwrap().len());
        while !reader.is_finished() {
            socket.serve(|| report.clone());
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), 1 << 22);
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::write(&path, "text").unwrap();
        let error = StatusSocket::bind(&path).unwrap_err().to_string();
        assert!(error.contains("this is no socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn a_socket_in_use_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let _first = StatusSocket::bind(&path).unwrap();
        assert!(StatusSocket::bind(&path).unwrap_err().to_string().contains("another hnlb"));
    }
}
