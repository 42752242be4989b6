//! What is wrong with a file.
use std::fmt;
use std::path::{Path, PathBuf};

use crate::tree::{Key, Tree, Way};

/// One thing that is wrong, or in a warning: unwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line, from 1; 0 if it concerns the file as a whole.
    pub line: usize,
    /// The column in characters, from 1; 0 if it concerns the file as a whole.
    pub column: usize,
    /// The key, as `service.web.vip`; empty if there is none.
    pub key: String,
    /// What is wrong and what would be right.
    pub text: String,
}

impl ConfigError {
    /// An error about what is at `way` in `text`, which comes from the file `name`;
    /// if there is nothing, about where it would be.
    #[must_use]
    pub fn at(name: &Path, text: &str, way: &[Key], what: String) -> Self {
        match Tree::parse(name, text) {
            Ok(tree) => tree.error(&Way::of(way), what),
            Err(error) => error,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.text)
    }
}

/// Everything that is wrong with a file, in the order of its lines; one a
/// line when displayed. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The errors, or `None` if there aren't any.
    pub(crate) fn of(mut errors: Vec<ConfigError>) -> Option<Self> {
        errors.sort_by_key(|error| (error.line, error.column));
        if errors.is_empty() { None } else { Some(Self(errors)) }
    }

    /// A single error.
    pub(crate) fn one(error: ConfigError) -> Self {
        Self(vec![error])
    }

    /// The error of a file that cannot be read.
    pub(crate) fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        Self::one(ConfigError {
            file: file.to_path_buf(),
            line: 0,
            column: 0,
            key: String::new(),
            text: format!("cannot be read: {error}"),
        })
    }

    /// The errors one by one.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
