//! The process that has the private keys, by itself.
#![allow(clippy::unwrap_used)]
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const HNLB: &str = env!("CARGO_BIN_EXE_hnlb");

fn spawn(link: UnixStream) -> std::process::Child {
    let mut command = Command::new(HNLB);
    command.arg("keys").stdin(Stdio::from(OwnedFd::from(link))).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// What a user who starts it is told.
#[test]
fn it_is_not_for_users() {
    let found = Command::new(HNLB).arg("keys").stdin(Stdio::null()).output().unwrap();
    assert!(!found.status.success());
    assert!(String::from_utf8_lossy(&found.stderr).contains("not for users"), "{found:?}");
}

#[test]
fn it_can_not_be_dumped_and_ends_with_its_link() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = spawn(theirs);
    // It answers when it has withdrawn.
    (&ours).write_all(&[0, 0, 0, 1, 99]).unwrap();
    let mut answer = [0; 4];
    (&ours).read_exact(&mut answer).unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    let powers = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    // CAP_DAC_READ_SEARCH and CAP_IPC_LOCK, as far as there were any.
    let powers = u64::from_str_radix(powers.trim(), 16).unwrap();
    assert_eq!(powers & !0x4004, 0, "{powers:x}");
    drop(ours);
    assert!(child.wait().unwrap().success());
}
