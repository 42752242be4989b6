//! What can't change while the load balancer runs.
use std::fmt;

use config::{Config, Key};
use serde_json::{Map, Value};

/// Keys of these sections that may change at run time; all others of theirs may
/// not.
const FREE: [(&str, &[&str]); 5] = [
    ("announce", &["bgp", "vrrp"]),
    ("fragments", &["timeout"]),
    ("neighbours", &["refresh", "pin"]),
    ("offload", &["sample"]),
    (
        "conntrack",
        &[
            "tcp_syn",
            "tcp_established",
            "tcp_closing",
            "udp",
            "udp_unanswered",
            "embryonic_service",
            "embryonic_source",
        ],
    ),
];

/// The part of a configuration that is as it was at the start: devices, memory,
/// threads, and what the NIC is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fixed(Map<String, Value>);

/// A key that differs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    /// The way to it in the wanted configuration.
    pub(crate) way: Vec<Key>,
    /// What is running, and what is wanted, as JSON.
    pub(crate) running: String,
    pub(crate) wanted: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, wanted, .. } = self;
        write!(f, "HNLB runs with {running}, the file has {wanted}: only a restart changes that")
    }
}

impl Fixed {
    /// That of `config`.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let mut all = match serde_json::to_value(config) {
            Ok(Value::Object(all)) => all,
            _ => Map::new(),
        };
        all.retain(|section, _| {
            !matches!(
                section.as_str(),
                "answers" | "interface" | "route" | "neighbour" | "pool" | "service"
            )
        });
        for (section, keys) in FREE {
            if let Some(Value::Object(section)) = all.get_mut(section) {
                section.retain(|key, _| !keys.contains(&key.as_str()));
            }
        }
        Self(all)
    }

    /// Every key that is other in `wanted`. Ports are the same if their names
    /// are; their order doesn't matter.
    pub(crate) fn differences(&self, wanted: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        for (section, value) in &wanted.0 {
            let running = self.0.get(section).unwrap_or(&Value::Null);
            if section == "port" {
                ports(running, value, &mut found);
            } else if section == "fleet" {
                // Its key is a secret, which no message shows.
                let way = vec![Key::Name(section.clone()), Key::Name("key".to_owned())];
                let (running, wanted) = ("another key".to_owned(), "this one".to_owned());
                found.extend((self.0.get(section) != Some(value)).then_some(Difference {
                    way,
                    running,
                    wanted,
                }));
            } else {
                let mut way = vec![Key::Name(section.clone())];
                compare(running, value, &mut way, &mut found);
            }
        }
        found
    }
}

fn ports(running: &Value, wanted: &Value, found: &mut Vec<Difference>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (running, wanted) = (list(running), list(wanted));
    let same = |one: &Value, other: &Value| one.get("name") == other.get("name");
    let section = || Key::Name("port".to_owned());
    for (place, port) in wanted.iter().enumerate() {
        let mut way = vec![section(), Key::Item(place)];
        match running.iter().find(|own| same(own, port)) {
            Some(own) => compare(own, port, &mut way, found),
            None => found.push(Difference {
                way,
                running: "no such port".to_owned(),
                wanted: name(port),
            }),
        }
    }
    for port in running.iter().filter(|own| !wanted.iter().any(|other| same(own, other))) {
        let (running, wanted) = (name(port), "no such port".to_owned());
        found.push(Difference { way: vec![section()], running, wanted });
    }
}

fn name(port: &Value) -> String {
    port.get("name").map_or_else(String::new, Value::to_string)
}

fn compare(running: &Value, wanted: &Value, way: &mut Vec<Key>, found: &mut Vec<Difference>) {
    match (running, wanted) {
        (Value::Object(own), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> =
                own.keys().chain(other.keys()).collect();
            for key in keys {
                way.push(Key::Name(key.clone()));
                let value = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                compare(&value(own), &value(other), way, found);
                way.pop();
            }
        }
        _ if running != wanted => found.push(Difference {
            way: way.clone(),
            running: text(running),
            wanted: text(wanted),
        }),
        _ => {}
    }
}

fn text(value: &Value) -> String {
    if value.is_null() { "the default".to_owned() } else { value.to_string() }
}
