//! What commands have changed, on disk: it survives a restart.
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Drained;

/// The version of the file's form that is written, and the newest that is read.
const VERSION: u32 = 1;

/// What is in the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    drained: BTreeSet<Drained>,
}

/// The version alone, which every version of the form has.
#[derive(Debug, Deserialize)]
struct Version {
    version: u32,
}

/// Why the file can't be read or written. The load balancer serves all the same.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// The system refuses.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It isn't what was written.
    #[error("{path}: the file is damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A later version of HNLB has written it.
    #[error("{path}: the file has version {found}, and this program reads up to {VERSION}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

/// The file with the backends that are drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// The file at `path`.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is in it; nothing if there is no file.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(&self) -> Result<BTreeSet<Drained>, StateFileError> {
        let text = match std::fs::read_to_string(&self.0) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(source) => return Err(self.failed(source)),
        };
        let damaged = |error: serde_json::Error| StateFileError::Damaged {
            path: self.0.clone(),
            reason: error.to_string(),
        };
        let Version { version } = serde_json::from_str(&text).map_err(damaged)?;
        if version > VERSION {
            return Err(StateFileError::Newer { path: self.0.clone(), found: version });
        }
        let content: Content = serde_json::from_str(&text).map_err(damaged)?;
        Ok(content.drained)
    }

    /// Replaces what is in it: a process that reads it meanwhile, or after a crash, finds
    /// the old text or the new one. Makes its directory if that is missing.
    ///
    /// # Errors
    /// It can't be written.
    pub fn write(&self, drained: &BTreeSet<Drained>) -> Result<(), StateFileError> {
        let content = Content { version: VERSION, drained: drained.clone() };
        let text = serde_json::to_string_pretty(&content)
            .map_err(|error| self.failed(io::Error::other(error)))?;
        self.replace(&(text + "\n")).map_err(|source| self.failed(source))
    }

    /// Moves a file that can't be read out of the way, so that it isn't
    /// overwritten; where it is then.
    ///
    /// # Errors
    /// It can't be moved.
    pub fn set_aside(&self) -> Result<PathBuf, StateFileError> {
        let aside = self.with_suffix(".unreadable");
        std::fs::rename(&self.0, &aside).map_err(|source| self.failed(source))?;
        Ok(aside)
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let directory = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(directory) = directory {
            std::fs::create_dir_all(directory)?;
        }
        let next = self.with_suffix(".new");
        let mut file = File::create(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&next, &self.0)?;
        // The new name, too, is on disk.
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    }

    fn failed(&self, source: io::Error) -> StateFileError {
        StateFileError::Io { path: self.0.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> BTreeSet<Drained> {
        let one = |service: &str, backend: &str| Drained {
            service: service.to_owned(),
            backend: backend.parse().unwrap(),
        };
        BTreeSet::from([one("web", "10.0.0.1"), one("dns", "fd00::1")])
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path().join("new/hnlb.state"));
        assert!(file.read().unwrap().is_empty(), "there is none yet");
        file.write(&some()).unwrap();
        assert_eq!(file.read().unwrap(), some());
        file.write(&BTreeSet::new()).unwrap();
        assert!(file.read().unwrap().is_empty());
        let names = std::fs::read_dir(dir.path().join("new")).unwrap().count();
        assert_eq!(names, 1, "no other file is left");
    }

    #[test]
    fn what_can_not_be_read_is_said_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = StateFile::new(dir.path().join("hnlb.state"));
        file.write(&some()).unwrap();
        let whole = std::fs::read_to_string(file.path()).unwrap();
        for end in 0..whole.trim_end().len() {
            std::fs::write(file.path(), &whole[..end]).unwrap();
            assert!(matches!(file.read(), Err(StateFileError::Damaged { .. })), "{end}");
        }
        std::fs::write(file.path(), b"\xff\xfe").unwrap();
        assert!(matches!(file.read(), Err(StateFileError::Io { .. })), "it is no text");
        std::fs::write(file.path(), r#"{"version": 2, "other": []}"#).unwrap();
        assert!(matches!(file.read(), Err(StateFileError::Newer { found: 2, .. })));
        let aside = file.set_aside().unwrap();
        assert!(file.read().unwrap().is_empty());
        assert!(std::fs::read_to_string(aside).unwrap().contains("other"));
    }
}
