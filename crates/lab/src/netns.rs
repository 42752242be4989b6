//! Network namespaces by name, through `ip netns`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::exec::{self, Output};
use crate::{LabError, Stop};

/// How long any of the short set-up commands may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Name of a lab's namespace.
pub(crate) fn name(lab: &str, host: &str) -> String {
    format!("hnlb-{lab}-{host}")
}

/// Where iproute2 keeps a namespace's name.
fn file(namespace: &str) -> PathBuf {
    Path::new("/run/netns").join(namespace)
}

/// Whether there is a namespace of this name.
pub(crate) fn exists(namespace: &str) -> bool {
    file(namespace).exists()
}

/// A command that runs inside a namespace: `ip netns exec` sets it up and
/// then becomes the program, so the pid is the program's.
pub(crate) fn command(namespace: &str, argv: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).args(argv);
    command
}

/// Whether a process that was started by [`command`] is inside its namespace.
pub(crate) fn entered(pid: u32) -> bool {
    let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    matches!((of(&pid.to_string()), of("self")), (Some(there), Some(here)) if there != here)
}

/// Makes a namespace.
pub(crate) fn add(namespace: &str, stop: &Stop) -> Result<(), LabError> {
    ip(&["netns", "add", namespace], None, stop).map(drop)
}

/// Runs a shell script inside a namespace; ends at the first failing line.
pub(crate) fn script(namespace: &str, script: &str, stop: &Stop) -> Result<(), LabError> {
    exec::run(&mut command(namespace, &["sh", "-eu"]), Some(script), LIMIT, stop)?
        .success()
        .map(drop)
}

/// Runs lines of `ip` commands in one go, outside the lab's namespaces.
pub(crate) fn batch(lines: &str, stop: &Stop) -> Result<(), LabError> {
    ip(&["-batch", "-"], Some(lines), stop).map(drop)
}

/// The processes inside a namespace.
pub(crate) fn pids(namespace: &str) -> Vec<u32> {
    if !exists(namespace) {
        return Vec::new();
    }
    let found = ip(&["netns", "pids", namespace], None, &Stop::default());
    let text = found.map(|output| output.stdout).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Removes a namespace, if it is there.
pub(crate) fn delete(namespace: &str) -> Result<(), LabError> {
    if !exists(namespace) {
        return Ok(());
    }
    // Tearing down isn't interrupted by the wish to stop that caused it.
    match ip(&["netns", "delete", namespace], None, &Stop::default()) {
        Err(_) if !exists(namespace) => Ok(()),
        other => other.map(drop),
    }
}

fn ip(args: &[&str], input: Option<&str>, stop: &Stop) -> Result<Output, LabError> {
    exec::run(Command::new("ip").args(args), input, LIMIT, stop)?.success()
}

/// A pair of veths with so many receive and send queues each.
pub(crate) fn veth(
    name: &str,
    namespace: &str,
    (peer, switch): (&str, &str),
    queues: u16,
) -> String {
    let queues = format!("numrxqueues {queues} numtxqueues {queues}");
    format!(
        "link add {name} netns {namespace} {queues} type veth peer name {peer} netns {switch} {queues}\n"
    )
}
