//! The files that users read: the schema, the reference, the examples.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use std::fs;
use std::path::{Path, PathBuf};

use config::Config;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compares with the file, or with `HNLB_REGENERATE=1` writes it.
fn current(path: &str, expected: &str) {
    let path = root().join(path);
    if std::env::var_os("HNLB_REGENERATE").is_some() {
        fs::write(&path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is not current; run HNLB_REGENERATE=1 cargo test -p config --test config published",
        path.display()
    );
}

#[test]
fn the_schema_is_current() {
    let schema = serde_json::to_string_pretty(&Config::json_schema()).unwrap();
    current("docs/user/config.schema.json", &(schema + "\n"));
}

#[test]
fn the_reference_is_current() {
    current("docs/user/configuration.md", &Config::reference());
}

#[test]
fn the_examples_are_right() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let config = Config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
            let table = config.service_table([1, 2]).unwrap();
            assert_eq!(table.services().len(), config.services.len());
            assert!(!table.services().is_empty());
            seen += 1;
        }
    }
    assert!(seen >= 4);
}

#[test]
fn only_the_lab_has_warnings_and_they_are_about_ipv6_and_schedulers() {
    for (name, expected) in
        [("minimal", 0), ("nic", 0), ("fullnat", 0), ("stateless", 0), ("lab", 4)]
    {
        let path = root().join(format!("examples/{name}.toml"));
        let warnings = Config::load(path).unwrap().warnings();
        assert_eq!(warnings.len(), expected, "{name}: {warnings:?}");
        let known = ["6.vip: the x550 matches IPv4 only", "depends on what happened before"];
        let is_known = |text: String| known.iter().any(|known| text.contains(known));
        assert!(warnings.iter().all(|warning| is_known(warning.to_string())));
    }
}

/// What is written is read back as the same.
#[test]
fn a_configuration_survives_being_written() {
    for name in ["minimal", "nic", "fullnat", "stateless", "lab"] {
        let config = Config::load(root().join(format!("examples/{name}.toml"))).unwrap();
        let text = toml::to_string(&config).unwrap();
        assert_eq!(Config::parse(&text, "again.toml").unwrap(), config);
    }
}
