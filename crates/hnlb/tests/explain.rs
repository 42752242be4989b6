//! `hnlb explain` of a running `hnlb` and without one.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use serde_json::Value;
use testkit::{ConfigText, Program};
use wire::Transport;

fn config() -> ConfigText {
    ConfigText::one_ring()
        .table("[[neighbour]]", "address = \"10.71.0.11\"\nmac = \"02:00:00:00:00:11\"\n")
        .table("[[neighbour]]", "address = \"10.71.0.12\"\nmac = \"02:00:00:00:00:12\"\n")
        .service("web", "10.71.0.100", Some(80), Transport::Tcp, "")
        .backend("10.71.0.11", Some(8080), "")
        .backend("10.71.0.12", Some(8080), "")
}

const CLIENT: [&str; 4] = ["explain", "tcp", "10.71.0.50:40000", "10.71.0.100:80"];

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_running_load_balancer_tells_where_a_packet_would_go() {
    let program = Program::start(env!("CARGO_BIN_EXE_hnlb"), &[], config().text());
    program.wait_for_start();
    let story = object(&program.told(&[&CLIENT[..], &["--json"]].concat()));
    assert_eq!(story["verdict"], "forwarded", "{story}");
    assert_eq!(story["service"], "web");
    assert!(story["why"].as_str().unwrap().contains("Maglev"), "{story}");
    let chosen = story["backend"].as_str().unwrap().to_owned();
    let after = story["sent"][0]["frame"].as_str().unwrap();
    assert!(after.starts_with(&format!("0200000000{}", &chosen[8..10])), "{story}");

    // Nothing has changed: the packet was none.
    let status = object(&program.told(&["status", "--json"]));
    assert_eq!(status["connections"]["active"], 0, "{status}");
    assert_eq!(status["counters"]["forwarded"], 0, "{status}");

    // No connection, no cause.
    assert!(program.told(&["why-not-offloaded"]).starts_with("0 connections\n"));
    let output = program.ask(&["why-not-offloaded", "tcp", "10.71.0.50:40000", "10.71.0.100:80"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no such connection of 10.71.0.50:40000"), "{error}");

    // A drain shows at once.
    let address = chosen.split(':').next().unwrap();
    program.told(&["backend", "drain", "web", address]);
    let page = program.told(&CLIENT);
    assert!(!page.contains(&chosen), "{page}");
    assert!(page.contains("among 1 backends"), "{page}");

    for (packet, why) in [
        (["tcp", "10.71.0.50:40000", "10.71.0.100:81"], "closed_port"),
        (["udp", "10.71.0.50:40000", "10.71.0.100:80"], "closed_port"),
        (["tcp", "10.71.0.50:40000", "10.71.0.7:80"], "not_for_us"),
    ] {
        let page = program.told(&[&["explain"], &packet[..]].concat());
        assert!(page.contains(why) || page.contains("answered"), "{page}");
    }
    let output = program.ask(&["explain", "tcp", "192.0.2.1:1", "10.71.0.100:80"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("no interface leads to 192.0.2.1"), "{error}");
}

#[test]
fn a_configuration_alone_tells_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hnlb.toml");
    std::fs::write(&file, config().text()).unwrap();
    let told = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hnlb"));
        let output = command.args(words).arg("--config").arg(&file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let story = object(&told(&[&CLIENT[..], &["--json"]].concat()));
    assert_eq!(story["verdict"], "forwarded", "{story}");
    assert!(story["sent"][0]["changes"].to_string().contains("10.71.0.1"), "{story}");
    let page = told(&["explain", "tcp", "10.71.0.11:8080", "10.71.0.50:40000", "--flags", "SA"]);
    assert!(page.contains("stateless_reply") && page.contains("after"), "{page}");
}
