//! The program with which the driver net_af_xdp starts a port.
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use nix::sys::memfd::{MFdFlags, memfd_create};

static GATE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gate.o"));

/// A file with the program `bpf/gate.c`, which passes all packets to AF_XDP sockets.
///
/// The driver takes a program by the name of its file only (`xdp_prog`). The file is in
/// memory and goes when this is dropped.
#[derive(Debug)]
pub struct Gate(File);

impl Gate {
    /// Makes the file.
    ///
    /// # Errors
    /// The system gives no file in memory.
    pub fn new() -> io::Result<Self> {
        let mut file = File::from(memfd_create(c"hnlb-gate", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(GATE)?;
        Ok(Self(file))
    }

    /// Its name, for this process.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}
