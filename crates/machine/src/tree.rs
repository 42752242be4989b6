//! The files in which the kernel says what there is.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// `/proc` and `/sys`, below a root directory. What cannot be read is not there.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Default for Tree {
    /// Those of this machine.
    fn default() -> Self {
        Self::below("/")
    }
}

impl Tree {
    /// Those below the directory `root`.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The text of a file without white space around it.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The value that is all there is in a file.
    pub(crate) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// The last part of what a symbolic link leads to.
    pub(crate) fn leads_to(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Whether commands tell of the same machine as the files.
    pub(crate) fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// What a command prints; `None` if it fails, is not installed, or tells of another
    /// machine than the files.
    pub(crate) fn said(&self, words: &[&str]) -> Option<String> {
        let (program, arguments) = words.split_first()?;
        if !self.is_here() {
            return None;
        }
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// The numbers of a list such as `0-3,8`.
pub(crate) fn list(text: &str) -> Vec<u16> {
    let mut numbers = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(list("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert!(list("").is_empty());
        assert!(list("3-1,x,70000").is_empty());
    }
}
