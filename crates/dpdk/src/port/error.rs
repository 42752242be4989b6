//! Why a port can't be had as asked.
use crate::live::NotRunning;

/// A port could not be opened or did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// EAL does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// The text names no device.
    #[error(
        "'{device}' is not a device: {why}; write a PCI address (0000:01:00.0) or a virtual \
         device (net_af_packet0,iface=veth0)"
    )]
    Name {
        /// The text.
        device: String,
        /// What is wrong.
        why: String,
    },
    /// This process has the port open.
    #[error("device '{device}' is open already")]
    Open {
        /// The device.
        device: String,
    },
    /// Too many queues, or none.
    #[error("device '{device}' has 1 to {most} {direction} queues; {asked} were asked for")]
    Queues {
        /// The device.
        device: String,
        /// `receive` or `send`.
        direction: &'static str,
        /// Queues asked for.
        asked: u16,
        /// Queues the device has.
        most: u16,
    },
    /// An MTU the device can't have.
    #[error("device '{device}' takes an MTU of {least} to {most}; {asked} was asked for")]
    Mtu {
        /// The device.
        device: String,
        /// The MTU asked for.
        asked: u16,
        /// The device's least.
        least: u16,
        /// The device's most.
        most: u16,
    },
    /// Receive side scaling the device can't do.
    #[error("device '{device}' can't spread packets as asked: {why}")]
    Rss {
        /// The device.
        device: String,
        /// What is missing.
        why: String,
    },
    /// The queue handle does not exist, is taken, or the port does not run.
    #[error("{direction} queue {queue} of device '{device}': {why}")]
    Queue {
        /// The device.
        device: String,
        /// `receive` or `send`.
        direction: &'static str,
        /// The queue.
        queue: u16,
        /// What is wrong.
        why: &'static str,
    },
    /// The port can't stop under a thread that uses it.
    #[error("device '{device}' can't stop while {held} handles of its queues and rules are held")]
    Held {
        /// The device.
        device: String,
        /// Handles that were not dropped.
        held: usize,
    },
    /// The driver refused.
    #[error("can't {step} device '{device}': {reason}")]
    Driver {
        /// The device.
        device: String,
        /// What was tried.
        step: &'static str,
        /// The driver's error and log.
        reason: String,
    },
}

impl PortError {
    pub(crate) fn driver(device: &str, step: &'static str, reason: String) -> Self {
        Self::Driver { device: device.to_owned(), step, reason }
    }
}
