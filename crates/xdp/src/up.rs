//! The program of a port whose match table the kernel refuses.
use std::os::fd::AsFd;

use libbpf_rs::{Object, ObjectBuilder};

use crate::program::{check_permission, find};
use crate::{Error, Interface, Sockets, verdict};

static UP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/up.o"));

/// A program that passes the packets of all queues to their sockets. The
/// [gate](crate::Gate) does that too, but only for queues whose sockets are in its own map.
#[derive(Debug)]
pub struct Up {
    object: Object,
}

impl Up {
    /// Loads the program.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn load() -> Result<Self, Error> {
        check_permission()?;
        let (object, verdict) = verdict::of(|| ObjectBuilder::default().open_memory(UP)?.load());
        let refused = Error::refused("the kernel refuses the program that passes packets up");
        let object = object.map_err(|error| refused(error).by_verifier(verdict))?;
        Ok(Self { object })
    }

    /// Puts the program in the place of the gate at `interface`, if the gate does not
    /// reach all of `sockets`.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn attach(&self, interface: &Interface, sockets: &Sockets) -> Result<(), Error> {
        if !sockets.are_apart() {
            return Ok(());
        }
        sockets.fill(&self.object)?;
        interface.replace(find(&self.object, "hnlb_up")?.as_fd())
    }
}
