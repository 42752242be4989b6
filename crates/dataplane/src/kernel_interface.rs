//! The kernel's network interface beneath a port, where there is one.
use std::fs;
use std::path::{Path, PathBuf};

/// The MTU of the interface `name`; `None` if that cannot be told.
pub(crate) fn mtu(name: &str) -> Option<u32> {
    number(&directory(name)?, "mtu")
}

/// The receive queues of the interface `name`; `None` if that cannot be told.
pub(crate) fn receive_queues(name: &str) -> Option<u16> {
    let queues = fs::read_dir(directory(name)?.join("queues")).ok()?;
    let names = queues.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    u16::try_from(names.filter(|name| name.starts_with("rx-")).count()).ok()
}

/// What the kernel tells of the interface `name`, if it is this network namespace's:
/// /sys shows the namespace that it was mounted in, which may be another.
fn directory(name: &str) -> Option<PathBuf> {
    let index = nix::net::if_::if_nametoindex(name).ok()?;
    let directory = Path::new("/sys/class/net").join(name);
    (number(&directory, "ifindex")? == index).then_some(directory)
}

fn number(directory: &Path, file: &str) -> Option<u32> {
    fs::read_to_string(directory.join(file)).ok()?.trim().parse().ok()
}

/// Makes the kernel take no IP packet and no ARP from the interface `name`: one whose
/// frames net_af_packet copies reaches the kernel by itself, too, and over a TAP once
/// more. No route leads to any source over this interface, so that strict reverse path
/// filtering (RFC 3704 section 2.2) drops all.
pub(crate) fn keep_from_kernel(name: &str) {
    for (file, value) in [
        (format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1"),
        (format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1"),
    ] {
        // Without IPv6 there is no such file.
        if let Err(error) = fs::write(&file, value) {
            tracing::warn!(file, %error, "the kernel may get packets of this port twice");
        }
    }
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
