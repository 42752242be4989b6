//! The reference of all keys as Markdown, made from the schema.
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::Config;
use crate::shape::{branches, types};

const PREFACE: &str = include_str!("reference.md");

impl Config {
    /// The text of docs/user/configuration.md: every key with its meaning, type,
    /// bounds and default.
    #[must_use]
    pub fn reference() -> String {
        let schema = Self::json_schema();
        let mut reference = Reference { schema: &schema, text: PREFACE.to_owned() };
        for (key, section) in properties(&schema).into_iter().flatten() {
            reference.section(key, section);
        }
        reference.text
    }
}

struct Reference<'a> {
    schema: &'a Value,
    text: String,
}

impl<'a> Reference<'a> {
    /// A section and those within it.
    fn section(&mut self, path: &str, schema: &'a Value) {
        let Some((list, table)) = self.table(schema) else { return };
        let title = if list { format!("[[{path}]]") } else { format!("[{path}]") };
        let meaning = description(schema).or_else(|| description(table)).unwrap_or_default();
        self.line(&format!("\n## `{title}`\n\n{meaning}\n"));
        self.line("| key | value | default | meaning |\n|---|---|---|---|");
        let (mut sections, mut words) = (Vec::new(), Vec::new());
        for (key, property) in properties(table).into_iter().flatten() {
            if self.table(property).is_some() {
                sections.push((format!("{path}.{key}"), property));
                continue;
            }
            let default = default(table, key, property);
            let meaning = description(property).unwrap_or_default();
            self.line(&format!("| `{key}` | {} | {default} | {meaning} |", self.kind(property)));
            let variants: Vec<_> =
                branches(self.schema, property).into_iter().filter(|b| word(b).is_some()).collect();
            if variants.len() > 1 {
                words.push((key, variants));
            }
        }
        for (key, variants) in words {
            self.line(&format!("\n`{key}`:"));
            for variant in variants {
                let (word, meaning) = (word(variant), description(variant));
                let (word, meaning) = (word.unwrap_or_default(), meaning.unwrap_or_default());
                self.line(&format!("- `\"{word}\"`: {meaning}"));
            }
        }
        for (path, section) in sections {
            self.section(&path, section);
        }
    }

    fn line(&mut self, line: &str) {
        // Writing to a String doesn't fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// Whether the schema is that of a table or of a list of tables, and the
    /// table's schema.
    fn table(&self, schema: &'a Value) -> Option<(bool, &'a Value)> {
        branches(self.schema, schema).into_iter().find_map(|branch| match branch.get("items") {
            Some(items) => self.table(items).map(|(_, table)| (true, table)),
            None => properties(branch).map(|_| (false, branch)),
        })
    }

    /// What is to be written, for people.
    fn kind(&self, schema: &'a Value) -> String {
        let branches = branches(self.schema, schema);
        if branches.iter().filter(|branch| word(branch).is_some()).count() > 1 {
            return "a word, see below".to_owned();
        }
        // A format given beside alternatives belongs to all of them.
        let outer = schema.get("format");
        let kinds: Vec<_> = branches.iter().map(|branch| self.one(branch, outer)).collect();
        kinds.join(" or ")
    }

    fn one(&self, schema: &'a Value, outer: Option<&Value>) -> String {
        if let Some(word) = word(schema) {
            return format!("`\"{word}\"`");
        }
        let format = schema.get("format").or(outer).and_then(Value::as_str);
        let number = |key| schema.get(key).and_then(Value::as_i64);
        match types(schema).find(|name| *name != "null") {
            Some("integer") => match (number("minimum"), number("maximum")) {
                (Some(least), Some(most)) => format!("{least} to {most}"),
                _ => "integer".to_owned(),
            },
            Some("array") => {
                let items = schema.get("items").map(|items| self.kind(items));
                format!("list: {}", items.unwrap_or_default())
            }
            Some("string") => text(format, schema),
            Some(other) => other.to_owned(),
            None => String::new(),
        }
    }
}

/// What is to be written as text of a format.
fn text(format: Option<&str>, schema: &Value) -> String {
    let bound = |key| schema.get(key).and_then(Value::as_str);
    match (format, bound("x-minimum"), bound("x-maximum")) {
        (Some("time-span"), Some(least), Some(most)) => format!("`\"{least}\"` to `\"{most}\"`"),
        (Some("ip"), ..) => "IP address".to_owned(),
        (Some("prefix"), ..) => "prefix".to_owned(),
        (Some("interface-address"), ..) => "IP address with prefix length".to_owned(),
        (Some("kernel-interface"), ..) => "name of an interface".to_owned(),
        (Some("mac"), ..) => "Ethernet address".to_owned(),
        (Some("port-range"), ..) => "range of ports".to_owned(),
        (Some(other), ..) => other.to_owned(),
        (None, ..) => "text".to_owned(),
    }
}

fn default(table: &Value, key: &str, property: &Value) -> String {
    let required = table.get("required").and_then(Value::as_array);
    if required.is_some_and(|required| required.iter().any(|one| one == key)) {
        return "required".to_owned();
    }
    match property.get("default") {
        None | Some(Value::Null) => String::new(),
        Some(value) => format!("`{value}`"),
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn description(schema: &Value) -> Option<&str> {
    schema.get("description").and_then(Value::as_str)
}

fn word(schema: &Value) -> Option<&str> {
    schema.get("const").and_then(Value::as_str)
}
