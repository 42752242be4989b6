//! What this machine must have for a lab.

use std::path::Path;

/// Programs the lab calls, with the Debian package each comes in.
const PROGRAMS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("setsid", "util-linux"),
    ("nginx", "nginx-light"),
    ("nsd", "nsd"),
    ("wrk", "wrk"),
    ("curl", "curl"),
    ("dig", "bind9-dnsutils"),
    ("dnsperf", "dnsperf"),
];

/// Whether the effective user is root (proc(5), `Uid:` in `/proc/self/status`).
#[must_use]
pub fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| effective_uid(&status) == Some(0))
}

fn effective_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether a program is there to be called.
#[must_use]
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin", "/usr/bin"])
        .any(|dir| !dir.is_empty() && Path::new(dir).join(program).is_file())
}

/// Why a lab cannot be set up here, or `None` if it can. For tests that are
/// skipped with a reason.
#[must_use]
pub fn unavailable() -> Option<String> {
    if !is_root() {
        return Some("network namespaces need root; run it as root or with sudo".into());
    }
    let missing: Vec<&(&str, &str)> = PROGRAMS.iter().filter(|(name, _)| !has(name)).collect();
    if missing.is_empty() {
        return None;
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Some(format!(
        "{} not found; `make deps` installs it (Debian: apt-get install {})",
        names.join(", "),
        packages.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::effective_uid;

    #[test]
    fn the_effective_uid_is_the_second_number() {
        assert_eq!(effective_uid("Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t1\n"), Some(0));
        assert_eq!(effective_uid("Uid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_uid("Name:\tx\n"), None);
    }
}
