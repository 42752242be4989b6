//! The redirection table (RETA): which receive queue gets the packets of each RSS bucket.
use std::sync::Arc;

use dpdk_sys as sys;

use super::error::PortError;
use super::inner::Inner;
use super::setup::{self, step};

/// The redirection table of a port. A packet's bucket is its RSS hash modulo
/// [`Self::size`]; the entry of that number is the packet's receive queue, unless a
/// rule matches the packet.
#[derive(Clone, Debug)]
pub struct Redirection {
    inner: Arc<Inner>,
    size: u16,
    rx_queues: u16,
}

impl Redirection {
    pub(super) fn new(inner: &Arc<Inner>, rx_queues: u16) -> Result<Self, PortError> {
        let size = setup::info(inner)?.reta_size;
        if size == 0 {
            let why = "it has no redirection table".to_owned();
            return Err(PortError::Rss { device: inner.device.clone(), why });
        }
        Ok(Self { inner: Arc::clone(inner), size, rx_queues })
    }

    /// Number of entries.
    #[must_use]
    pub const fn size(&self) -> u16 {
        self.size
    }

    /// Changes entries, given as pairs of an entry's number and its new queue. Most
    /// drivers write registers while packets arrive; a packet that is in a receive queue
    /// already stays there. Others stop and start the port (mlx5), which loses packets
    /// and rules.
    ///
    /// # Errors
    /// There is no such entry or queue; or the driver's reason.
    pub fn update(&self, entries: &[(u16, u16)]) -> Result<(), PortError> {
        let device = &self.inner.device;
        if let Some((entry, _)) = entries.iter().find(|(entry, _)| *entry >= self.size) {
            let why = format!("entry {entry} is not one of its table's {}", self.size);
            return Err(PortError::Rss { device: device.clone(), why });
        }
        let (numbers, queues): (Vec<u16>, Vec<u16>) = entries.iter().copied().unzip();
        setup::check_queues(device, &queues, self.rx_queues)?;
        let count = u16::try_from(entries.len()).unwrap_or(u16::MAX);
        let _one = self.inner.control();
        let (id, size) = (self.inner.id, self.size);
        // SAFETY: the port exists; both arrays have at least `count` entries.
        step(&self.inner, "spread packets of", || unsafe {
            sys::hnlb_reta_update(id, size, numbers.as_ptr(), queues.as_ptr(), count)
        })
    }

    /// The queue of each entry, as the driver knows it.
    ///
    /// # Errors
    /// The driver's reason; some can't read the table.
    pub fn query(&self) -> Result<Vec<u16>, PortError> {
        let mut queues = vec![0; usize::from(self.size)];
        let _one = self.inner.control();
        let (id, size) = (self.inner.id, self.size);
        // SAFETY: the port exists; the array has `size` writable entries.
        step(&self.inner, "read the redirection table of", || unsafe {
            sys::hnlb_reta_query(id, size, queues.as_mut_ptr())
        })?;
        Ok(queues)
    }

    /// The key of the Toeplitz hash, if the port hashes addresses and ports of TCP and UDP
    /// packets. Longer keys differ only behind these bytes, which no hash of two IPv6
    /// addresses and ports reaches.
    #[must_use]
    pub fn key(&self) -> Option<[u8; 40]> {
        let (mut key, mut types) = ([0; 40], 0);
        let _one = self.inner.control();
        // SAFETY: the port exists; the array has 40 writable bytes.
        let ret = unsafe { sys::hnlb_rss_key(self.inner.id, key.as_mut_ptr(), 40, &raw mut types) };
        // SAFETY: it only reads constants.
        let needed = unsafe { sys::hnlb_rss_ports_v4() };
        (ret == 0 && types & needed == needed).then_some(key)
    }
}
