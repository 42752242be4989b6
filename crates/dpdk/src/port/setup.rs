//! Configures a port before it starts.
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use dpdk_sys as sys;

use super::config::{PortConfig, Rss};
use super::device;
use super::error::PortError;
use super::inner::Inner;
use crate::{errno, log};

/// Runs one step of the driver, and gives its error a text.
pub(super) fn step(
    port: &Inner,
    what: &'static str,
    run: impl FnOnce() -> i32,
) -> Result<(), PortError> {
    log::explained(|| match run() {
        code if code < 0 => Err(code),
        _ => Ok(()),
    })
    .map_err(|(code, log)| {
        PortError::driver(&port.device, what, log::with_log(errno::text(code), &log))
    })
}

/// Everything up to, not including, the start.
pub(super) fn configure(port: &Inner, config: &PortConfig) -> Result<(), PortError> {
    let info = info(port)?;
    check(&port.device, &info, config)?;
    // SAFETY: numbers, arrays of numbers and nullable pointers: zero is valid.
    let mut conf = unsafe { MaybeUninit::<sys::rte_eth_conf>::zeroed().assume_init() };
    conf.rxmode.mtu = config.mtu.map_or(0, |mtu| nominal_mtu(&info, mtu));
    conf.rxmode.offloads = info.rx_offload_capa & sys::HNLB_RX_OFFLOAD_IPV4_CKSUM;
    port.verifies_headers.store(conf.rxmode.offloads != 0, Ordering::Relaxed);
    if config.rss.is_some() {
        conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
        conf.rxmode.offloads |= info.rx_offload_capa & sys::HNLB_RX_OFFLOAD_RSS_HASH;
        // SAFETY: gives a number.
        let wanted = unsafe { sys::hnlb_rss_five_tuple() };
        conf.rx_adv_conf.rss_conf.rss_hf = wanted & info.flow_type_rss_offloads;
    }
    let (id, rx, tx) = (port.id, config.rx_queues, config.tx_queues);
    // SAFETY: the port exists and is not started, `conf` is a valid structure.
    step(port, "configure", || unsafe { sys::rte_eth_dev_configure(id, rx, tx, &raw const conf) })?;
    queues(port, config)?;
    if config.promiscuous {
        // SAFETY: the port exists and is configured.
        step(port, "receive all frames on", || unsafe {
            match sys::rte_eth_promiscuous_enable(id) {
                // A device without the mode (a ring, say) receives all anyway.
                code if code == -errno::NOT_SUPPORTED => 0,
                code => code,
            }
        })?;
    }
    Ok(())
}

/// Bytes of an Ethernet header and its check sequence.
const ETHERNET: u32 = 18;

/// The MTU that the driver is told. One that has no limit of its own may name a
/// longest frame all the same, and not mean it: AF_PACKET's is 1518 bytes
/// whatever its ring holds and the kernel's device sends.
fn nominal_mtu(info: &sys::rte_eth_dev_info, mtu: u16) -> u32 {
    let most = match info.max_mtu {
        u16::MAX => info.max_rx_pktlen.saturating_sub(ETHERNET),
        limit => u32::from(limit),
    };
    u32::from(mtu).min(most)
}

fn queues(port: &Inner, config: &PortConfig) -> Result<(), PortError> {
    let (id, pool) = (port.id, port.pool.as_ptr());
    let (mut rx_desc, mut tx_desc) = (config.rx_desc, config.tx_desc);
    // SAFETY: the port exists; two writable numbers.
    step(port, "size the queues of", || unsafe {
        sys::rte_eth_dev_adjust_nb_rx_tx_desc(id, &raw mut rx_desc, &raw mut tx_desc)
    })?;
    // SAFETY: gives a number, or -1 for any node.
    let node = unsafe { sys::rte_eth_dev_socket_id(id) } as u32;
    port.rx_ring.store(rx_desc, Ordering::Relaxed);
    for queue in 0..config.rx_queues {
        // SAFETY: the port is configured with that many queues and not started;
        // a null configuration is the default; `port` keeps the pool.
        step(port, "set up a receive queue of", || unsafe {
            sys::rte_eth_rx_queue_setup(id, queue, rx_desc, node, std::ptr::null(), pool)
        })?;
    }
    for queue in 0..config.tx_queues {
        // SAFETY: as above.
        step(port, "set up a send queue of", || unsafe {
            sys::rte_eth_tx_queue_setup(id, queue, tx_desc, node, std::ptr::null())
        })?;
    }
    Ok(())
}

/// The driver's description of the port.
pub(super) fn info(port: &Inner) -> Result<sys::rte_eth_dev_info, PortError> {
    device::info(port.id)
        .map_err(|code| PortError::driver(&port.device, "describe", errno::text(code)))
}

/// Checks whether the device can do what is asked, so that errors name numbers.
fn check(device: &str, info: &sys::rte_eth_dev_info, config: &PortConfig) -> Result<(), PortError> {
    let device = device.to_owned();
    for (direction, asked, most) in [
        ("receive", config.rx_queues, info.max_rx_queues),
        ("send", config.tx_queues, info.max_tx_queues),
    ] {
        if asked == 0 || asked > most {
            return Err(PortError::Queues { device, direction, asked, most });
        }
    }
    if let Some(asked) = config.mtu {
        if asked < info.min_mtu || asked > info.max_mtu {
            let (least, most) = (info.min_mtu, info.max_mtu);
            return Err(PortError::Mtu { device, asked, least, most });
        }
    }
    match &config.rss {
        Some(rss) => check_rss(&device, info, config.rx_queues, rss),
        None => Ok(()),
    }
}

fn check_rss(
    device: &str,
    info: &sys::rte_eth_dev_info,
    rx_queues: u16,
    rss: &Rss,
) -> Result<(), PortError> {
    let wrong = |why: String| PortError::Rss { device: device.to_owned(), why };
    if !hashes_five_tuple(info) {
        return Err(wrong("it does not hash addresses and ports".to_owned()));
    }
    check_queues(device, &rss.queues, rx_queues)?;
    if info.reta_size == 0 && !(0..rx_queues).eq(rss.queues.iter().copied()) {
        return Err(wrong("it has no redirection table, so it spreads over all queues".to_owned()));
    }
    Ok(())
}

/// Whether a list of queues to spread over makes sense.
pub(super) fn check_queues(device: &str, queues: &[u16], rx_queues: u16) -> Result<(), PortError> {
    let wrong = |why: String| PortError::Rss { device: device.to_owned(), why };
    if queues.is_empty() {
        return Err(wrong("no queue is named".to_owned()));
    }
    match queues.iter().find(|queue| **queue >= rx_queues) {
        Some(queue) => Err(wrong(format!("queue {queue} is not one of its {rx_queues}"))),
        None => Ok(()),
    }
}

/// Whether TCP and UDP ports over IPv4 are part of the hash.
pub(super) fn hashes_five_tuple(info: &sys::rte_eth_dev_info) -> bool {
    // SAFETY: gives a number.
    let needed = unsafe { sys::hnlb_rss_ports_v4() };
    info.flow_type_rss_offloads & needed == needed
}
