//! A device's port: opened, started, asked; its queues and rules as handles.

mod config;
mod device;
mod error;
mod inner;
mod queue;
mod redirection;
mod setup;
mod stats;

use std::ffi::CStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use dpdk_sys as sys;
use wire::Mac;

pub use crate::flow::PortFlows;
pub use config::{PortConfig, Rss};
pub use error::PortError;
pub(crate) use inner::{HOTPLUG, Inner};
pub use queue::{RxQueue, TxQueue};
pub use redirection::Redirection;
pub use stats::PortStats;

use crate::live::Live;
use crate::mempool::Mempool;
use device::Device;
use setup::step;

/// An open port. Closed, and its device detached, when this handle and those
/// of its queues and rules are gone.
#[derive(Debug)]
pub struct Port {
    inner: Arc<Inner>,
    config: PortConfig,
}

/// A port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether packets can pass.
    pub up: bool,
    /// Mbit/s, if the driver knows.
    pub speed: Option<u32>,
}

/// What a device can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The driver's name, as in `net_ixgbe`.
    pub driver: String,
    /// Most receive queues.
    pub max_rx_queues: u16,
    /// Most send queues.
    pub max_tx_queues: u16,
    /// Entries of the redirection table; 0: it has none.
    pub reta_size: u16,
    /// Whether it can hash addresses and ports.
    pub rss_five_tuple: bool,
    /// Least MTU.
    pub min_mtu: u16,
    /// Most MTU.
    pub max_mtu: u16,
}

impl Port {
    /// Opens `device`: a PCI address, or a virtual device with its arguments,
    /// which is made if it does not exist. Receive queues take their mbufs
    /// from `pool`.
    ///
    /// # Errors
    /// There is no such device, it is open already, or it can't do what
    /// `config` asks; with the driver's reason.
    pub fn open(device: &str, config: &PortConfig, pool: &Mempool) -> Result<Self, PortError> {
        let live = Live::new()?;
        let parsed = Device::parse(device)?;
        let inner = {
            let _one = HOTPLUG.lock().unwrap_or_else(PoisonError::into_inner);
            let id = parsed.probe()?;
            let queues = (config.rx_queues, config.tx_queues);
            let rings = (Vec::new(), Vec::new());
            Inner::new(id, &parsed.name, parsed.interface, rings, live, queues, pool)?
        };
        Self::configure(inner, config)
    }

    /// Configures a port that is ours.
    pub(crate) fn configure(inner: Inner, config: &PortConfig) -> Result<Self, PortError> {
        setup::configure(&inner, config)?;
        Ok(Self { inner: Arc::new(inner), config: config.clone() })
    }

    /// What the device is called.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.inner.device
    }

    /// DPDK's number of the port.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.inner.id
    }

    /// Descriptors of each receive queue: as many as were asked for, or as many as
    /// the driver can have.
    #[must_use]
    pub fn rx_ring(&self) -> u16 {
        self.inner.rx_ring.load(Ordering::Relaxed)
    }

    /// Whether the NIC verifies the IPv4 header checksums of received packets:
    /// wherever the driver can, it is asked to.
    #[must_use]
    pub fn verifies_headers(&self) -> bool {
        self.inner.verifies_headers.load(Ordering::Relaxed)
    }

    /// Starts it. Nothing happens if it runs.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn start(&mut self) -> Result<(), PortError> {
        if self.inner.started.load(Ordering::Acquire) {
            return Ok(());
        }
        {
            let _one = self.inner.control();
            let id = self.inner.id;
            // SAFETY: the port is configured, with all queues set up.
            step(&self.inner, "start", || unsafe { sys::rte_eth_dev_start(id) })?;
        }
        self.inner.started.store(true, Ordering::Release);
        match &self.config.rss {
            Some(rss) if setup::info(&self.inner)?.reta_size > 0 => {
                let queues = rss.queues.clone();
                self.set_reta(&queues)
            }
            _ => Ok(()),
        }
    }

    /// Stops it. Nothing happens if it does not run.
    ///
    /// # Errors
    /// Handles of queues or rules still exist, or the driver's reason.
    pub fn stop(&mut self) -> Result<(), PortError> {
        if !self.inner.started.load(Ordering::Acquire) {
            return Ok(());
        }
        let rules = usize::from(self.inner.flows_taken.load(Ordering::Acquire));
        let held = self.inner.held() + rules;
        if held > 0 {
            return Err(PortError::Held { device: self.inner.device.clone(), held });
        }
        let _one = self.inner.control();
        self.inner.started.store(false, Ordering::Release);
        let id = self.inner.id;
        // SAFETY: no queue handle exists, so nobody polls, and no rule's
        // pointer can go stale in a `PortFlows`; `self` is borrowed
        // exclusively, so nobody takes one meanwhile.
        step(&self.inner, "stop", || unsafe { sys::rte_eth_dev_stop(id) })
    }

    /// The handle of receive queue `queue`. It can be taken again once dropped.
    ///
    /// # Errors
    /// There is none, it is taken, or the port is not started.
    pub fn rx_queue(&mut self, queue: u16) -> Result<RxQueue, PortError> {
        RxQueue::take(&self.inner, queue)
    }

    /// The handle of send queue `queue`. It can be taken again once dropped.
    ///
    /// # Errors
    /// There is none, it is taken, or the port is not started.
    pub fn tx_queue(&mut self, queue: u16) -> Result<TxQueue, PortError> {
        TxQueue::take(&self.inner, queue)
    }

    /// The handles of all queues, in order of their numbers.
    ///
    /// # Errors
    /// One is taken, or the port is not started.
    pub fn queues(&mut self) -> Result<(Vec<RxQueue>, Vec<TxQueue>), PortError> {
        let rx = (0..self.config.rx_queues).map(|queue| RxQueue::take(&self.inner, queue));
        let tx = (0..self.config.tx_queues).map(|queue| TxQueue::take(&self.inner, queue));
        Ok((rx.collect::<Result<_, _>>()?, tx.collect::<Result<_, _>>()?))
    }

    /// The handle for the port's rules. There is one at a time.
    #[must_use]
    pub fn flows(&mut self) -> Option<PortFlows> {
        let taken = self.inner.flows_taken.swap(true, Ordering::AcqRel);
        (!taken).then(|| PortFlows::new(Arc::clone(&self.inner)))
    }

    /// Spreads packets that no rule matches evenly over `queues`.
    ///
    /// # Errors
    /// The device has no redirection table or not these queues.
    pub fn set_reta(&mut self, queues: &[u16]) -> Result<(), PortError> {
        setup::check_queues(&self.inner.device, queues, self.config.rx_queues)?;
        let reta = self.redirection()?;
        let entries: Vec<_> = (0..reta.size()).zip(queues.iter().copied().cycle()).collect();
        reta.update(&entries)
    }

    /// The handle of the redirection table, which can be changed while packets arrive.
    ///
    /// # Errors
    /// The device has none.
    pub fn redirection(&self) -> Result<Redirection, PortError> {
        Redirection::new(&self.inner, self.config.rx_queues)
    }

    /// The device's Ethernet address.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn mac(&self) -> Result<Mac, PortError> {
        let mut address = sys::rte_ether_addr { addr_bytes: [0; 6] };
        let id = self.inner.id;
        // SAFETY: the port exists; a writable address.
        step(&self.inner, "read the address of", || unsafe {
            sys::rte_eth_macaddr_get(id, &raw mut address)
        })?;
        Ok(Mac(address.addr_bytes))
    }

    /// The link, without waiting for it.
    #[must_use]
    pub fn link(&self) -> Link {
        let (mut up, mut speed) = (0, 0);
        let _one = self.inner.control();
        // SAFETY: the port exists; two writable numbers.
        let code = unsafe { sys::hnlb_link(self.inner.id, &raw mut up, &raw mut speed) };
        let running = self.inner.interface.as_ref().is_none_or(inner::Interface::running);
        let removed = self.inner.removed.load(Ordering::Acquire);
        Link {
            up: code == 0 && up != 0 && running && !removed,
            speed: (speed != 0 && speed != u32::MAX).then_some(speed),
        }
    }

    /// Whether packets can pass.
    #[must_use]
    pub fn link_up(&self) -> bool {
        self.link().up
    }

    /// Whether the device is still there: not pulled, and the kernel's
    /// interface behind a virtual device not deleted.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let there = self.inner.interface.as_ref().is_none_or(inner::Interface::exists);
        there && !self.inner.removed.load(Ordering::Acquire)
    }

    /// The counters that every driver has.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        stats::basic(&self.inner)
    }

    /// The driver's own counters with their names.
    #[must_use]
    pub fn xstats(&self) -> Vec<(String, u64)> {
        stats::extended(&self.inner)
    }

    /// What the device can.
    ///
    /// # Errors
    /// The driver's reason.
    pub fn capabilities(&self) -> Result<Capabilities, PortError> {
        let info = setup::info(&self.inner)?;
        let driver = if info.driver_name.is_null() {
            String::new()
        } else {
            // SAFETY: a driver's name is a C string that lives as long as it.
            unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned()
        };
        Ok(Capabilities {
            driver,
            max_rx_queues: info.max_rx_queues,
            max_tx_queues: info.max_tx_queues,
            reta_size: info.reta_size,
            rss_five_tuple: setup::hashes_five_tuple(&info),
            min_mtu: info.min_mtu,
            max_mtu: info.max_mtu,
        })
    }
}
