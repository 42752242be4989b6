//! The control API of a running `hnlb`, and the process that serves it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use api::Client;
use serde_json::Value;
use status::Status;
use testkit::{ConfigText, Program};
use wire::Transport;

fn config() -> ConfigText {
    ConfigText::one_ring()
        .service("web", "10.71.0.100", Some(80), Transport::Tcp, "")
        .backend("10.71.0.11", None, "")
        .backend("10.71.0.12", None, "weight = 3\n")
}

fn start() -> Program {
    let program = Program::start(env!("CARGO_BIN_EXE_hnlb"), &[], config().text());
    program.wait_for_start();
    program
}

fn client(program: &Program) -> Client {
    Client::new(&program.socket())
}

/// The id of the process that serves the API, a child of the program's.
fn control_process(program: &Program) -> Option<String> {
    let parent = program.id().to_string();
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let id = entry.file_name().into_string().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, which may hold any letters: state, parent.
        let mut words = stat.rsplit_once(')')?.1.split_whitespace();
        (words.next()? != "Z" && words.next()? == parent).then_some(id)
    })
}

fn kill(signal: &str, id: &str) {
    let done = std::process::Command::new("kill").args(["-s", signal, id]).status().unwrap();
    assert!(done.success(), "kill -s {signal} {id}");
}

/// Polls of the first worker so far.
fn polls(status: &Status) -> u64 {
    status.workers[0].totals.polls
}

#[test]
fn a_killed_control_process_stops_no_worker_and_is_replaced() {
    let program = start();
    let before: Status = client(&program).get(&["v1", "status"]).unwrap();
    let first = control_process(&program).unwrap();
    program.told(&["backend", "drain", "web", "10.71.0.11"]);
    kill("KILL", &first);
    let second = program.wait("other process", |program| {
        control_process(program).filter(|id| *id != first).ok_or_else(|| "none".to_owned())
    });
    assert_ne!(first, second);
    // It is asked as soon as it serves: the socket has stayed.
    let after: Status = client(&program).get(&["v1", "status"]).unwrap();
    assert!(after.uptime_seconds > before.uptime_seconds, "the load balancer has gone on");
    assert!(polls(&after) > polls(&before));
    assert!(after.services[0].backends[0].drained);
    assert!(program.log().contains("the process of the control API has ended"));
}

#[test]
fn a_hung_control_process_stops_no_worker_and_no_end() {
    let mut program = start();
    let hung = control_process(&program).unwrap();
    let before: Status = client(&program).get(&["v1", "status"]).unwrap();
    kill("STOP", &hung);
    // SIGHUP goes past the process that hangs.
    fs::write(program.path("hnlb.toml"), "nonsense").unwrap();
    program.signal("HUP");
    program.wait("reload", |program| {
        let log = program.log();
        if log.contains("the configuration is refused") { Ok(()) } else { Err(log) }
    });
    kill("CONT", &hung);
    let after: Status = client(&program).get(&["v1", "status"]).unwrap();
    assert!(polls(&after) > polls(&before));
    kill("STOP", &hung);
    assert!(program.end().success());
    assert!(!program.socket().exists());
    assert!(!fs::exists(format!("/proc/{hung}")).unwrap(), "the hung process is left");
}

#[test]
fn the_document_and_the_metrics_are_served() {
    let program = start();
    let document: Value = client(&program).get(&["v1", "openapi.json"]).unwrap();
    assert!(document["paths"]["/v1/status"]["get"].is_object());
    let metrics = client(&program).text(&["metrics"]).unwrap();
    let status: Status = client(&program).get(&["v1", "status"]).unwrap();
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    for backend in &status.services[0].backends {
        let (address, id) = (&backend.address, format!("{}.{}", backend.id, backend.generation));
        let line = format!(
            "hnlb_backend_weight{{service=\"web\",backend=\"{address}\",id=\"{id}\"}} {}\n",
            backend.weight
        );
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}

#[test]
fn changes_are_in_force_are_shown_by_diff_and_are_saved_with_comments() {
    let program = start();
    let file = program.path("hnlb.toml");
    let text = fs::read_to_string(&file).unwrap().replace("weight = 3", "weight = 3 # heavy");
    fs::write(&file, text).unwrap();
    let told = program.told(&["backend", "weight", "web", "10.71.0.12", "--weight", "5"]);
    assert_eq!(told, "service web: backend 10.71.0.12 gets weight 5\n");
    program.told(&["backend", "add", "web", "10.71.0.13", "--weight", "2"]);
    program.told(&["backend", "remove", "web", "10.71.0.11"]);
    let status: Status = client(&program).get(&["v1", "status"]).unwrap();
    let weights = |status: &Status| -> Vec<u16> {
        status.services[0].backends.iter().map(|own| own.weight).collect()
    };
    assert_eq!(weights(&status), [5, 2]);
    assert!(program.told(&["diff"]).contains("backend 10.71.0.13:80 removed"));
    assert!(program.told(&["config", "save"]).ends_with("saved\n"));
    assert!(fs::read_to_string(&file).unwrap().contains("weight = 5 # heavy"));
    assert!(program.told(&["diff"]).ends_with("running already\n"));
    program.told(&["reload"]);
    let status: Status = client(&program).get(&["v1", "status"]).unwrap();
    assert_eq!(weights(&status), [5, 2]);
    assert_eq!(program.told(&["connections"]), "0 of 0 connections\n");
    assert!(!program.ask(&["connections", "--service", "none"]).status.success());
}
