//! The status socket: a client writes a [`Request`] as one line of JSON and is
//! sent the answer as one JSON text. An empty line asks for the report.
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::{Refusal, Request};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;

use crate::explain::Search;
use crate::patience;
use crate::socket_file;

/// Milliseconds that a client may take to read its report.
const CLIENT_PATIENCE_MS: u64 = 2000;
/// Milliseconds that a client may take to ask. A client that asks nothing, and
/// does not shut its side down, gets the report after this time, which is longer
/// than a client loses its core between connecting and asking.
const QUESTION_PATIENCE_MS: u64 = 1000;
/// Bytes of the longest question.
const LONGEST_QUESTION: usize = 8192;
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
    #[error("{path}: not a socket; give [status] socket a path where nothing else is")]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// Its directory is missing.
    #[error(
        "{path}: there is no directory {parent}, and HNLB makes directories below /run only; make it, or give [status] socket another path"
    )]
    NoDirectory {
        /// The socket.
        path: PathBuf,
        /// Its directory.
        parent: PathBuf,
    },
    /// The system knows no such user or group.
    #[error("[status] {kind} = \"{name}\": the system has no such name ({source})")]
    NoSuchName {
        /// The key.
        kind: &'static str,
        /// Its value.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The user may not use it.
    #[error(
        "{path}: this user may not use the status socket; ask as its owner or as a member of its group, which [status] owner, group and mode choose"
    )]
    Forbidden {
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
    /// No process answers.
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
    /// The user that may change things, as root may.
    owner: Uid,
    clients: Vec<Client>,
}

/// A client that has not read all yet.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// Whether it may change things, or only ask.
    may_change: bool,
    question: Vec<u8>,
    /// `None`: it may still be asking.
    request: Option<Request>,
    /// How far its answer has been searched for.
    search: Search,
    /// `None`: there is no answer yet.
    report: Option<Vec<u8>>,
    sent: usize,
    /// When it came; when it was answered.
    since_ms: u64,
}

impl StatusSocket {
    /// Makes the socket. A process that ends is given `patience` to let go of it, and
    /// a socket left behind by a crash is replaced.
    ///
    /// # Errors
    /// Another instance serves it, or it can't be made.
    pub fn bind(status: &config::Status, patience: Duration) -> Result<Self, StatusSocketError> {
        let is_taken = |error: &StatusSocketError| matches!(error, StatusSocketError::Taken { .. });
        let (listener, owner) = patience::wait(patience, || socket_file::bind(status), is_taken)?;
        Ok(Self { path: status.socket.clone(), listener, owner, clients: Vec::new() })
    }

    /// Serves all clients that wait at `now_ms`, without ever waiting for them.
    /// `answer` is asked for each that has made a request, in this call and the next
    /// ones until it gives the answer; the search is the client's own.
    pub(crate) fn serve(
        &mut self,
        now_ms: u64,
        mut answer: impl FnMut(&Request, &mut Search) -> Option<String>,
    ) {
        while self.clients.len() < CLIENTS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if let Err(error) = stream.set_nonblocking(true) {
                tracing::debug!(%error, "a status client can't be served");
                continue;
            }
            let peer = getsockopt(&stream, PeerCredentials).map(|peer| Uid::from_raw(peer.uid()));
            let may_change = peer.is_ok_and(|user| user.is_root() || user == self.owner);
            self.clients.push(Client {
                stream,
                may_change,
                question: Vec::new(),
                request: None,
                search: Search::default(),
                report: None,
                sent: 0,
                since_ms: now_ms,
            });
        }
        for client in self.clients.iter_mut().filter(|client| client.report.is_none()) {
            if client.request.is_none() && client.has_asked(now_ms) {
                match request(&client.question, client.may_change) {
                    Ok(request) => client.request = Some(request),
                    Err(text) => client.report = Some(text.into_bytes()),
                }
            }
            if let Some(request) = &client.request {
                client.report = answer(request, &mut client.search).map(String::into_bytes);
            }
            if client.report.is_some() {
                client.since_ms = now_ms;
            }
        }
        self.clients.retain_mut(|client| client.wants_more(now_ms));
    }
}

/// The request in `line`; else the answer to what is none, or to what this client may
/// not do, which has the form of every refusal.
fn request(line: &[u8], may_change: bool) -> Result<Request, String> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(Request::Status);
    }
    let refuse = |refusal: Refusal| {
        let refused: Result<(), Refusal> = Err(refusal);
        serde_json::to_string(&refused).unwrap_or_default()
    };
    match serde_json::from_slice::<Request>(line) {
        Ok(request) if request.changes() && !may_change => Err(refuse(Refusal::Forbidden)),
        Ok(request) => Ok(request),
        Err(error) => Err(refuse(Refusal::Malformed(error.to_string()))),
    }
}

impl Client {
    /// Takes what has come of its question. Whether that is all.
    fn has_asked(&mut self, now_ms: u64) -> bool {
        let mut bytes = [0; LONGEST_QUESTION];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(read) => self.question.extend(bytes.iter().take(read)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.waits_ms(now_ms) >= QUESTION_PATIENCE_MS;
                }
                // It can't be told anything either.
                Err(_) => return true,
            }
            if self.question.contains(&b'\n') || self.question.len() >= LONGEST_QUESTION {
                return true;
            }
        }
    }

    fn waits_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.since_ms)
    }

    /// Sends what the client takes now. Whether it is to get more.
    fn wants_more(&mut self, now_ms: u64) -> bool {
        let waits_ms = self.waits_ms(now_ms);
        let Some(report) = &self.report else { return true };
        while let Some(rest) = report.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return false,
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return waits_ms < CLIENT_PATIENCE_MS;
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
/// No instance answers there.
pub fn read(path: &Path) -> Result<String, StatusSocketError> {
    ask(path, "")
}

/// Asks the instance that serves `path` why the connections of `client` are, or
/// are not, in hardware: an [`Answer`](crate::status::Answer) as JSON.
///
/// # Errors
/// No instance answers there.
pub fn explain(path: &Path, client: SocketAddr) -> Result<String, StatusSocketError> {
    let line = serde_json::to_string(&Request::Connection { client }).unwrap_or_default();
    ask(path, &(line + "\n"))
}

pub(crate) fn ask(path: &Path, question: &str) -> Result<String, StatusSocketError> {
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::PermissionDenied => StatusSocketError::Forbidden { path: path.to_owned() },
        _ => StatusSocketError::Connect { path: path.to_owned(), source },
    };
    let mut text = String::new();
    UnixStream::connect(path)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(question.as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            stream.read_to_string(&mut text)
        })
        .map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(path: &Path) -> Result<StatusSocket, StatusSocketError> {
        let status = config::Status { socket: path.to_owned(), ..config::Status::default() };
        StatusSocket::bind(&status, Duration::ZERO)
    }

    fn mode(path: &Path) -> u32 {
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions())
            & 0o777
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
        let _socket = StatusSocket::bind(&status, Duration::ZERO).unwrap();
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
            let error = StatusSocket::bind(&status, Duration::ZERO).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("no-such-name"), "{error}");
            assert!(!status.socket.exists());
        }
    }

    /// With the owner's mode 0666 every user gets in, and only asks.
    #[test]
    fn a_client_of_another_user_asks_and_changes_nothing() {
        let change = br#"{"reload": {"file": null, "dry_run": true}}"#;
        assert!(request(change, true).is_ok());
        let refused: Result<(), Refusal> =
            serde_json::from_str(&request(change, false).unwrap_err()).unwrap();
        assert_eq!(refused, Err(Refusal::Forbidden));
        assert_eq!(request(br#""status""#, false), Ok(Request::Status));
        assert_eq!(request(b"", false), Ok(Request::Status));
    }

    #[test]
    fn a_missing_directory_is_made_below_run_only() {
        let dir = tempfile::tempdir().unwrap();
        let error = bind(&dir.path().join("run/hnlb.sock")).unwrap_err().to_string();
        assert!(error.contains("no directory") && error.contains("/run only"), "{error}");
        assert!(!dir.path().join("run").exists());
    }

    #[test]
    fn a_report_travels_and_a_stale_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let mut socket = bind(&path).unwrap();
        let reader = std::thread::spawn({
            let path = path.clone();
            move || read(&path).unwrap()
        });
        let mut turns = 0;
        while !reader.is_finished() {
            socket.serve(0, |question, _| {
                assert_eq!(question, &Request::Status);
                // As a search that goes on has no answer at first.
                turns += 1;
                (turns > 3).then(|| "{\"ready\":true}".to_owned())
            });
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
        let mut socket = bind(&path).unwrap();
        let _silent = UnixStream::connect(&path).unwrap();
        // More than any socket's buffer.
        let report = "x".repeat(1 << 22);
        socket.serve(0, |_, _| Some(report.clone()));
        socket.serve(QUESTION_PATIENCE_MS - 1, |_, _| panic!("it may still ask"));
        assert_eq!(socket.clients[0].sent, 0);
        let answered_ms = QUESTION_PATIENCE_MS;
        socket.serve(answered_ms, |_, _| Some(report.clone()));
        assert!(socket.clients[0].sent > 0, "a client that asks nothing gets the report");
        let end_ms = answered_ms + CLIENT_PATIENCE_MS;
        let reader = std::thread::spawn(move || read(&path).unwrap().len());
        while !reader.is_finished() {
            socket.serve(end_ms - 1, |_, _| Some(report.clone()));
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), 1 << 22);
        assert_eq!(socket.clients.len(), 1, "still served, and we are here");
        socket.serve(end_ms, |_, _| Some(report.clone()));
        assert_eq!(socket.clients.len(), 0, "for so long and no longer");
    }

    /// A client that loses its core between connecting and asking is not answered with
    /// the report meanwhile.
    #[test]
    fn a_question_may_come_late() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let mut socket = bind(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let parts = [(0, "\"sta"), (500, "tus\""), (QUESTION_PATIENCE_MS - 1, "\n")];
        for (now_ms, part) in parts {
            socket.serve(now_ms, |request, _| panic!("{request:?} is not all"));
            client.write_all(part.as_bytes()).unwrap();
        }
        socket.serve(QUESTION_PATIENCE_MS - 1, |request, _| Some(format!("about {request:?}")));
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "about Status");
    }

    #[test]
    fn a_question_gets_its_own_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let mut socket = bind(&path).unwrap();
        let reader =
            std::thread::spawn(move || explain(&path, "[fd00::1]:443".parse().unwrap()).unwrap());
        while !reader.is_finished() {
            socket.serve(0, |request, _| match request {
                Request::Connection { client } => Some(format!("about {client}")),
                other => panic!("{other:?}"),
            });
            std::thread::yield_now();
        }
        assert_eq!(reader.join().unwrap(), "about [fd00::1]:443");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let mut socket = bind(&path).unwrap();
        for line in ["connection 192.0.2.1:5", "{\"drain\": {}}", "{\"reload\": {\"dry\": 1}}"] {
            let path = path.clone();
            let reader = std::thread::spawn(move || ask(&path, &format!("{line}\n")).unwrap());
            while !reader.is_finished() {
                socket.serve(0, |request, _| panic!("{request:?}"));
                std::thread::yield_now();
            }
            let answer: Result<(), Refusal> =
                serde_json::from_str(&reader.join().unwrap()).unwrap();
            assert!(matches!(answer, Err(Refusal::Malformed(_))), "{line}: {answer:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::write(&path, "text").unwrap();
        let error = bind(&path).unwrap_err().to_string();
        assert!(error.contains("not a socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn a_socket_in_use_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hnlb.sock");
        let _first = bind(&path).unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("another hnlb"));
    }
}
