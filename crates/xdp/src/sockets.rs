//! The AF_XDP sockets of an interface.
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use crate::{Error, Interface};

/// The maps that have the sockets of an interface's receive queues.
#[derive(Debug, Default)]
pub struct Sockets {
    /// By queue.
    maps: Vec<MapHandle>,
    /// They are several.
    apart: bool,
}

impl Sockets {
    /// Takes note that the sockets of the next `queues` queues are in the map of the
    /// [gate](crate::Gate) that the driver has attached to `interface`.
    ///
    /// # Errors
    /// There is none, or what the kernel refused.
    pub fn add(&mut self, interface: &Interface, queues: u16) -> Result<(), Error> {
        let map = interface.sockets()?;
        self.apart = !self.maps.is_empty();
        for _ in 0..queues {
            let another = MapHandle::try_from(&map);
            self.maps.push(another.map_err(Error::refused("the sockets can't be taken over"))?);
        }
        Ok(())
    }

    /// Whether there are several maps, of which the attached gate has one.
    pub(crate) const fn are_apart(&self) -> bool {
        self.apart
    }

    /// Lets the program of `object` send packets to the sockets.
    pub(crate) fn fill(&self, object: &Object) -> Result<(), Error> {
        let ways = object.maps().find(|map| map.name() == "ways_up");
        let ways = ways.ok_or(Error::Missing("ways_up"))?;
        for (queue, map) in (0_u32..).zip(&self.maps) {
            let (queue, map) = (queue.to_ne_bytes(), map.as_fd().as_raw_fd().to_ne_bytes());
            let filled = ways.update(&queue, &map, MapFlags::ANY);
            filled.map_err(Error::refused("the sockets can't be taken over"))?;
        }
        Ok(())
    }
}
