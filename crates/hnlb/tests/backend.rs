//! `hnlb backend` and what `hnlb status` says then, of a running `hnlb` whose
//! only port is a ring without traffic.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a start may take that takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str = r#"
[eal]
memory_mb = 256
huge_pages = "never"

[workers]
idle = "yield"

[conntrack]
connections = 1024

[[port]]
name = "p0"
device = "net_ring0"

[[interface]]
port = "p0"
addresses = ["10.71.0.1/24"]

[[service]]
name = "web"
vip = "10.71.0.100"
port = 80
protocol = "tcp"

[[service.backend]]
address = "10.71.0.11"

[[service.backend]]
address = "10.71.0.12"
weight = 3

[[service]]
name = "dns"
vip = "10.71.0.100"
port = 53
protocol = "udp"
mode = "dsr"
stateless = true
by = "hash"

[[service.backend]]
address = "10.71.0.11"

[[service.backend]]
address = "10.71.0.12"
"#;

struct Running {
    dir: TempDir,
    child: Child,
}

impl Running {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hnlb.toml");
        let socket = dir.path().join("hnlb.sock");
        std::fs::write(&file, format!("{CONFIG}[status]\nsocket = \"{}\"\n", socket.display()))
            .unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hnlb"));
        command.args(["run", "--config"]).arg(file).stdin(Stdio::null()).stderr(log);
        let running = Self { child: command.spawn().unwrap(), dir };
        let since = Instant::now();
        while !running.ask(&["status"]).status.success() {
            assert!(since.elapsed() < PATIENCE, "no status: {}", running.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("hnlb.sock")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hnlb"));
        command.args(words).arg("--socket").arg(self.socket()).output().unwrap()
    }

    /// What a command prints that must succeed.
    fn told(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{words:?}: {output:?}\n{}", self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// The lines of the status about a backend, of each service in turn.
    fn lines(&self, address: &str) -> Vec<String> {
        let page = self.told(&["status"]);
        let about =
            |line: &&str| line.split_whitespace().next().is_some_and(|w| w.starts_with(address));
        page.lines().filter(about).map(str::to_owned).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn backends_are_drained_and_come_back() {
    let running = Running::start();
    assert!(running.lines("10.71.0.1").iter().all(|line| !line.contains("drained")));

    let told = running.told(&["backend", "drain", "web", "10.71.0.12"]);
    assert_eq!(told, "10.71.0.12 of web drained: no new connections, 0 open ones stay\n");
    let lines = running.lines("10.71.0.12");
    assert!(lines[0].contains("weight 0") && lines[0].ends_with("drained"), "{lines:?}");
    assert!(lines[1..].iter().all(|line| !line.ends_with("drained")), "another service: {lines:?}");

    let told = running.told(&["backend", "drain", "web", "10.71.0.11"]);
    assert!(told.ends_with("stay; no backend is left, clients are refused\n"), "{told}");
    let told = running.told(&["backend", "restore", "web", "10.71.0.12"]);
    assert_eq!(told, "10.71.0.12 of web serves again: new connections, 0 are open\n");
    let lines = running.lines("10.71.0.12");
    assert!(lines[0].contains("weight 3") && !lines[0].ends_with("drained"), "{lines:?}");

    let told = running.told(&["backend", "drain", "dns", "10.71.0.11"]);
    assert_eq!(
        told,
        "10.71.0.11 of dns drained: 50.00 % of the clients move, 1 entries instead of 2\n"
    );
    let page = running.told(&["status"]);
    assert!(page.contains("bits of the flow's hash"), "{page}");

    for (words, reason) in [
        (["backend", "drain", "web", "10.71.0.11"], "is drained already"),
        (["backend", "restore", "web", "10.71.0.12"], "is serving already"),
        (["backend", "drain", "web", "10.71.0.13"], "no backend 10.71.0.13 with a weight"),
        (["backend", "drain", "nobody", "10.71.0.13"], "there is no service 'nobody'"),
    ] {
        let output = running.ask(&words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(reason), "{words:?}: {error}");
    }
}

#[test]
fn a_reload_changes_what_the_file_changes_and_drains_stay() {
    let running = Running::start();
    let file = running.dir.path().join("hnlb.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(running.told(&["diff"]).ends_with("running already\n"));
    running.told(&["backend", "drain", "web", "10.71.0.12"]);

    let next = text.replacen("\"10.71.0.11\"", "\"10.71.0.14\"", 1);
    std::fs::write(&file, &next).unwrap();
    let steps = "service web: backend 10.71.0.11:80 removed\n\
        service web: backend 10.71.0.14 added, weight 1\n\
        service web: backends in another order\n";
    let told = running.told(&["diff"]);
    assert!(told.starts_with(steps) && told.ends_with("nothing was changed\n"), "{told}");
    assert!(running.lines("10.71.0.14").is_empty());
    let told = running.told(&["reload"]);
    assert!(told.starts_with(steps) && told.ends_with("running now\n"), "{told}");
    assert_eq!(running.lines("10.71.0.14").len(), 1);
    assert!(running.lines("10.71.0.12")[0].ends_with("drained"));

    // Refused: nothing changes.
    std::fs::write(&file, next.replacen("net_ring0", "net_ring1", 1)).unwrap();
    let output = running.ask(&["reload"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("port.p0.device"), "{error}");
    assert_eq!(running.lines("10.71.0.14").len(), 1);

    // SIGHUP is a reload, too.
    std::fs::write(&file, &text).unwrap();
    let pid = running.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let since = Instant::now();
    while !running.lines("10.71.0.14").is_empty() {
        assert!(since.elapsed() < PATIENCE, "no reload: {}", running.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(running.lines("10.71.0.12")[0].ends_with("drained"));
}
