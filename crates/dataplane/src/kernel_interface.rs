//! The kernel's network interface beneath a port, where there is one.
use std::fs;
use std::path::Path;

/// The interface that the DPDK device `device` sends and receives through, as the
/// drivers net_af_packet, net_af_xdp and net_pcap name it.
pub(crate) fn name(device: &str) -> Option<&str> {
    let mut parts = device.split(',');
    let driver = parts.next()?;
    let wraps = ["net_af_packet", "net_af_xdp", "net_pcap"];
    wraps.iter().any(|name| driver.starts_with(name)).then_some(())?;
    parts.find_map(|part| part.strip_prefix("iface="))
}

/// The MTU of the interface `name`; `None` if that cannot be told.
pub(crate) fn mtu(name: &str) -> Option<u32> {
    // /sys shows the network namespace that it was mounted in, which may be another.
    let index = nix::net::if_::if_nametoindex(name).ok()?;
    let directory = Path::new("/sys/class/net").join(name);
    let number = |file: &str| fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok();
    (number("ifindex")? == index).then(|| number("mtu"))?
}

/// Whether an interface with the MTU `link`, if it has one, loses packets of a port
/// with the MTU `mtu`.
pub(crate) fn is_short(link: Option<u32>, mtu: u16) -> bool {
    link.is_some_and(|link| link < u32::from(mtu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_name_their_interface() {
        for (device, interface) in [
            ("net_af_packet0,iface=eth1", Some("eth1")),
            ("net_af_xdp1,start_queue=0,iface=eth2", Some("eth2")),
            ("net_pcap0,iface=lo", Some("lo")),
            ("net_pcap0,rx_pcap=in.pcap", None),
            // It makes the interface that it names.
            ("net_tap0,iface=tap0", None),
            ("0000:3b:00.0", None),
        ] {
            assert_eq!(name(device), interface, "{device}");
        }
    }

    #[test]
    fn an_interface_is_short_below_the_mtu_of_the_port() {
        let short = [None, Some(1499), Some(1500), Some(9000)].map(|link| is_short(link, 1500));
        assert_eq!(short, [false, true, false, false]);
    }

    #[test]
    fn the_loopback_interface_has_an_mtu() {
        assert!(mtu("lo").is_none_or(|mtu| mtu >= 1280));
        assert_eq!(mtu("no-such-device"), None);
    }
}
