//! Processes by pid: are they still there, and the signal that ends them.
//!
//! A pid alone says little, the kernel gives it to the next process some day;
//! a pid with its start time names one process for as long as the machine is
//! up (proc(5), field 22 of `/proc/PID/stat`).

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// One process, told apart from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// The pid; also the process group's id for what the lab starts.
    pub pid: u32,
    /// Start time in clock ticks after boot.
    pub started: u64,
}

impl ProcessId {
    /// The process that has this pid now, unless it is gone or a zombie.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        started(&stat).map(|started| Self { pid, started })
    }

    /// This process itself.
    pub(crate) fn own() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or(Self { pid, started: 0 })
    }

    /// Whether this very process still runs.
    pub(crate) fn alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// Start time in a `/proc/PID/stat` line; `None` for a zombie or a line that
/// isn't one. The name in parentheses may hold anything, spaces too.
fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Which signal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    /// The program stops its work and prints what it has seen.
    Int,
    /// The program ends in order.
    Term,
    /// The kernel ends the program.
    Kill,
    /// The kernel stops the program where it is.
    Pause,
    /// A stopped program goes on.
    Go,
}

/// Signals processes, or with `group` the process groups of these ids. Those
/// that are gone are passed over.
pub(crate) fn signal(pids: &[u32], signal: Signal, group: bool) {
    let name = match signal {
        Signal::Int => "INT",
        Signal::Term => "TERM",
        Signal::Kill => "KILL",
        Signal::Pause => "STOP",
        Signal::Go => "CONT",
    };
    let sign = if group { "-" } else { "" };
    // The shell's own kill: the standard library has none for other
    // processes than children, nor for groups.
    let kill = |pid: &u32| format!("kill -s {name} -- {sign}{pid}\n");
    let script: String = pids.iter().map(kill).collect();
    let _ = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Waits until none of the processes is left; false if some still are after
/// `limit`. Doesn't look at the wish to stop: this is how stopping is done.
pub(crate) fn wait_gone(mut gone: impl FnMut() -> bool, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if gone() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_read_past_a_hostile_name() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 99";
        assert_eq!(started(&format!("17 (a) b) {fields}")), Some(4711));
        assert_eq!(started(&format!("17 (x) Z{}", &fields[1..])), None);
        assert_eq!(started("17 (x) S 1 2"), None);
        assert_eq!(started(""), None);
    }

    #[test]
    fn a_signal_ends_a_process_or_its_whole_group() {
        use std::os::unix::process::CommandExt;
        for group in [false, true] {
            let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
            signal(&[child.id()], Signal::Term, group);
            let ended = || child.try_wait().unwrap().is_some();
            let gone = wait_gone(ended, Duration::from_secs(20));
            let _ = child.kill();
            assert!(gone, "group: {group}");
        }
    }

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not_it() {
        let own = ProcessId::own();
        assert!(own.alive());
        assert!(!ProcessId { started: own.started + 1, ..own }.alive());
    }
}
