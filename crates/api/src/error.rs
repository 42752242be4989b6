//! Why the control API can't be served or asked.
use std::io;
use std::path::PathBuf;

use control::Refusal;

/// Why the socket can't be made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
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
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The user may not use the socket.
    #[error(
        "{path}: this user may not use the status socket; ask as its owner or as a member of its group, which [status] owner, group and mode choose"
    )]
    Forbidden {
        /// The socket.
        path: PathBuf,
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
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What came back is no answer.
    #[error("the answer is not understood: {0}; is another version of hnlb running?")]
    Answer(String),
}
