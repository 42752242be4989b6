//! Compares a file with the schema: keys, types, bounds and formats.
//!
//! The schema is made from the structs, so this knows nothing of its own, and
//! finds everything at once where deserialization would stop at the first.
use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use crate::ConfigError;
use crate::nearest::nearest;
use crate::text::{check_format, example, parse_duration};
use crate::tree::{Tree, Way};

/// Everything in `tree` that isn't as `schema` says.
pub(crate) fn check(tree: &Tree<'_>, schema: &Value) -> Vec<ConfigError> {
    let mut shape = Shape { tree, schema, errors: Vec::new() };
    shape.table(&Way::default(), tree.root(), schema);
    shape.errors
}

struct Shape<'a, 't> {
    tree: &'a Tree<'t>,
    schema: &'a Value,
    errors: Vec<ConfigError>,
}

impl<'a> Shape<'a, '_> {
    fn wrong(&mut self, way: &Way, text: impl Into<String>) {
        self.errors.push(self.tree.error(way, text));
    }

    fn value(&mut self, way: &Way, value: &DeValue<'_>, schema: &'a Value) {
        let branches = branches(self.schema, schema);
        let Some(schema) = branches.iter().copied().find(|branch| fits(value, branch)) else {
            let expected: Vec<_> =
                branches.iter().filter_map(|branch| expectation(branch)).collect();
            let header = self.header(way, value, &branches).unwrap_or_default();
            let text =
                format!("{} is expected, this is {}{header}", expected.join(" or "), kind(value));
            return self.wrong(way, text);
        };
        match value {
            DeValue::Table(table) => self.table(way, table, schema),
            DeValue::Array(list) => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
                if (list.len() as u64) < least {
                    self.wrong(
                        way,
                        format!("this list has {} entries; give at least {least}", list.len()),
                    );
                }
                if let Some(items) = schema.get("items") {
                    for (place, item) in list.iter().enumerate() {
                        self.value(&way.item(place), item.get_ref(), items);
                    }
                }
            }
            DeValue::String(text) => self.text(way, text, schema, &branches),
            DeValue::Integer(number) => {
                let value = i64::from_str_radix(number.as_str(), number.radix());
                self.number(way, value.ok(), number.as_str(), schema);
            }
            _ => {}
        }
    }

    /// What to write instead where a header has one bracket too few or too many.
    fn header(&self, way: &Way, value: &DeValue<'_>, schemas: &[&Value]) -> Option<String> {
        let is_table = |schema: &&Value| types(schema).eq(["object"]);
        let lists = |schema: &&Value| {
            let items = schema.get("items").map(|items| branches(self.schema, items));
            items.is_some_and(|items| items.iter().any(is_table))
        };
        match value {
            DeValue::Table(_) if schemas.iter().any(lists) => {
                Some(format!("; write [{}], once for each", way.header()))
            }
            DeValue::Array(_) if schemas.iter().any(is_table) => {
                Some(format!("; write {}", way.header()))
            }
            _ => None,
        }
    }

    fn table(&mut self, way: &Way, table: &DeTable<'_>, schema: &'a Value) {
        let none = Map::new();
        let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        for (key, value) in table {
            let key: &str = key.get_ref();
            if let Some((_, schema)) = schema
                .get("properties")
                .and_then(Value::as_object)
                .and_then(|known| known.get_key_value(key))
            {
                self.value(&way.key(key), value.get_ref(), schema);
            } else {
                let hint = match nearest(key, known.keys().map(String::as_str)) {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => {
                        let known: Vec<_> = known.keys().map(String::as_str).collect();
                        format!("known here are {}", known.join(", "))
                    }
                };
                self.wrong(&way.key(key), format!("unknown key; {hint}"));
            }
        }
        for key in list(schema, "required").filter_map(Value::as_str) {
            if !table.contains_key(key) {
                let meaning = known.get(key).and_then(|known| known.get("description"));
                let meaning = meaning.and_then(Value::as_str).unwrap_or_default();
                let sentence = meaning.split(". ").next().unwrap_or_default();
                let sentence = sentence.trim_end_matches('.');
                self.wrong(&way.key(key), format!("this key is missing; it means: {sentence}"));
            }
        }
    }

    fn number(&mut self, way: &Way, value: Option<i64>, written: &str, schema: &Value) {
        let bound = |key| schema.get(key).and_then(Value::as_i64);
        let (least, most) = (bound("minimum"), bound("maximum"));
        let inside = value.is_some_and(|value| {
            least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
        });
        if !inside {
            let (least, most) = (least.unwrap_or(0), most.unwrap_or(i64::MAX));
            self.wrong(way, format!("{written} is out of bounds; give {least} to {most}"));
        }
    }

    fn text(&mut self, way: &Way, text: &str, schema: &Value, branches: &[&'a Value]) {
        let words: Vec<&str> = branches
            .iter()
            .flat_map(|branch| branch.get("const").into_iter().chain(list(branch, "enum")))
            .filter_map(Value::as_str)
            .collect();
        if !words.is_empty() {
            if !words.contains(&text) {
                let near = nearest(text, words.iter().copied());
                let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
                let numbers = branches.iter().any(|branch| branch.get("minimum").is_some());
                let known = words.join(", ");
                let text = if numbers {
                    format!("'{text}' is neither a number nor \"{known}\"{hint}")
                } else {
                    format!("'{text}' is not one of {known}{hint}")
                };
                self.wrong(way, text);
            }
            return;
        }
        if let Some(Err(error)) =
            schema.get("format").and_then(Value::as_str).map(|format| check_format(format, text))
        {
            return self.wrong(way, error.to_string());
        }
        self.duration(way, text, schema);
    }

    fn duration(&mut self, way: &Way, text: &str, schema: &Value) {
        let bound = |key| schema.get(key).and_then(Value::as_str);
        let (Some(least), Some(most)) = (bound("x-minimum"), bound("x-maximum")) else { return };
        if let (Ok(value), Ok(from), Ok(to)) =
            (parse_duration(text), parse_duration(least), parse_duration(most))
        {
            if !(from..=to).contains(&value) {
                self.wrong(way, format!("{text} is out of bounds; give {least} to {most}"));
            }
        }
    }
}

/// The alternatives of a schema, references resolved, null left out.
pub(crate) fn branches<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let target = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|path| root.pointer(path.strip_prefix('#')?));
    if let Some(target) = target {
        return branches(root, target);
    }
    let alternatives: Vec<_> = list(schema, "anyOf").chain(list(schema, "oneOf")).collect();
    if alternatives.is_empty() {
        return if types(schema).eq(["null"]) { Vec::new() } else { vec![schema] };
    }
    alternatives.into_iter().flat_map(|one| branches(root, one)).collect()
}

fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// The JSON types that a schema without alternatives allows.
pub(crate) fn types(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("type").into_iter().chain(list(schema, "type")).filter_map(Value::as_str)
}

fn fits(value: &DeValue<'_>, schema: &Value) -> bool {
    let own = match value {
        DeValue::String(_) => "string",
        DeValue::Integer(_) => "integer",
        DeValue::Boolean(_) => "boolean",
        DeValue::Array(_) => "array",
        DeValue::Table(_) => "object",
        DeValue::Float(_) => "number",
        DeValue::Datetime(_) => "datetime",
    };
    types(schema).any(|name| name == own)
}

const fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
        DeValue::Float(_) => "a number with fraction",
        DeValue::Datetime(_) => "a date",
    }
}

/// What a schema without alternatives expects, for people.
fn expectation(schema: &Value) -> Option<String> {
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return Some(format!("\"{word}\""));
    }
    let format = schema.get("format").and_then(Value::as_str);
    types(schema).find(|name| *name != "null").map(|name| match name {
        "string" => match format.and_then(example) {
            Some(example) => format!("a string, as \"{example}\","),
            None => "a string".to_owned(),
        },
        "integer" => "an integer".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => "a list".to_owned(),
        _ => "a table".to_owned(),
    })
}
