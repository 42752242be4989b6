//! Ports whose queues are rings: how an emulated NIC meets the driver interface.
use std::ffi::{CStr, CString};
use std::sync::PoisonError;

use dpdk_sys as sys;

use crate::live::Live;
use crate::mempool::Mempool;
use crate::port::{HOTPLUG, Inner, Port, PortConfig, PortError};
use crate::ring::{self, Consumer, Producer};
use crate::{errno, log};

/// Most receive and most send queues of a net_ring port; compiled into DPDK
/// (`RTE_PMD_RING_MAX_RX_RINGS`).
pub const MAX_QUEUES: usize = sys::RTE_PMD_RING_MAX_RX_RINGS as usize;

/// A net_ring port and the other ends of its queues' rings.
#[derive(Debug)]
pub struct RingNic {
    /// The port.
    pub port: Port,
    /// One per receive queue: what is put in is received by the port.
    pub to_port: Vec<Producer>,
    /// One per send queue: what the port sends comes out.
    pub from_port: Vec<Consumer>,
}

/// A port with `config.rx_queues` and `config.tx_queues` queues over new
/// single-producer, single-consumer rings of exactly `config.rx_desc` and
/// `config.tx_desc` mbufs. `name` is unique and up to 20 bytes.
///
/// # Errors
/// See [`from_rings`].
pub fn create(name: &str, config: &PortConfig, pool: &Mempool) -> Result<RingNic, PortError> {
    check_queues(name, config.rx_queues.into(), config.tx_queues.into())?;
    let rings = |direction: &str, count: u16, size: u16| {
        (0..count)
            .map(|queue| ring::spsc(&format!("{name}_{direction}{queue}"), size.into()))
            .collect::<Result<Vec<_>, _>>()
            .map(|ends| ends.into_iter().unzip::<_, _, Vec<_>, Vec<_>>())
            .map_err(|error| PortError::driver(name, "make rings for", error.to_string()))
    };
    let (to_port, rx) = rings("r", config.rx_queues, config.rx_desc)?;
    let (tx, from_port) = rings("t", config.tx_queues, config.tx_desc)?;
    let port = from_rings(name, rx, tx, config, pool)?;
    Ok(RingNic { port, to_port, from_port })
}

/// A port that receives from the rings `rx` and sends to the rings `tx`, one
/// queue each, whatever numbers of queues `config` has. Marks and all else in
/// the mbufs pass unchanged. The driver asks for a `pool` and never uses it.
///
/// # Errors
/// No queue or more than [`MAX_QUEUES`], a name in use, or the driver's reason.
pub fn from_rings(
    name: &str,
    rx: Vec<Consumer>,
    tx: Vec<Producer>,
    config: &PortConfig,
    pool: &Mempool,
) -> Result<Port, PortError> {
    let live = Live::new()?;
    let (rx_queues, tx_queues) = check_queues(name, rx.len(), tx.len())?;
    let config = PortConfig { rx_queues, tx_queues, ..config.clone() };
    let text = CString::new(name)
        .map_err(|_| PortError::driver(name, "name", "the name has a NUL byte".to_owned()))?;
    let one = HOTPLUG.lock().unwrap_or_else(PoisonError::into_inner);
    let id = make(&text, &rx, &tx, &live).map_err(|(code, log)| {
        PortError::driver(name, "make", log::with_log(errno::text(code), &log))
    })?;
    let queues = (config.rx_queues, config.tx_queues);
    let inner = Inner::new(id, &format!("net_ring_{name}"), None, (rx, tx), live, queues, pool)?;
    drop(one);
    Port::configure(inner, &config)
}

/// The numbers of queues, if a net_ring port can have so many.
fn check_queues(name: &str, rx: usize, tx: usize) -> Result<(u16, u16), PortError> {
    let most = u16::try_from(MAX_QUEUES).unwrap_or(u16::MAX);
    let count = |direction, rings: usize| {
        let asked = u16::try_from(rings).unwrap_or(u16::MAX);
        if asked == 0 || asked > most {
            return Err(PortError::Queues { device: name.to_owned(), direction, asked, most });
        }
        Ok(asked)
    };
    Ok((count("receive", rx)?, count("send", tx)?))
}

/// Makes the device; the number of its port, or an errno and the log.
fn make(name: &CStr, rx: &[Consumer], tx: &[Producer], _live: &Live) -> Result<u16, (i32, String)> {
    let rx: Vec<_> = rx.iter().map(|end| end.raw().as_ptr()).collect();
    let tx: Vec<_> = tx.iter().map(|end| end.raw().as_ptr()).collect();
    let count = |rings: &[_]| u32::try_from(rings.len()).unwrap_or(u32::MAX);
    log::explained(|| {
        // SAFETY: EAL runs (`_live`), `name` is a C string, the arrays have as
        // many live rings as they say. The port keeps their handles, so that
        // they outlive it and nobody else is at these ends.
        let id = unsafe {
            sys::rte_eth_from_rings(
                name.as_ptr(),
                rx.as_ptr(),
                count(&rx),
                tx.as_ptr(),
                count(&tx),
                0,
            )
        };
        u16::try_from(id).map_err(|_| errno::last())
    })
}
