//! What can go wrong with a lab.

use std::path::PathBuf;

/// Why the lab could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The machine lacks something; the text says what and how to get it.
    #[error("the lab cannot run here: {0}")]
    Unavailable(String),
    /// A lab of this name stands already.
    #[error(
        "a lab named `{name}` is already up (its files are in {}); take it down with `hnlb lab down --name {name}` or choose another name", dir.display()
    )]
    Exists {
        /// Name of the lab.
        name: String,
        /// Its run directory.
        dir: PathBuf,
    },
    /// No lab of this name stands.
    #[error(
        "there is no lab named `{name}` ({} is missing); start one with `hnlb lab up --name {name}`", file.display()
    )]
    Absent {
        /// Name of the lab.
        name: String,
        /// The state file that would be there.
        file: PathBuf,
    },
    /// A name that cannot be part of a namespace's name.
    #[error(
        "`{0}` cannot name a lab: use 1 to 20 characters out of a-z, 0-9 and `-`, for instance `mine`"
    )]
    Name(String),
    /// No host of this name.
    #[error("the lab has no host `{0}`; its hosts are c1, c2, lb, b1, b2, b3, b4 and sw")]
    Host(String),
    /// A file could not be read or written, or a process not be started.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with the path or program.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A command ended with an error.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it wrote to stderr (or stdout, if that is all).
        stderr: String,
    },
    /// Something didn't happen in time.
    #[error("{what} did not happen within {seconds} s{detail}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
        /// More about it, starting with a separator, or empty.
        detail: String,
    },
    /// A tool's output was not understood.
    #[error("cannot read what {tool} printed: {detail}")]
    Parse {
        /// The tool.
        tool: &'static str,
        /// What is wrong with its output, with the text.
        detail: String,
    },
    /// HNLB ended although it should run.
    #[error("hnlb ended ({status}) although it should run; the end of its log {}:\n{tail}", log.display())]
    BalancerEnded {
        /// How it ended.
        status: String,
        /// Its log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl LabError {
    /// Makes an [`LabError::Io`] from the system's answer.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
