//! What is asked of a port.

/// How a port is opened. All checksum and segmentation offloads are off: the
/// same bytes go out on every device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues, at least 1.
    pub rx_queues: u16,
    /// Send queues, at least 1.
    pub tx_queues: u16,
    /// Descriptors of a receive queue; rounded to what the device can.
    pub rx_desc: u16,
    /// Descriptors of a send queue; rounded to what the device can.
    pub tx_desc: u16,
    /// Largest IP packet in bytes; `None`: the device's default.
    pub mtu: Option<u16>,
    /// Receive frames for other addresses, too. Devices that know no such mode
    /// receive all.
    pub promiscuous: bool,
    /// Spread packets over receive queues by their 5-tuple; `None`: all that no
    /// rule matches goes to queue 0, or as the device likes.
    pub rss: Option<Rss>,
}

/// Receive side scaling on addresses and ports of TCP and UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rss {
    /// The queues to spread over, evenly; not empty. Others get only what rules
    /// send there.
    pub queues: Vec<u16>,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_desc: 1024,
            tx_desc: 1024,
            mtu: None,
            promiscuous: true,
            rss: None,
        }
    }
}
