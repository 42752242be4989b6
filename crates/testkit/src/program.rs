//! The built program, running.
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take that takes a second on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running `hnlb run` with its configuration, status socket and log in a
/// directory of their own. Killed when it is dropped.
#[derive(Debug)]
pub struct Program {
    binary: PathBuf,
    dir: TempDir,
    child: Child,
}

impl Program {
    /// Starts `binary` with the configuration `config`, to which the status
    /// socket is added. `within`: the command that starts it, for instance one
    /// that enters a network namespace and becomes the program; nothing: no other.
    #[must_use]
    pub fn start(binary: &str, within: &[&str], config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hnlb.toml");
        let socket = dir.path().join("hnlb.sock");
        let config = format!("{config}\n[status]\nsocket = \"{}\"\n", socket.display());
        std::fs::write(&file, config).unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let words: Vec<&OsStr> = within.iter().copied().chain([binary]).map(OsStr::new).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["run", "--config"]).arg(file);
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        Self { binary: binary.into(), dir, child }
    }

    /// A file in its directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its status socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.path("hnlb.sock")
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Waits for `what`: until `done` gives it, and not what there is instead.
    ///
    /// # Panics
    /// It doesn't within [`PATIENCE`].
    pub fn wait<T>(&self, what: &str, mut done: impl FnMut(&Self) -> Result<T, String>) -> T {
        let since = Instant::now();
        loop {
            match done(self) {
                Ok(result) => return result,
                Err(instead) => {
                    assert!(since.elapsed() < PATIENCE, "no {what}: {instead}\n{}", self.log());
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it serves its status socket.
    pub fn wait_for_start(&self) {
        self.wait("status", |program| {
            let answer = program.ask(&["status"]);
            if answer.status.success() { Ok(()) } else { Err(format!("{answer:?}")) }
        });
    }

    /// A command of the same binary about the running one.
    #[must_use]
    pub fn ask(&self, words: &[&str]) -> Output {
        Command::new(&self.binary).args(words).arg("--socket").arg(self.socket()).output().unwrap()
    }

    /// What a command prints that must succeed.
    ///
    /// # Panics
    /// It fails.
    pub fn told(&self, words: &[&str]) -> String {
        let output = self.ask(words);
        assert!(output.status.success(), "{words:?}: {output:?}\n{}", self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Sends it a signal, named as `kill` names it.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(done.success(), "kill -s {name} {id}");
    }

    /// Ends it as an operator would.
    #[must_use]
    pub fn end(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
