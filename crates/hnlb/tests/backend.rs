//! `hnlb backend` and what `hnlb status` says then, of a running `hnlb` whose
//! only port is a ring without traffic.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use testkit::{ConfigText, Program};
use wire::Transport;

fn config() -> ConfigText {
    ConfigText::one_ring()
        .service("web", "10.71.0.100", Some(80), Transport::Tcp, "")
        .backend("10.71.0.11", None, "")
        .backend("10.71.0.12", None, "weight = 3\n")
        .service(
            "dns",
            "10.71.0.100",
            Some(53),
            Transport::Udp,
            "mode = \"dsr\"\nstateless = true\nby = \"hash\"\n",
        )
        .backend("10.71.0.11", None, "")
        .backend("10.71.0.12", None, "")
}

struct Running(Program);

impl Running {
    fn start() -> Self {
        let program = Program::start(env!("CARGO_BIN_EXE_hnlb"), &[], config().text());
        program.wait_for_start();
        Self(program)
    }

    /// The lines of the status about a backend, of each service in turn.
    fn lines(&self, address: &str) -> Vec<String> {
        let page = self.0.told(&["status"]);
        let about =
            |line: &&str| line.split_whitespace().next().is_some_and(|w| w.starts_with(address));
        page.lines().filter(about).map(str::to_owned).collect()
    }
}

#[test]
fn backends_are_drained_and_come_back() {
    let running = Running::start();
    assert!(running.lines("10.71.0.1").iter().all(|line| !line.contains("drained")));

    let told = running.0.told(&["backend", "drain", "web", "10.71.0.12"]);
    assert_eq!(told, "10.71.0.12 of web drained: no new connections, 0 open ones stay\n");
    let lines = running.lines("10.71.0.12");
    assert!(lines[0].contains("weight 0") && lines[0].ends_with("drained"), "{lines:?}");
    assert!(lines[1..].iter().all(|line| !line.ends_with("drained")), "another service: {lines:?}");

    let told = running.0.told(&["backend", "drain", "web", "10.71.0.11"]);
    assert!(told.ends_with("stay; no backend is left, clients are refused\n"), "{told}");
    let told = running.0.told(&["backend", "restore", "web", "10.71.0.12"]);
    assert_eq!(told, "10.71.0.12 of web serves again: new connections, 0 are open\n");
    let lines = running.lines("10.71.0.12");
    assert!(lines[0].contains("weight 3") && !lines[0].ends_with("drained"), "{lines:?}");

    let told = running.0.told(&["backend", "drain", "dns", "10.71.0.11"]);
    assert_eq!(
        told,
        "10.71.0.11 of dns drained: 50.00 % of the clients move, 1 entries instead of 2\n"
    );
    let page = running.0.told(&["status"]);
    assert!(page.contains("bits of the flow's hash"), "{page}");

    for (words, reason) in [
        (["backend", "drain", "web", "10.71.0.11"], "is drained already"),
        (["backend", "restore", "web", "10.71.0.12"], "is serving already"),
        (["backend", "drain", "web", "10.71.0.13"], "no backend 10.71.0.13 with a weight"),
        (["backend", "drain", "nobody", "10.71.0.13"], "there is no service 'nobody'"),
    ] {
        let output = running.0.ask(&words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(reason), "{words:?}: {error}");
    }
}

/// The user that Debian calls nobody.
const ANOTHER: u32 = 65_534;

#[test]
fn another_user_asks_and_changes_nothing() {
    let running = Running::start();
    let socket = running.0.socket();
    let ask = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hnlb"));
        command.args(words).arg("--socket").arg(&socket).uid(ANOTHER).output()
    };
    if ask(&["status"]).is_err() {
        eprintln!("skipped: to run a client as another user, this test must run as root");
        return;
    }
    let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(socket.parent().unwrap(), 0o755);
    let error = |words: &[&str]| {
        let output = ask(words).unwrap();
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let refused = error(&["status"]);
    assert!(refused.contains("this user may not use the status socket"), "{refused}");
    open(&socket, 0o666);
    let status = ask(&["status"]).unwrap();
    assert!(status.status.success(), "{status:?}");
    for words in [&["backend", "drain", "web", "10.71.0.11"][..], &["reload"], &["diff"]] {
        let refused = error(words);
        assert!(refused.contains("only root and the owner"), "{words:?}: {refused}");
    }
    assert!(!running.lines("10.71.0.11")[0].ends_with("drained"));
}

#[test]
fn a_reload_changes_what_the_file_changes_and_drains_stay() {
    let running = Running::start();
    let file = running.0.path("hnlb.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(running.0.told(&["diff"]).ends_with("running already\n"));
    running.0.told(&["backend", "drain", "web", "10.71.0.12"]);

    let next = text.replacen("\"10.71.0.11\"", "\"10.71.0.14\"", 1);
    std::fs::write(&file, &next).unwrap();
    let steps = "service web: backend 10.71.0.11:80 removed\n\
        service web: backend 10.71.0.14 added, weight 1\n\
        service web: backends in another order\n";
    let told = running.0.told(&["diff"]);
    assert!(told.starts_with(steps) && told.ends_with("nothing was changed\n"), "{told}");
    assert!(running.lines("10.71.0.14").is_empty());
    let told = running.0.told(&["reload"]);
    assert!(told.starts_with(steps) && told.ends_with("running now\n"), "{told}");
    assert_eq!(running.lines("10.71.0.14").len(), 1);
    assert!(running.lines("10.71.0.12")[0].ends_with("drained"));

    // Refused: nothing changes.
    std::fs::write(&file, next.replacen("net_ring0", "net_ring1", 1)).unwrap();
    let output = running.0.ask(&["diff"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && told.contains("port.p0.device"), "{told}");
    assert!(told.ends_with("the keys above need a restart\n"), "{told}");
    let output = running.0.ask(&["reload"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("port.p0.device"), "{error}");
    assert_eq!(running.lines("10.71.0.14").len(), 1);

    // SIGHUP is a reload, too.
    std::fs::write(&file, &text).unwrap();
    running.0.signal("HUP");
    running.0.wait("reload", |_| match &running.lines("10.71.0.14")[..] {
        [] => Ok(()),
        lines => Err(format!("{lines:?}")),
    });
    assert!(running.lines("10.71.0.12")[0].ends_with("drained"));
}
