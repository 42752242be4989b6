//! The management network: the kernel's own way from HNLB's namespace to the
//! backends, by which it checks them.

use crate::topology::{BALANCER, SWITCH};
use crate::{Lab, LabError};

/// The kernel's end of the link, and the switch's.
const OURS: &str = "mgmt";
const SWITCHS: &str = "lbm";
const ADDRESSES: [&str; 2] = ["10.72.0.250/24", "fd72::250/64"];

/// Makes the link. It goes with the namespaces.
pub(super) fn make(lab: &Lab) -> Result<(), LabError> {
    let switch = lab.netns(SWITCH);
    let [v4, v6] = ADDRESSES;
    let ours = format!(
        "set -e\n\
         ip link add {OURS} type veth peer name {SWITCHS} netns {switch}\n\
         echo 0 > /proc/sys/net/ipv6/conf/{OURS}/disable_ipv6\n\
         ethtool -K {OURS} rx off tx off > /dev/null\n\
         ip link set {OURS} up\n\
         ip addr add {v4} dev {OURS}\n\
         ip addr add {v6} dev {OURS} nodad\n"
    );
    let theirs = format!(
        "set -e\nethtool -K {SWITCHS} rx off tx off > /dev/null\n\
         ip link set {SWITCHS} master br0 up\n"
    );
    for (host, script) in [(BALANCER, ours), (SWITCH, theirs)] {
        lab.exec(host, &["sh", "-c", &script])?.success()?;
    }
    Ok(())
}
