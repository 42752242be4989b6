//! The kernel's interface in the place of one of ours: a TAP, over which frames go to
//! the kernel and come from it.
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use ipnet::IpNet;
use l3::Interface;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// A TAP of the kernel's; it is gone when this is dropped.
///
/// Frames are whole: the kernel computes all checksums and divides segments before
/// they come here, since the TAP offers it no offloads.
pub(crate) struct Tap {
    device: SyncDevice,
    name: String,
    /// What it was last set up for.
    like: Interface,
}

impl Tap {
    /// A TAP named `name` with the Ethernet address, the MTU and the addresses of
    /// `like`.
    ///
    /// # Errors
    /// The kernel has no TAPs, the process lacks CAP_NET_ADMIN, or there is another
    /// interface with the name.
    pub(crate) fn open(name: &str, like: &Interface) -> io::Result<Self> {
        let builder = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false);
        let device = builder.mac_addr(like.mac.0).mtu(like.mtu).build_sync()?;
        device.set_nonblocking(true)?;
        prepare(name);
        prepare_ipv6(name, like);
        device.enabled(true)?;
        let bare = Interface { addresses: Vec::new(), ..like.clone() };
        let mut tap = Self { device, name: name.to_owned(), like: bare };
        tap.follow(like)?;
        Ok(tap)
    }

    /// The kernel's name for it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes it like `like`, in what has changed. Addresses that others have given it
    /// stay.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn follow(&mut self, like: &Interface) -> io::Result<()> {
        if like.mac != self.like.mac {
            self.device.set_mac_address(like.mac.0)?;
        }
        if like.mtu != self.like.mtu {
            self.device.set_mtu(like.mtu)?;
        }
        let gone = self.like.addresses.iter().filter(|own| !like.addresses.contains(own));
        for address in gone {
            self.device.remove_address(address.addr())?;
        }
        prepare_ipv6(&self.name, like);
        let new = like.addresses.iter().filter(|own| !self.like.addresses.contains(own));
        for address in new {
            self.add(*address)?;
        }
        self.like = like.clone();
        Ok(())
    }

    /// Whether it is like `like`.
    pub(crate) fn is_like(&self, like: &Interface) -> bool {
        self.like == *like
    }

    fn add(&self, address: IpNet) -> io::Result<()> {
        let length = address.prefix_len();
        let added = match address.addr() {
            IpAddr::V4(own) => self.device.add_address_v4(own, length),
            IpAddr::V6(own) => self.device.add_address_v6(own, length),
        };
        // From a change of which a later step failed, or by somebody else.
        added.or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })
    }

    /// Gives a frame to the kernel, which then has received it.
    ///
    /// # Errors
    /// The interface is down, or the kernel has no memory.
    pub(crate) fn give(&self, frame: &[u8]) -> io::Result<()> {
        self.device.send(frame).map(drop)
    }

    /// The next frame that the kernel sends, in `room`; `None`: there is none.
    pub(crate) fn take<'a>(&self, room: &'a mut [u8]) -> Option<&'a [u8]> {
        let length = self.device.recv(room).ok()?;
        room.get(..length)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// The load balancer answers for the interface's addresses on the wire: the kernel
/// needs not look for other stations that have them, which would take a second. And
/// an interface with IPv6 addresses has IPv6, whatever new ones have by default.
fn prepare_ipv6(name: &str, like: &Interface) {
    // Without IPv6 there are no such files.
    let set = |key: &str, value: &str| {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{key}"), value);
    };
    set("accept_dad", "0");
    if like.addresses.iter().any(|own| own.addr().is_ipv6()) {
        set("disable_ipv6", "0");
    }
}

/// The first address of a network may go without taking the others along.
fn prepare(name: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{name}/promote_secondaries"), "1");
}
