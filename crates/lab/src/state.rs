//! What a lab remembers on disk, so that another process can take it down.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::proc::ProcessId;

/// Where the run directories are, one a lab.
const ROOT: &str = "/run/hnlb-lab";

/// A long-running process of a lab; its pid is its process group's too.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What it is, for instance `b1-nginx`.
    pub name: String,
    /// Which process.
    pub id: ProcessId,
}

/// The contents of `state.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    /// Name of the lab.
    pub name: String,
    /// Who set it up.
    pub owner: ProcessId,
    /// Whether it outlives who set it up.
    pub keep: bool,
    /// Whether HNLB's port is the veth (else a tap of its own making).
    pub veth: bool,
    /// Its long-running processes, in order of their start.
    pub processes: Vec<Record>,
}

/// The run directory of a lab.
pub(crate) fn dir(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

fn file(name: &str) -> PathBuf {
    dir(name).join("state.json")
}

/// A lab's name goes into namespace names and paths.
pub(crate) fn check_name(name: &str) -> Result<(), LabError> {
    let fits = (1..=20).contains(&name.len())
        && !name.starts_with('-')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if fits { Ok(()) } else { Err(LabError::Name(name.into())) }
}

impl State {
    /// Reads the state of a lab.
    pub(crate) fn load(name: &str) -> Result<Self, LabError> {
        let file = file(name);
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(LabError::Absent { name: name.into(), file });
            }
            Err(error) => return Err(LabError::io(format!("read {}", file.display()))(error)),
        };
        serde_json::from_str(&text).map_err(|error| LabError::Parse {
            tool: "an earlier lab",
            detail: format!("{}: {error}", file.display()),
        })
    }

    /// Writes the state; a crash leaves the old or the new one, never half.
    pub(crate) fn save(&self) -> Result<(), LabError> {
        let file = file(&self.name);
        let what = || LabError::io(format!("write {}", file.display()));
        let text = serde_json::to_string_pretty(self).map_err(|e| what()(e.into()))?;
        let new = file.with_extension("json.new");
        std::fs::write(&new, text).map_err(what())?;
        std::fs::rename(&new, &file).map_err(what())
    }

    /// Whether the process that set the lab up is gone and the lab is not to be kept.
    pub(crate) fn stale(&self) -> bool {
        !self.keep && !self.owner.alive()
    }
}

/// The states of all labs that can be read.
pub(crate) fn all() -> Vec<State> {
    let entries = std::fs::read_dir(ROOT).into_iter().flatten().flatten();
    entries.filter_map(|entry| State::load(&entry.file_name().to_string_lossy()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for good in ["a", "demo", "t-17", "0123456789abcdefghij"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "..", "a/b", "-x", "A", "a b", "0123456789abcdefghijk"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_lab_of_a_living_owner_is_not_stale() {
        let own = ProcessId::own();
        let gone = ProcessId { started: own.started + 1, ..own };
        let state =
            |owner, keep| State { name: "x".into(), owner, keep, veth: true, processes: vec![] };
        assert!(!state(own, false).stale());
        assert!(state(gone, false).stale());
        assert!(!state(gone, true).stale());
    }
}
