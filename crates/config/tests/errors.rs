//! One configuration of each kind of error, and the text that it gets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use std::fs;
use std::path::Path;

use config::Config;

const BASE: &str = include_str!("errors/base.toml");

/// An edit of the base, and what is expected or found.
#[derive(Default)]
struct Case {
    name: String,
    old: String,
    new: String,
    errors: String,
}

impl Case {
    fn text(&self) -> String {
        let base = format!("\n{BASE}");
        let (old, new) = (format!("\n{}", self.old), format!("\n{}", self.new));
        assert!(base.contains(&old), "{}: base.toml has no such lines", self.name);
        base.replacen(&old, &new, 1).split_off(1)
    }
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { name: name.to_owned(), ..Case::default() });
        } else if let (Some(mark), Some(case)) = (line.chars().next(), cases.last_mut()) {
            let field = match mark {
                '-' => &mut case.old,
                '+' => &mut case.new,
                '>' => &mut case.errors,
                _ => panic!("{line}: what is that?"),
            };
            field.push_str(line.get(2..).unwrap_or_default());
            field.push('\n');
        }
    }
    cases
}

fn marked(mark: char, text: &str) -> String {
    text.lines().map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n").collect()
}

#[test]
fn each_kind_of_error_gets_its_text() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors/cases.txt");
    let text = fs::read_to_string(&path).unwrap();
    let (preface, _) = text.split_once("== ").unwrap();
    let mut found = preface.to_owned();
    for case in cases(&text) {
        let errors = match Config::parse(&case.text(), "lab.toml") {
            Ok(_) => String::new(),
            Err(errors) => format!("{errors}\n"),
        };
        assert_eq!(errors.is_empty(), case.name == "nothing changed", "{}", case.name);
        found += &format!("== {}\n", case.name);
        found += &(marked('-', &case.old) + &marked('+', &case.new) + &marked('>', &errors));
        found.push('\n');
    }
    let found = found.trim_end().to_owned() + "\n";
    if std::env::var_os("HNLB_REGENERATE").is_some() {
        fs::write(&path, found).unwrap();
        return;
    }
    for (found, expected) in cases(&found).iter().zip(cases(&text)) {
        assert_eq!(found.errors, expected.errors, "{}", found.name);
    }
    assert_eq!(found, text);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("none.toml");
    let text = Config::load(&path).unwrap_err().to_string();
    let expected = format!("{}: cannot be read: No such file or directory", path.display());
    assert!(text.starts_with(&expected), "{text}");
}

#[test]
fn an_empty_file_lacks_a_port_and_an_interface() {
    let errors = Config::parse("", "empty.toml").unwrap_err();
    assert_eq!(
        errors.to_string(),
        "empty.toml:1:1: port: there is no port; add a [[port]] with a name and a device\n\
         empty.toml:1:1: interface: there is no interface; add an [[interface]] with a port and addresses"
    );
}

#[test]
fn columns_count_characters() {
    let text = "\"grüße\" = 1\n\"schön\" = [1]\n[eal]\nargs = [\"äöü\", 7]\n";
    let errors = Config::parse(text, "x.toml").unwrap_err();
    let places: Vec<_> = errors.iter().map(|e| (e.line, e.column, e.key.as_str())).collect();
    assert_eq!(places, [(1, 1, "grüße"), (2, 1, "schön"), (4, 16, "eal.args[1]")]);
}

/// RFC 3021, RFC 6164.
#[test]
fn prefixes_of_one_and_two_addresses_have_no_broadcast_and_network_address() {
    for address in ["10.73.0.0/31", "10.73.0.1/31", "10.73.0.1/32", "fd73::/127"] {
        let both = format!("[\"10.72.0.1/24\", \"{address}\"");
        let text = BASE.replacen("[\"10.72.0.1/24\"", &both, 1);
        assert_ne!(text, BASE);
        let parsed = Config::parse(&text, "x.toml");
        assert!(parsed.is_ok(), "{address}: {parsed:?}");
    }
}
