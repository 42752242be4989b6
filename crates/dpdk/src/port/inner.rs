//! What a port, its queues and its flow rules share.
use std::collections::BTreeSet;
use std::ffi::{CString, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk_sys as sys;

use super::device;
use super::error::PortError;
use crate::live::Live;
use crate::mempool::Mempool;
use crate::ring::{Consumer, Producer};

/// Held while devices come and go.
pub(crate) static HOTPLUG: Mutex<()> = Mutex::new(());

/// Ports that have an [`Inner`].
static OPEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// The rings of a net_ring port.
pub(crate) type Rings = (Vec<Consumer>, Vec<Producer>);

/// The kernel's interface behind a virtual device.
#[derive(Debug)]
pub(super) struct Interface {
    name: CString,
    index: u32,
}

impl Interface {
    pub(super) fn find(name: CString) -> Option<Self> {
        // SAFETY: a C string.
        let index = unsafe { sys::hnlb_iface_index(name.as_ptr()) };
        (index != 0).then_some(Self { name, index })
    }

    pub(super) fn exists(&self) -> bool {
        // SAFETY: a C string.
        unsafe { sys::hnlb_iface_index(self.name.as_ptr()) == self.index }
    }

    pub(super) fn running(&self) -> bool {
        // SAFETY: a C string.
        self.exists() && unsafe { sys::hnlb_iface_running(self.name.as_ptr()) } != 0
    }
}

/// An open port. Closed when its handle and all handles of its queues and
/// rules are gone.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: u16,
    pub(crate) device: String,
    pub(super) interface: Option<Interface>,
    /// Set from EAL's interrupt thread when the device is pulled. Leaked, as
    /// that thread may come late.
    pub(super) removed: &'static AtomicBool,
    pub(super) started: AtomicBool,
    /// Descriptors of a receive queue, as the driver has them.
    pub(super) rx_ring: AtomicU16,
    /// Whether the NIC verifies IPv4 header checksums.
    pub(super) verifies_headers: AtomicBool,
    /// Queues that have a handle.
    pub(super) rx_taken: Vec<AtomicBool>,
    pub(super) tx_taken: Vec<AtomicBool>,
    pub(crate) flows_taken: AtomicBool,
    /// One control operation at a time, since drivers promise no more.
    control: Mutex<()>,
    /// Receive queues fill themselves from it.
    pub(super) pool: Mempool,
    /// Dropped after the port is closed.
    _rings: Rings,
    _live: Live,
}

impl Inner {
    /// Claims port `id`, which exists. The caller holds [`HOTPLUG`], so that
    /// the port stays the one that was found.
    pub(crate) fn new(
        id: u16,
        device: &str,
        interface: Option<CString>,
        rings: Rings,
        live: Live,
        queues: (u16, u16),
        pool: &Mempool,
    ) -> Result<Self, PortError> {
        if !OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
            return Err(PortError::Open { device: device.to_owned() });
        }
        let free = |count: u16| (0..count).map(|_| AtomicBool::new(false)).collect();
        let removed: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
        // SAFETY: the port exists; the argument lives for ever and is only used
        // as a shared atomic.
        unsafe {
            sys::rte_eth_dev_callback_register(
                id,
                sys::RTE_ETH_EVENT_INTR_RMV,
                Some(on_removal),
                std::ptr::from_ref(removed).cast_mut().cast(),
            );
        }
        Ok(Self {
            id,
            device: device.to_owned(),
            interface: interface.and_then(Interface::find),
            removed,
            started: AtomicBool::new(false),
            rx_ring: AtomicU16::new(0),
            verifies_headers: AtomicBool::new(false),
            rx_taken: free(queues.0),
            tx_taken: free(queues.1),
            flows_taken: AtomicBool::new(false),
            control: Mutex::new(()),
            pool: pool.clone(),
            _rings: rings,
            _live: live,
        })
    }

    /// Held during a control operation.
    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queue handles that exist.
    pub(super) fn held(&self) -> usize {
        let taken = |queues: &[AtomicBool]| {
            queues.iter().filter(|taken| taken.load(Ordering::Acquire)).count()
        };
        taken(&self.rx_taken) + taken(&self.tx_taken)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _one = HOTPLUG.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = device::info(self.id).map_or(std::ptr::null_mut(), |info| info.device);
        // SAFETY: no handle is left, so nobody polls or controls the port, and
        // it was claimed in OPEN, so it is not closed twice. Failures leave a
        // closed port behind, at worst.
        unsafe {
            sys::rte_eth_dev_stop(self.id);
            sys::rte_eth_dev_close(self.id);
        }
        let shared =
            device::ports().any(|id| device::info(id).is_ok_and(|info| info.device == owner));
        if !owner.is_null() && !shared {
            // SAFETY: the device exists, as its last port has just been closed,
            // and devices are removed under HOTPLUG only.
            unsafe { sys::rte_dev_remove(owner) };
        }
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

unsafe extern "C" fn on_removal(
    _port: u16,
    _event: sys::rte_eth_event_type,
    removed: *mut c_void,
    _more: *mut c_void,
) -> c_int {
    // SAFETY: the leaked AtomicBool that was registered with this function.
    unsafe { &*removed.cast::<AtomicBool>() }.store(true, Ordering::Release);
    0
}
