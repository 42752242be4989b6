//! The Unix socket of the control API, made by the process that runs the load
//! balancer: it outlives the process that serves it.
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::unistd::Uid;

use crate::{SocketError, socket_file};

/// How often a socket that is taken is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The socket; its file is removed when it goes.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
    owner: Uid,
}

impl Socket {
    /// Makes the socket. A process that ends is given `patience` to let go of it, and
    /// a socket left behind by a crash is replaced.
    ///
    /// # Errors
    /// Another instance serves it, or it can't be made.
    pub fn bind(status: &config::Status, patience: Duration) -> Result<Self, SocketError> {
        let since = Instant::now();
        loop {
            match socket_file::bind(status) {
                Err(SocketError::Taken { .. }) if since.elapsed() < patience => {
                    std::thread::sleep(RETRY);
                }
                Err(error) => return Err(error),
                Ok((listener, owner)) => {
                    return Ok(Self { path: status.socket.clone(), listener, owner });
                }
            }
        }
    }

    /// The listener.
    #[must_use]
    pub const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The number of the user who may change things, as root may.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.owner.as_raw()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the status socket stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn bind(path: &Path) -> Result<Socket, SocketError> {
        let status = config::Status { socket: path.to_owned(), ..config::Status::default() };
        Socket::bind(&status, Duration::ZERO)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_mode_is_as_configured() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let socket = bind(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        drop(socket);
        let status =
            config::Status { socket: path.clone(), mode: 0o660, ..config::Status::default() };
        let _socket = Socket::bind(&status, Duration::ZERO).unwrap();
        assert_eq!(mode(&path), 0o660);
    }

    #[test]
    fn names_that_the_system_does_not_know_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("hnlb.sock");
        let name = Some("no-such-name".to_owned());
        let plain = config::Status { socket, ..config::Status::default() };
        let owner = config::Status { owner: name.clone(), ..plain.clone() };
        let group = config::Status { group: name, ..plain };
        for (status, key) in [(owner, "owner"), (group, "group")] {
            let error = Socket::bind(&status, Duration::ZERO).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("no-such-name"), "{error}");
            assert!(!status.socket.exists());
        }
    }

    #[test]
    fn a_missing_directory_is_made_below_run_only() {
        let dir = tempfile::tempdir().unwrap();
        let error = bind(&dir.path().join("run/hnlb.sock")).unwrap_err().to_string();
        assert!(error.contains("no directory") && error.contains("/run only"), "{error}");
        assert!(!dir.path().join("run").exists());
    }

    #[test]
    fn a_taken_socket_stays_and_one_left_behind_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let socket = bind(&path).unwrap();
        let error = bind(&path).unwrap_err().to_string();
        assert!(error.contains("another [status] socket"), "{error}");
        assert!(path.exists(), "the other's socket stays");
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_socket_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("not a socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
