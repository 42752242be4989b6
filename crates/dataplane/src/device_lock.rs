//! One load balancer for each device: two on one interface would both forward every
//! packet.
//!
//! A lock is a listening socket in the kernel's abstract name space, which belongs to
//! the network namespace as interfaces do, and ends with its process.
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use config::{Config, Port};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use crate::error::StartError;
use crate::patience;

/// A device that no other load balancer uses, until this is dropped.
#[derive(Debug)]
pub(crate) struct DeviceLock(#[expect(dead_code, reason = "it is held")] UnixListener);

/// Locks the devices of `config`. Those that exist in this process only, as rings,
/// need no lock.
///
/// # Errors
/// Another load balancer has one of them, and still has it after `patience`.
pub(crate) fn lock_all(config: &Config, patience: Duration) -> Result<Vec<DeviceLock>, StartError> {
    let locked = config.ports.iter().filter_map(|port| {
        let what = shared_name(port)?;
        let is_taken = |error: &StartError| matches!(error, StartError::DeviceTaken { .. });
        Some(patience::wait(patience, || lock(&port.name, &what), is_taken))
    });
    locked.collect()
}

/// The name by which another process would reach the device.
fn shared_name(port: &Port) -> Option<String> {
    if let Some(interface) = port.kernel_interface() {
        return Some(interface.to_owned());
    }
    let device = &port.device;
    let address = device.split(',').next().filter(|_| config::is_pci(device))?.to_ascii_lowercase();
    Some(if address.matches(':').count() == 1 { format!("0000:{address}") } else { address })
}

fn lock(port: &str, what: &str) -> Result<DeviceLock, StartError> {
    let failed = |source| StartError::DeviceLock { name: port.to_owned(), source };
    let name = SocketAddr::from_abstract_name(format!("hnlb-device-{what}")).map_err(failed)?;
    match UnixListener::bind_addr(&name) {
        Ok(listener) => Ok(DeviceLock(listener)),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let holder = UnixStream::connect_addr(&name).ok();
            let process = holder.and_then(|stream| getsockopt(&stream, PeerCredentials).ok());
            let process =
                process.map_or_else(String::new, |peer| format!(" (process {})", peer.pid()));
            Err(StartError::DeviceTaken { name: port.to_owned(), device: what.to_owned(), process })
        }
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_had_once() {
        let device = format!("eth{}", std::process::id());
        let first = lock("left", &device).unwrap();
        let error = lock("left", &device).unwrap_err().to_string();
        let process = format!("(process {})", std::process::id());
        assert!(error.contains("port 'left'") && error.contains(&device), "{error}");
        assert!(error.contains(&process), "{error}");
        drop(first);
        lock("left", &device).unwrap();
    }

    fn port(device: &str) -> Port {
        let (name, device) = ("a".to_owned(), device.to_owned());
        Port { name, device, mtu: 1500, rx_descriptors: 64, tx_descriptors: 64, nic: None }
    }

    #[test]
    fn devices_of_one_process_need_no_lock() {
        for (device, name) in [
            ("net_null0", None),
            ("net_pcap0,rx_pcap=a", None),
            ("net_af_packet3,iface=eth1", Some("eth1")),
            ("xdp:eth1", Some("eth1")),
            ("3B:00.1,x=1", Some("0000:3b:00.1")),
            ("0000:3b:00.1", Some("0000:3b:00.1")),
        ] {
            assert_eq!(shared_name(&port(device)).as_deref(), name, "{device}");
        }
    }
}
