//! The file of the access log, which may be moved away while it is written.
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A file that is appended to.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// The file at `path`, which is made if there is none.
    ///
    /// # Errors
    /// It can't be opened for appending.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        // Paths of requests may be secrets.
        let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on with a new file if the present one is at its path no longer: logrotate moves
    /// it away or removes it.
    ///
    /// # Errors
    /// The new file can't be opened; the old one is still written.
    pub(super) fn follow(&mut self) -> io::Result<()> {
        let own = self.file.metadata()?;
        let is_own =
            |there: std::fs::Metadata| (there.dev(), there.ino()) == (own.dev(), own.ino());
        if !std::fs::metadata(&self.path).is_ok_and(is_own) {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_moved_away_gets_a_successor_and_no_line_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let [path, old] = ["log", "log.1"].map(|name| dir.path().join(name));
        let mut file = LogFile::open(&path).unwrap();
        file.write_all(b"one\n").unwrap();
        file.follow().unwrap();
        fs::rename(&path, &old).unwrap();
        file.write_all(b"two\n").unwrap();
        file.follow().unwrap();
        file.write_all(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "one\ntwo\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
        fs::remove_file(&path).unwrap();
        file.follow().unwrap();
        file.write_all(b"four\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "four\n");
    }
}
