//! An external program.
use std::process::Stdio;

use tokio::process::Command;

use crate::TargetKey;

/// Runs `argv` for the backend `key`; its last line on stderr says why it failed. The
/// program is killed when the probe's time is over.
pub(super) async fn run(argv: &[String], key: &TargetKey) -> Result<(), String> {
    let (program, arguments) = argv.split_first().ok_or("the command is empty")?;
    let port = key.port.map_or_else(String::new, |port| port.to_string());
    let child = Command::new(program)
        .args(arguments)
        .env("HNLB_SERVICE", &key.service)
        .env("HNLB_ADDRESS", key.address.to_string())
        .env("HNLB_PORT", port)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let ended = child.wait_with_output().await.map_err(|error| format!("{program}: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&ended.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map_or_else(String::new, |line| format!(": {}", line.trim()));
    Err(format!("{program}: {}{last}", ended.status))
}
