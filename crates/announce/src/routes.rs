//! The kernel's routes for VIPs that are announced.
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::IpAddr;

use nix::net::if_::if_nametoindex;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::netlink::Netlink;

/// A route for each VIP that is announced, in a table that no rule of the kernel's looks
/// into: routing daemons read it, and packets never follow it.
///
/// The routes lead over a TUN device that this process holds. Whatever ends the process,
/// the kernel takes the device and its routes away, and routing daemons withdraw the
/// VIPs. The device is up while a VIP is announced.
pub struct Routes {
    device: SyncDevice,
    index: u32,
    table: u32,
    netlink: Netlink,
    installed: BTreeSet<IpAddr>,
    up: bool,
}

impl Routes {
    /// No route, and the device `name`, which is down.
    ///
    /// # Errors
    /// The kernel has no TUN devices, the process lacks CAP_NET_ADMIN, or there is
    /// another interface with the name.
    pub fn open(name: &str, table: u32) -> io::Result<Self> {
        let builder = DeviceBuilder::new().name(name).layer(Layer::L3).enable(false);
        let device = builder.build_sync()?;
        device.set_nonblocking(true)?;
        let index = if_nametoindex(name)?;
        // Without IPv6 there are no such files, and no IPv6 VIPs either.
        for (key, value) in [("disable_ipv6", "0"), ("addr_gen_mode", "1")] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{key}"), value);
        }
        let netlink = Netlink::open()?;
        Ok(Self { device, index, table, netlink, installed: BTreeSet::new(), up: false })
    }

    /// Whether there is a route for `vip`.
    #[must_use]
    pub fn has(&self, vip: IpAddr) -> bool {
        self.installed.contains(&vip)
    }

    /// Has routes for `vips`, and for no others, as far as the kernel takes them; what it
    /// refuses is tried again with the next call.
    pub fn follow(&mut self, vips: &BTreeSet<IpAddr>) -> Changes {
        let mut changes = Changes::default();
        if self.up && self.device.is_running().is_ok_and(|runs| !runs) {
            // With the device the kernel has taken its routes down.
            self.up = false;
            changes.lost = std::mem::take(&mut self.installed).into_iter().collect();
        }
        let gone: Vec<IpAddr> = self.installed.difference(vips).copied().collect();
        for vip in gone {
            match self.netlink.remove_route(vip, self.index, self.table) {
                Ok(()) => {
                    self.installed.remove(&vip);
                    changes.gone.push(vip);
                }
                Err(error) => changes.error = Some(error),
            }
        }
        if self.up == vips.is_empty() {
            match self.device.enabled(!vips.is_empty()) {
                Ok(()) => self.up = !vips.is_empty(),
                Err(error) => changes.error = Some(error),
            }
        }
        let new: Vec<IpAddr> = vips.difference(&self.installed).copied().collect();
        for vip in new {
            match self.netlink.add_route(vip, self.index, self.table) {
                Ok(()) => {
                    self.installed.insert(vip);
                    changes.new.push(vip);
                }
                Err(error) => changes.error = Some(error),
            }
        }
        changes
    }
}

/// What [`Routes::follow`] has done.
#[derive(Debug, Default)]
pub struct Changes {
    /// VIPs that got a route.
    pub new: Vec<IpAddr>,
    /// VIPs that lost theirs.
    pub gone: Vec<IpAddr>,
    /// VIPs whose routes somebody else had removed, by setting the device down.
    pub lost: Vec<IpAddr>,
    /// The last that the kernel refused.
    pub error: Option<io::Error>,
}
