//! The configuration of HNLB with stateless services only.
use std::path::Path;

use crate::topology::{BACKENDS, BALANCER_ADDRESSES, Family, PORT, vip};

/// UDP services `dns4` and `dns6` at `port` of the VIPs, with these weights of
/// the backends; in front of it an emulated NIC of this profile, or the kernel.
pub(crate) fn stateless(
    profile: Option<&str>,
    port: u16,
    weights: &[u16],
    socket: &Path,
) -> String {
    let addresses = BALANCER_ADDRESSES.map(|address| format!("\"{address}\"")).join(", ");
    let device = match profile {
        Some(profile) => format!(
            "net_af_packet0,iface={PORT}\"\n[port.nic]\nprofile = \"{profile}\"\nqueues = 4\n"
        ),
        None => format!("xdp:{PORT}\"\n"),
    };
    let mut text = format!(
        "[eal]\nmemory_mb = 512\nhuge_pages = \"auto\"\n\n\
         [[port]]\nname = \"lab0\"\ndevice = \"{device}\n\
         [[interface]]\nport = \"lab0\"\naddresses = [{addresses}]\n\n\
         [workers]\ncount = 1\n\n[status]\nsocket = \"{}\"\n",
        socket.display()
    );
    for (family, digit) in [(Family::V4, 4), (Family::V6, 6)] {
        text += &format!(
            "\n[[service]]\nname = \"dns{digit}\"\nvip = \"{}\"\nport = {port}\n\
             protocol = \"udp\"\nmode = \"dsr\"\nstateless = true\n",
            vip(family)
        );
        for (host, weight) in BACKENDS.iter().zip(weights) {
            let address = host.address(family);
            text += &format!("[[service.backend]]\naddress = \"{address}\"\nweight = {weight}\n");
        }
    }
    text
}
