//! One-shot commands: run to the end, bounded in time, ended on Ctrl-C.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::proc::{self, Signal};
use crate::{LabError, Stop};

/// How long a command that has been interrupted may go on before the next SIGINT.
const AGAIN: Duration = Duration::from_secs(1);
/// How long it may take to end after the first SIGINT. wrk never ends by itself
/// while it has had no answer at all.
const WIND_UP: Duration = Duration::from_secs(75);

/// What a command that ran to its end left.
#[derive(Debug, Clone)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, invalid UTF-8 replaced.
    pub stdout: String,
    /// Its standard error, invalid UTF-8 replaced.
    pub stderr: String,
    command: String,
}

impl Output {
    /// The output itself if the command succeeded.
    ///
    /// # Errors
    /// [`LabError::Command`] otherwise, with the end of what it printed.
    pub fn success(self) -> Result<Self, LabError> {
        if self.status.success() {
            return Ok(self);
        }
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        Err(LabError::Command {
            command: self.command,
            status: self.status.to_string(),
            stderr: tail(said, 8),
        })
    }
}

/// The last lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

/// Ends a process group if it is dropped before the process has been reaped.
struct Group(Child, bool);

impl Drop for Group {
    fn drop(&mut self) {
        if !self.1 {
            proc::signal(&[self.0.id()], Signal::Kill, true);
            let _ = self.0.wait();
        }
    }
}

/// Runs a command in a process group of its own until it ends. When `interrupt`
/// is set, the command gets SIGINT and ends by itself; it gets SIGINT again every
/// second, since a program that is just starting may miss the first one.
///
/// # Errors
/// [`LabError::Io`] if it cannot be started, [`LabError::Timeout`] and
/// [`LabError::Interrupted`] after its whole group has been killed. A command
/// that ends with a failure is an `Ok`; see [`Output::success`].
pub(crate) fn run_until(
    command: &mut Command,
    input: Option<&str>,
    limit: Duration,
    stop: &Stop,
    interrupt: Option<&Stop>,
) -> Result<Output, LabError> {
    let text = show(command);
    let what = || LabError::io(format!("run `{text}`"));
    // Files, not pipes: a full pipe would block the command, and a
    // grandchild that keeps one open would block us.
    let mut out = tempfile::tempfile().map_err(what())?;
    let mut err = tempfile::tempfile().map_err(what())?;
    command
        .stdin(input_file(input).map_err(what())?)
        .stdout(out.try_clone().map_err(what())?)
        .stderr(err.try_clone().map_err(what())?)
        .process_group(0);
    let mut group = Group(command.spawn().map_err(what())?, false);
    let begin = Instant::now();
    let mut deadline = begin + limit;
    let (mut pause, mut interrupted) = (Duration::from_millis(1), None::<Instant>);
    let status = loop {
        if let Some(status) = group.0.try_wait().map_err(what())? {
            group.1 = true;
            break status;
        }
        stop.check()?;
        let asked = interrupted.is_none_or(|at| at.elapsed() >= AGAIN);
        if asked && interrupt.is_some_and(Stop::requested) {
            proc::signal(&[group.0.id()], Signal::Int, true);
            if interrupted.is_none() {
                deadline = deadline.min(Instant::now() + WIND_UP);
            }
            interrupted = Some(Instant::now());
        }
        if Instant::now() >= deadline {
            let seconds = begin.elapsed().as_secs();
            return Err(LabError::Timeout {
                what: format!("the end of `{text}`"),
                seconds,
                detail: String::new(),
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let stdout = read_all(&mut out).map_err(what())?;
    let stderr = read_all(&mut err).map_err(what())?;
    Ok(Output { status, stdout, stderr, command: text })
}

/// As [`run_until`], without a reason to interrupt the command.
///
/// # Errors
/// As [`run_until`].
pub(crate) fn run(
    command: &mut Command,
    input: Option<&str>,
    limit: Duration,
    stop: &Stop,
) -> Result<Output, LabError> {
    run_until(command, input, limit, stop, None)
}

fn input_file(input: Option<&str>) -> std::io::Result<Stdio> {
    let Some(text) = input else { return Ok(Stdio::null()) };
    let mut file = tempfile::tempfile()?;
    file.write_all(text.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file.into())
}

fn read_all(file: &mut File) -> std::io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A command line for messages.
pub(crate) fn show(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration, stop: &Stop) -> Result<Output, LabError> {
        run(Command::new("sh").args(["-c", script]), None, limit, stop)
    }

    #[test]
    fn output_and_failure_are_told_apart() {
        let stop = Stop::default();
        let done = sh("echo out; echo err >&2; exit 3", Duration::from_secs(20), &stop).unwrap();
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("out\n", "err\n"));
        let error = done.success().unwrap_err().to_string();
        assert!(error.contains("err") && error.contains('3'), "{error}");
    }

    #[test]
    fn input_reaches_the_command() {
        let stop = Stop::default();
        let done = run(&mut Command::new("cat"), Some("a\nb"), Duration::from_secs(20), &stop);
        assert_eq!(done.unwrap().stdout, "a\nb");
    }

    #[test]
    fn a_wish_to_stop_ends_the_whole_group() {
        let stop = Stop::default();
        stop.request();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let error = sh(&script, Duration::from_secs(1000), &stop).unwrap_err();
        assert!(matches!(error, LabError::Interrupted));
        // Killed before or after the shell wrote the pid: either way no
        // sleep is left.
        if let Ok(pid) = std::fs::read_to_string(&file).unwrap_or_default().trim().parse() {
            let gone = || proc::ProcessId::of(pid).is_none();
            assert!(proc::wait_gone(gone, Duration::from_secs(20)));
        }
    }

    #[test]
    fn an_interrupted_command_ends_by_itself() {
        let (stop, interrupt) = (Stop::default(), Stop::default());
        interrupt.request();
        // Until the trap is set, SIGINT would end the shell.
        let mut command = Command::new("sh");
        command.args(["-c", "trap 'echo stopped; exit 0' INT; kill -INT $$; sleep 1000"]);
        let done = run_until(&mut command, None, Duration::from_secs(20), &stop, None).unwrap();
        assert_eq!((done.status.code(), done.stdout.as_str()), (Some(0), "stopped\n"));
        let mut command = Command::new("sleep");
        let limit = Duration::from_secs(20);
        let done = run_until(command.arg("1000"), None, limit, &stop, Some(&interrupt)).unwrap();
        assert_eq!(done.status.code(), None, "a signal ended it: {}", done.status);
    }

    #[test]
    fn time_runs_out() {
        let error = sh("sleep 1000", Duration::from_millis(50), &Stop::default()).unwrap_err();
        assert!(matches!(error, LabError::Timeout { .. }), "{error}");
    }

    #[test]
    fn tail_keeps_the_end() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a", 2), "a");
        assert_eq!(tail("", 2), "");
    }
}
