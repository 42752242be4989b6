//! What the checks look at and what they find.
use std::collections::HashMap;

use crate::nearest::nearest;
use crate::tree::{Tree, Way};
use crate::{Config, ConfigError};

/// A configuration with its file, and the errors so far.
pub(crate) struct Findings<'a> {
    pub(crate) config: &'a Config,
    tree: &'a Tree<'a>,
    errors: Vec<ConfigError>,
}

impl<'a> Findings<'a> {
    /// Nothing found yet.
    pub(crate) const fn new(config: &'a Config, tree: &'a Tree<'a>) -> Self {
        Self { config, tree, errors: Vec::new() }
    }

    /// The errors.
    pub(crate) fn into_errors(self) -> Vec<ConfigError> {
        self.errors
    }

    /// What is at `way` is wrong.
    pub(crate) fn wrong(&mut self, way: &Way, text: impl Into<String>) {
        self.errors.push(self.tree.error(way, text));
    }

    /// The line of what is at `way`.
    pub(crate) fn line(&self, way: &Way) -> usize {
        self.tree.line(way)
    }

    /// Names that occur twice in the list `section`.
    pub(crate) fn names(&mut self, section: &str, names: impl Iterator<Item = &'a str>) {
        let mut seen = HashMap::new();
        for (place, name) in names.enumerate() {
            let way = Way::to(section).item(place).key("name");
            if let Some(first) = seen.get(name) {
                let line = self.line(first);
                self.wrong(&way, format!("the name '{name}' is already taken by the {section} in line {line}; give one of them another name"));
            } else {
                seen.insert(name, way);
            }
        }
    }

    /// Whether `name` is one of `known`; else it is noted as wrong.
    pub(crate) fn reference<'n>(
        &mut self,
        way: &Way,
        section: &str,
        name: &str,
        known: impl Iterator<Item = &'n str> + Clone,
    ) -> bool {
        if known.clone().any(|one| one == name) {
            return true;
        }
        let hint = match nearest(name, known.clone()) {
            Some(near) => format!("did you mean '{near}'?"),
            None if known.clone().next().is_none() => format!("add a [[{section}]] with this name"),
            None => {
                let mut known: Vec<_> = known.collect();
                known.dedup();
                format!("known are {}", known.join(", "))
            }
        };
        self.wrong(way, format!("there is no {section} '{name}'; {hint}"));
        false
    }
}
