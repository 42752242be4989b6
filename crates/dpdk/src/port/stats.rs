//! What a port has counted.
use std::ffi::CStr;
use std::mem::MaybeUninit;

use dpdk_sys as sys;

use super::inner::Inner;

/// A port's counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets lost because receive queues were full.
    pub rx_missed: u64,
    /// Packets received wrong.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Times no mbuf was left for a packet.
    pub rx_no_mbuf: u64,
}

impl PortStats {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            rx_packets: self.rx_packets + other.rx_packets,
            tx_packets: self.tx_packets + other.tx_packets,
            rx_bytes: self.rx_bytes + other.rx_bytes,
            tx_bytes: self.tx_bytes + other.tx_bytes,
            rx_missed: self.rx_missed + other.rx_missed,
            rx_errors: self.rx_errors + other.rx_errors,
            tx_errors: self.tx_errors + other.tx_errors,
            rx_no_mbuf: self.rx_no_mbuf + other.rx_no_mbuf,
        }
    }
}

/// The counters that every driver has; zeros if it has none.
pub(super) fn basic(port: &Inner) -> PortStats {
    let mut stats = MaybeUninit::<sys::rte_eth_stats>::zeroed();
    let _one = port.control();
    // SAFETY: the port exists; numbers only, so zeroed is valid if the driver
    // writes nothing.
    let stats = unsafe {
        sys::rte_eth_stats_get(port.id, stats.as_mut_ptr());
        stats.assume_init()
    };
    PortStats {
        rx_packets: stats.ipackets,
        tx_packets: stats.opackets,
        rx_bytes: stats.ibytes,
        tx_bytes: stats.obytes,
        rx_missed: stats.imissed,
        rx_errors: stats.ierrors,
        tx_errors: stats.oerrors,
        rx_no_mbuf: stats.rx_nombuf,
    }
}

/// The driver's own counters with their names.
pub(super) fn extended(port: &Inner) -> Vec<(String, u64)> {
    let _one = port.control();
    // SAFETY: the port exists; without an array the driver says how many there are.
    let count = unsafe { sys::rte_eth_xstats_get_names(port.id, std::ptr::null_mut(), 0) };
    let Ok(count) = usize::try_from(count) else { return Vec::new() };
    // SAFETY: arrays of numbers: zero is valid.
    let mut names: Vec<sys::rte_eth_xstat_name> =
        (0..count).map(|_| unsafe { MaybeUninit::zeroed().assume_init() }).collect();
    let mut values: Vec<sys::rte_eth_xstat> =
        (0..count).map(|_| sys::rte_eth_xstat { id: 0, value: 0 }).collect();
    let room = u32::try_from(count).unwrap_or(0);
    // SAFETY: both arrays have `room` entries; a driver that has got more
    // writes none and says how many it has.
    let (named, valued) = unsafe {
        (
            sys::rte_eth_xstats_get_names(port.id, names.as_mut_ptr(), room),
            sys::rte_eth_xstats_get(port.id, values.as_mut_ptr(), room),
        )
    };
    let known = |got: i32| usize::try_from(got).is_ok_and(|got| got <= count);
    if !known(named) || !known(valued) {
        return Vec::new();
    }
    values
        .iter()
        .take(usize::try_from(valued).unwrap_or(0))
        .filter_map(|value| {
            let name = names.get(usize::try_from(value.id).ok()?)?;
            // SAFETY: c_char has u8's layout and the array is borrowed.
            let bytes =
                unsafe { std::slice::from_raw_parts(name.name.as_ptr().cast(), name.name.len()) };
            let name = CStr::from_bytes_until_nul(bytes).ok()?.to_string_lossy().into_owned();
            Some((name, value.value))
        })
        .collect()
}
