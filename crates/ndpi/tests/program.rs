//! The program as a user calls it.
#![allow(clippy::unwrap_used)]
use std::process::Command;

fn hnlb_ndpi(args: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hnlb-ndpi")).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn recorded_times_are_checked_at_every_load() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("times.json").display().to_string();
    let (fine, table, errors) = hnlb_ndpi(&["record", "--out", &file, "--flows", "20"]);
    assert!(fine && table.contains("citrix"), "{table}{errors}");
    let (fine, rows, errors) =
        hnlb_ndpi(&["check", "--service", &file, "--packets", "300", "--json"]);
    assert!(fine, "{errors}");
    let loads: Vec<u64> = rows
        .lines()
        .map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap())
        .map(|row| row["load_percent"].as_u64().unwrap())
        .collect();
    assert_eq!(loads, [20, 50, 80, 95]);
}

#[test]
fn what_is_wrong_is_said() {
    let (fine, _, errors) = hnlb_ndpi(&["--attach", "vhost:/run/hnlb-none/nf0.sock"]);
    assert!(!fine && errors.contains("start the server first"), "{errors}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"machine\":\"\",\"applications\":[]}").unwrap();
    let path = file.path().display().to_string();
    let (fine, _, errors) = hnlb_ndpi(&["check", "--service", &path]);
    assert!(!fine && errors.contains("lacks an application"), "{errors}");
}
