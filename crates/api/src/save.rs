//! The services in force, written into the configuration file. What has not changed
//! keeps its text, its comments and its place.
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use config::{Config, Service};
use control::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, Value};

/// What was saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    /// The file.
    pub file: PathBuf,
    /// Whether it was another one before.
    pub changed: bool,
}

/// Writes the services of `config` into `file`; a process that reads it meanwhile finds
/// the old text or the new one.
pub(crate) fn write(file: &Path, config: &Config) -> Result<Saved, Refusal> {
    let failed = |error: std::io::Error| {
        Refusal::Impossible(format!("{}: the file can't be written: {error}", file.display()))
    };
    let text = config::read(file)?;
    let merged = merged(&text, config, file)?;
    let saved = Saved { file: file.to_path_buf(), changed: merged != text };
    if saved.changed {
        let mut name = file.as_os_str().to_owned();
        name.push(".new");
        let next = PathBuf::from(name);
        let mut new = File::create(&next).map_err(failed)?;
        let mut keep = || {
            new.set_permissions(fs::metadata(file)?.permissions())?;
            new.write_all(merged.as_bytes())?;
            new.sync_all()?;
            fs::rename(&next, file)
        };
        keep().map_err(failed)?;
    }
    Ok(saved)
}

/// The text of the file `name` with the services of `config` in the place of its own.
fn merged(text: &str, config: &Config, name: &Path) -> Result<String, Refusal> {
    let old = Config::parse(text, name)?;
    if old.services == config.services {
        return Ok(text.to_owned());
    }
    let impossible = |what: &str| {
        Refusal::Impossible(format!("{}: the services can't be written: {what}", name.display()))
    };
    let mut document: DocumentMut = text.parse().map_err(|_| impossible("it is no TOML"))?;
    let entry =
        document.entry("service").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let tables = tables(entry).ok_or_else(|| impossible("`service` is no list of tables"))?;
    merge(
        tables,
        (&old.services, &config.services),
        |service| service.name.clone(),
        &mut |table, old, new| {
            let entry =
                table.entry("backend").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
            if let Some(backends) = self::tables(entry) {
                let key = |own: &config::Backend| (own.address, own.port);
                merge(backends, (&old.backends, &new.backends), key, &mut |_, _, _| {});
            }
            let bare = |own: &Service| Service { backends: Vec::new(), ..own.clone() };
            set_keys(table, &bare(old), &bare(new));
        },
    );
    let merged = document.to_string();
    let read = Config::parse(&merged, name)?;
    if read.services == config.services {
        Ok(merged)
    } else {
        Err(impossible("the file orders or names them otherwise; write them by hand"))
    }
}

/// A list of tables, in whichever of both ways of TOML it is written.
fn tables(item: &mut Item) -> Option<&mut ArrayOfTables> {
    if !item.is_array_of_tables() {
        let whole = std::mem::take(item);
        *item = match whole.into_array_of_tables() {
            Ok(tables) => Item::ArrayOfTables(tables),
            Err(whole) => whole,
        };
    }
    item.as_array_of_tables_mut()
}

/// Makes `tables`, which say `old`, say `new`. What has the same key is the same, and
/// `change` is called for it if it differs.
fn merge<T: Clone + PartialEq + Serialize, K: PartialEq>(
    tables: &mut ArrayOfTables,
    (old, new): (&[T], &[T]),
    key: impl Fn(&T) -> K,
    change: &mut dyn FnMut(&mut Table, &T, &T),
) {
    let successor = |own: &T| new.iter().find(|other| key(other) == key(own));
    for (table, own) in tables.iter_mut().zip(old) {
        if let Some(next) = successor(own).filter(|next| *next != own) {
            change(table, own, next);
            set_keys(table, own, next);
        }
    }
    for (at, _) in old.iter().enumerate().rev().filter(|(_, own)| successor(own).is_none()) {
        tables.remove(at);
    }
    let is_new = |own: &&T| old.iter().all(|other| key(other) != key(own));
    for table in new.iter().filter(is_new).filter_map(table_of) {
        tables.push(table);
    }
}

/// Writes into `table` the plain keys in which `new` differs from `old`.
fn set_keys(table: &mut Table, old: &impl Serialize, new: &impl Serialize) {
    let (Some(old), Some(new)) = (table_of(old), table_of(new)) else { return };
    for (key, _) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
        if !table.get(key).is_some_and(Item::is_array_of_tables) {
            table.remove(key);
        }
    }
    for (key, item) in new.iter().filter(|(_, item)| !item.is_array_of_tables()) {
        if old.get(key).map(Item::to_string) == Some(item.to_string()) {
            continue;
        }
        match (table.get_mut(key).and_then(Item::as_value_mut), item.as_value()) {
            // The comment behind the value stays.
            (Some(own), Some(value)) => {
                let decor = own.decor().clone();
                *own = Value::clone(value);
                *own.decor_mut() = decor;
            }
            _ => _ = table.insert(key, item.clone()),
        }
    }
}

/// `what` as a table with tables below it.
fn table_of(what: &impl Serialize) -> Option<Table> {
    let mut table = toml_edit::ser::to_document(what).ok()?.as_table().clone();
    for (_, item) in table.iter_mut() {
        tables(item);
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use control::{BackendChange, Change};
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = r#"# the file's comment
[[port]]
name = "p0" # a port
device = "net_null0"

[[interface]]
port = "p0"
addresses = ["10.71.0.1/24"]

# the web
[[service]]
name = "web"
vip = "10.71.0.100"
port = 80
protocol = "tcp"

[[service.backend]]
address = "10.71.0.11" # the first
weight = 2 # heavy

[[service.backend]]
address = "10.71.0.12"

# names
[[service]]
name = "dns"
vip = "10.71.0.101"
port = 53
protocol = "udp"
backend = [{ address = "10.71.0.13" }, { address = "10.71.0.14", weight = 3 }]

[status] # last
mode = "0600"
"#;

    fn changed(changes: &[Change]) -> Config {
        let mut config = Config::parse(TEXT, "x.toml").unwrap();
        changes.iter().for_each(|change| drop(change.apply(&mut config)));
        config
    }

    fn backend(host: u8, weight: u16) -> BackendChange {
        serde_json::from_str(&format!(r#"{{"address": "10.71.0.{host}", "weight": {weight}}}"#))
            .unwrap()
    }

    #[test]
    fn what_has_not_changed_keeps_its_text() {
        assert_eq!(merged(TEXT, &changed(&[]), Path::new("x.toml")).unwrap(), TEXT);
        let weight = Change::SetWeight {
            service: "web".to_owned(),
            backend: "10.71.0.11".parse().unwrap(),
            weight: 9,
        };
        let text = merged(TEXT, &changed(&[weight]), Path::new("x.toml")).unwrap();
        assert_eq!(text, TEXT.replace("weight = 2 # heavy", "weight = 9 # heavy"));
    }

    fn change() -> impl Strategy<Value = Change> {
        let service = prop_oneof!["web", "dns", "new"];
        let host = 11..16_u8;
        prop_oneof![
            (service.clone(), host.clone(), 0..9_u16).prop_map(|(service, host, weight)| {
                Change::SetBackend { service, backend: backend(host, weight) }
            }),
            (service.clone(), host.clone(), 0..9_u16).prop_map(|(service, host, weight)| {
                Change::SetWeight { service, backend: backend(host, 1).address, weight }
            }),
            (service.clone(), host.clone()).prop_map(|(service, host)| {
                Change::RemoveBackend { service, backend: backend(host, 1).address }
            }),
            service.prop_map(|service| Change::RemoveService { service }),
            host.prop_map(|host| {
                let text = format!(
                    r#"{{"name": "new", "vip": "10.71.0.102", "port": 80, "protocol": "tcp",
                        "scheduler": "maglev", "backend": [{{"address": "10.71.0.{host}"}}]}}"#
                );
                Change::SetService(Box::new(serde_json::from_str(&text).unwrap()))
            }),
        ]
    }

    proptest! {
        /// Whatever has changed, the file says it, and keeps its comments.
        #[test]
        fn the_file_says_what_is_in_force(
            changes in prop::collection::vec(change(), 0..12),
        ) {
            let config = changed(&changes);
            let text = toml_edit::ser::to_string(&config).unwrap();
            // What can't be in force is never saved.
            prop_assume!(Config::parse(&text, "x.toml").is_ok());
            let names = |config: &Config| -> Vec<String> {
                config.services.iter().map(|own| own.name.clone()).collect()
            };
            match merged(TEXT, &config, Path::new("x.toml")) {
                Ok(text) => {
                    prop_assert_eq!(Config::parse(&text, "x.toml").unwrap(), config);
                    prop_assert!(text.contains("# the file's comment") && text.contains("# last"));
                }
                // A service or backend that went and came back has another place.
                Err(refusal) => {
                    let gone = changes.iter().any(|change| {
                        matches!(change, Change::RemoveService { .. } | Change::RemoveBackend { .. })
                    });
                    prop_assert!(gone, "{refusal} {:?}", names(&config));
                }
            }
        }
    }
}
