//! Long-running programs in a lab's namespaces: started, watched, ended.
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{GRACE, Lab, check_host};
use crate::LabError;
use crate::proc::{self, ProcessId, Signal};
use crate::state::Record;

impl Lab {
    /// Starts a long-running program in a host's namespace, in a session of
    /// its own, with its output in [`Lab::log`]. Returns its pid.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&mut self, host: &str, name: &str, argv: &[&str]) -> Result<u32, LabError> {
        check_host(host)?;
        let log = self.log(name);
        let what = || LabError::io(format!("start {name} with its log {}", log.display()));
        let file = File::create(&log).map_err(what())?;
        let child = Command::new("setsid")
            .args(["ip", "netns", "exec", &self.netns(host)])
            .args(argv)
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(what())?)
            .stderr(file)
            .spawn()
            .map_err(what())?;
        let pid = child.id();
        self.children.insert(pid, child);
        if let Some(id) = ProcessId::of(pid) {
            self.state.processes.push(Record { name: name.into(), id });
            self.state.save()?;
        }
        Ok(pid)
    }

    /// How a process of [`Lab::spawn`] ended, or `None` while it runs.
    pub fn ended(&mut self, pid: u32) -> Option<String> {
        if let Some(child) = self.children.get_mut(&pid) {
            return child.try_wait().ok().flatten().map(|status| status.to_string());
        }
        ProcessId::of(pid).is_none().then(|| "it is gone".into())
    }

    /// Ends a process of [`Lab::spawn`] with its group: SIGTERM, and SIGKILL
    /// after `grace`. True if it went by itself.
    pub fn end(&mut self, pid: u32, grace: Duration) -> bool {
        if self.ended(pid).is_none() {
            proc::signal(&[pid], Signal::Term, true);
        }
        let willing = proc::wait_gone(|| self.ended(pid).is_some(), grace);
        proc::signal(&[pid], Signal::Kill, true);
        proc::wait_gone(|| self.ended(pid).is_some(), GRACE);
        self.children.remove(&pid);
        self.state.processes.retain(|record| record.id.pid != pid);
        if let Err(error) = self.state.save() {
            tracing::warn!(%error, "the lab's state could not be written");
        }
        willing
    }

    /// Kills a process of [`Lab::spawn`] with its group, unasked.
    pub fn kill(&mut self, pid: u32) {
        proc::signal(&[pid], Signal::Kill, true);
        self.end(pid, GRACE);
    }

    /// The pid of a process by the name it was started with, if it runs.
    #[must_use]
    pub fn pid(&self, name: &str) -> Option<u32> {
        let records = self.state.processes.iter();
        records.filter(|r| r.name == name && r.id.alive()).map(|r| r.id.pid).next_back()
    }
}
