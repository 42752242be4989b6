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

    /// Has routes for `vips`, and for no others. The VIPs that got a route, and those that
    /// lost theirs. After an error the next call goes on where this one failed.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn follow(&mut self, vips: &BTreeSet<IpAddr>) -> io::Result<[Vec<IpAddr>; 2]> {
        let gone: Vec<IpAddr> = self.installed.difference(vips).copied().collect();
        let new: Vec<IpAddr> = vips.difference(&self.installed).copied().collect();
        for vip in &gone {
            self.netlink.remove_route(*vip, self.index, self.table)?;
            self.installed.remove(vip);
        }
        if self.up == vips.is_empty() {
            self.device.enabled(!vips.is_empty())?;
            self.up = !vips.is_empty();
        }
        for vip in &new {
            self.netlink.add_route(*vip, self.index, self.table)?;
            self.installed.insert(*vip);
        }
        Ok([new, gone])
    }
}
