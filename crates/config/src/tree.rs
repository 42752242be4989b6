//! The file as parsed, with the place of every key.
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::ConfigError;

/// One step from a table or a list to what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// By its key in a table.
    Name(String),
    /// By its place in a list.
    Item(usize),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Item(place) => place.fmt(f),
        }
    }
}

/// The way from the root to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way(Vec<Key>);

impl Way {
    /// From the root to `key`.
    pub(crate) fn to(key: &str) -> Self {
        Self::default().key(key)
    }

    /// On to `key` of the table.
    pub(crate) fn key(&self, key: &str) -> Self {
        self.then(Key::Name(key.to_owned()))
    }

    /// On to the list's value at `place`.
    pub(crate) fn item(&self, place: usize) -> Self {
        self.then(Key::Item(place))
    }

    /// The way of these steps.
    pub(crate) fn of(steps: &[Key]) -> Self {
        Self(steps.to_vec())
    }

    /// The header of the table or list at its end, as `[service.backend]`.
    pub(crate) fn header(&self) -> String {
        let names = self.0.iter().filter(|step| matches!(step, Key::Name(_)));
        let names: Vec<String> = names.map(Key::to_string).collect();
        format!("[{}]", names.join("."))
    }

    fn then(&self, step: Key) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }
}

/// A parsed file.
pub(crate) struct Tree<'t> {
    file: PathBuf,
    text: &'t str,
    root: DeTable<'t>,
}

impl<'t> Tree<'t> {
    /// Parses `text`, which comes from `file`.
    pub(crate) fn parse(file: &Path, text: &'t str) -> Result<Self, ConfigError> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { file: file.to_path_buf(), text, root: root.into_inner() }),
            Err(error) => {
                let span = error.span().unwrap_or_default();
                let message = error.message().trim().replace('\n', ", ");
                // With what could be parsed of it.
                let root = DeTable::parse_recoverable(text).0.into_inner();
                let tree = Self { file: file.to_path_buf(), text, root };
                let key = text.get(span.clone()).filter(|_| message == "duplicate key");
                match key.and_then(|key| tree.twice(key, span.start)) {
                    Some(error) => Err(error),
                    None => Err(tree.error_at(span.start, String::new(), message)),
                }
            }
        }
    }

    /// The error about `key` at byte `start`, if the same key is found before it.
    fn twice(&self, key: &str, start: usize) -> Option<ConfigError> {
        let header = self.line_at(start);
        let Some(first) = self.last_before(key, start) else {
            // Of a section that is there twice the tree has only the second.
            let place = self.text.lines().position(|line| line.trim() == header)?;
            let error = format!("the section is in line {} already; write it once", place + 1);
            return Some(self.error_at(start, key.to_owned(), error));
        };
        let ((first_start, key), line) = (self.walk(&first), self.line(&first));
        let inner = self.line_at(first_start);
        let below = inner.strip_prefix(header.trim_end_matches(']'));
        let text = if below.is_some_and(|rest| rest.starts_with('.')) {
            format!(
                "{inner} in line {line} stands before the first {header}; put it below the {header} that it belongs to"
            )
        } else {
            format!("the key is in line {line} already; leave one of them out")
        };
        Some(self.error_at(start, key, text))
    }

    /// The text of the line that has the byte `at`.
    fn line_at(&self, at: usize) -> &str {
        let before = self.text.get(..at).and_then(|before| before.rfind('\n'));
        let from = self.text.get(before.map_or(0, |end| end + 1)..).unwrap_or_default();
        from.lines().next().unwrap_or_default().trim()
    }

    /// The way to the last `key` before byte `start`.
    fn last_before(&self, key: &str, start: usize) -> Option<Way> {
        let mut found = None;
        find(Node::Table(&self.root), &Way::default(), &mut |way, at| {
            let later = found.as_ref().is_none_or(|(before, _)| at > *before);
            let same =
                way.0.last().is_some_and(|last| matches!(last, Key::Name(own) if own == key));
            if same && at < start && later {
                found = Some((at, way.clone()));
            }
        });
        found.map(|(_, way)| way)
    }

    /// The file's table.
    pub(crate) const fn root(&self) -> &DeTable<'t> {
        &self.root
    }

    /// The line of what is at `way`.
    pub(crate) fn line(&self, way: &Way) -> usize {
        position(self.text, self.walk(way).0).0
    }

    /// An error about what is at `way`, or if there is nothing, about where
    /// it would be.
    pub(crate) fn error(&self, way: &Way, text: impl Into<String>) -> ConfigError {
        let (start, key) = self.walk(way);
        self.error_at(start, key, text)
    }

    /// An error about what people call `key`, as `service.web.mode`, or if there is
    /// nothing, about what it would be in.
    pub(crate) fn error_about(&self, key: &str, text: impl Into<String>) -> ConfigError {
        let (mut start, mut length) = (0, 0);
        find(Node::Table(&self.root), &Way::default(), &mut |way, at| {
            let (_, name) = self.walk(way);
            let leads = key
                .strip_prefix(&name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            if leads && name.len() > length {
                (start, length) = (at, name.len());
            }
        });
        self.error_at(start, key.to_owned(), text)
    }

    /// An error about the byte `start` of the file.
    pub(crate) fn error_at(
        &self,
        start: usize,
        key: String,
        text: impl Into<String>,
    ) -> ConfigError {
        let (line, column) = position(self.text, start);
        ConfigError { file: self.file.clone(), line, column, key, text: text.into() }
    }

    /// The first byte of what is at `way`, and the way for people: things in
    /// lists go by their name where they have one.
    fn walk(&self, way: &Way) -> (usize, String) {
        let (mut start, mut name) = (0, String::new());
        let mut at = Some(Node::Table(&self.root));
        for step in &way.0 {
            let next = at.and_then(|node| node.next(step));
            if let Some((span, _)) = &next {
                start = span.start;
            }
            let value = next.map(|(_, value)| value);
            append(&mut name, step, value);
            at = value.map(Node::Value);
        }
        (start, name)
    }
}

#[derive(Clone, Copy)]
enum Node<'a, 't> {
    Table(&'a DeTable<'t>),
    Value(&'a DeValue<'t>),
}

impl<'a, 't> Node<'a, 't> {
    fn next(self, step: &Key) -> Option<(Range<usize>, &'a DeValue<'t>)> {
        match (self, step) {
            (Node::Table(table), Key::Name(key)) => child(table, key),
            (Node::Value(DeValue::Table(table)), Key::Name(key)) => child(table, key),
            (Node::Value(DeValue::Array(list)), Key::Item(place)) => {
                list.get(*place).map(|value| (value.span(), value.get_ref()))
            }
            _ => None,
        }
    }
}

/// Calls `each` with everything below `node`: its way and its first byte.
fn find(node: Node<'_, '_>, way: &Way, each: &mut impl FnMut(&Way, usize)) {
    match node {
        Node::Table(table) | Node::Value(DeValue::Table(table)) => {
            for (key, value) in table {
                let way = way.key(key.get_ref());
                each(&way, Spanned::span(key).start);
                find(Node::Value(value.get_ref()), &way, each);
            }
        }
        Node::Value(DeValue::Array(list)) => {
            for (place, value) in list.iter().enumerate() {
                let way = way.item(place);
                each(&way, value.span().start);
                find(Node::Value(value.get_ref()), &way, each);
            }
        }
        Node::Value(_) => {}
    }
}

fn child<'a, 't>(table: &'a DeTable<'t>, key: &str) -> Option<(Range<usize>, &'a DeValue<'t>)> {
    table.get_key_value(key).map(|(key, value)| (Spanned::span(key), value.get_ref()))
}

fn append(name: &mut String, step: &Key, value: Option<&DeValue<'_>>) {
    match step {
        Key::Name(key) => {
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(key);
        }
        Key::Item(place) => {
            let own =
                value.and_then(|value| value.get("name")).and_then(|name| name.get_ref().as_str());
            match own {
                Some(own) => name.push_str(&format!(".{own}")),
                None => name.push_str(&format!("[{place}]")),
            }
        }
    }
}

/// The line and column of a byte, both from 1, the column in characters.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before: String =
        text.char_indices().take_while(|(at, _)| *at < byte).map(|(_, c)| c).collect();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
