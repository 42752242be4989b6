//! A device of DPDK as a card that is tried out, with another that sends it packets.
use config::{Config, Workers};
use dpdk::flow::FlowPort;
use dpdk::{Batch, Eal, Mbuf, Mempool, Redirection, RxQueue, TxQueue};
use packet::PacketBuf;
use prober::{Card, Facts, Fate, Passed, is_trial_frame};
use wire::Mac;

use crate::clock;
use crate::device::{self, Device};
use crate::device_lock::{self, DeviceLock};
use crate::encoding;
use crate::error::StartError;
use crate::load_balancer::eal_config;
use crate::memory::Needs;
use crate::no_flows::NoFlows;
use crate::patience::PATIENCE;

/// Packets received at once.
const BURST: usize = 32;
/// Bursts of a queue that are dropped before a trial, at most.
const DRAINED: usize = 1024;
/// A frame that does not come back within so long is lost, in nanoseconds.
const LOST_NS: u64 = 50_000_000;
/// Seed of the hash of a match table in the kernel: nobody sends to it.
const SEED: u64 = 0;
/// To whom frames are sent without a peer.
const NOBODY: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// A device that no load balancer uses, opened to be tried out.
///
/// The fields are dropped in their order: queues before ports, ports before EAL.
pub struct TrialCard {
    facts: Facts,
    own: Vec<RxQueue>,
    peer: Option<Peer>,
    redirection: Option<Redirection>,
    flows: Box<dyn FlowPort + Send>,
    _devices: Vec<Device>,
    pool: Mempool,
    _eal: Eal,
    _locks: Vec<DeviceLock>,
}

/// The device at the other end of the cable.
struct Peer {
    rx: Vec<RxQueue>,
    tx: TxQueue,
}

impl TrialCard {
    /// Opens `device` with `queues` receive queues, or as many as it has, and the device
    /// `peer`, which sends packets to it. DPDK starts once per process.
    ///
    /// # Errors
    /// What could not be had; see [`StartError`].
    pub fn open(device: &str, peer: Option<&str>, queues: u16) -> Result<Self, StartError> {
        let config = configuration(device, peer, queues);
        let locks = device_lock::lock_all(&config, PATIENCE)?;
        device::check_mtus(&config)?;
        let eal = Eal::init(&eal_config(&config))?;
        let pool = Needs::of(&config).pool(&config, eal.memory())?;
        let mut devices = device::open_all(&config, &pool, SEED)?;
        let outputs = encoding::outputs(&config, &devices, 0);
        let mut opened = devices.iter_mut();
        let (Some(tried), other) = (opened.next(), opened.next()) else {
            return Err(StartError::NoQueues { name: device.to_owned() });
        };
        let peer_mac = other.as_ref().map_or(NOBODY, |other| other.mac);
        let facts = facts(device, tried, peer.is_some(), (peer_mac, outputs))?;
        let own = take_queues(tried)?.0;
        let peer = other.map(take_queues).transpose()?.and_then(|(rx, mut tx)| {
            let tx = tx.pop()?;
            Some(Peer { rx, tx })
        });
        let redirection = tried.port.redirection().ok();
        let flows = tried.flows.take().unwrap_or_else(|| Box::new(NoFlows));
        Ok(Self {
            facts,
            own,
            peer,
            redirection,
            flows,
            _devices: devices,
            pool,
            _eal: eal,
            _locks: locks,
        })
    }

    /// Drops what comes from before, as far as it ends: a card that is in use goes on
    /// receiving.
    fn drain(&mut self) {
        let mut batch = Batch::<BURST>::new();
        let peers = self.peer.iter_mut().flat_map(|peer| &mut peer.rx);
        for queue in self.own.iter_mut().chain(peers) {
            for _ in 0..DRAINED {
                if queue.rx_burst(&mut batch) == 0 {
                    break;
                }
                batch.clear();
            }
        }
    }

    /// The outcome of the frame that was sent, once there is one.
    fn look(&mut self) -> Option<Fate> {
        let mut batch = Batch::<BURST>::new();
        for (number, queue) in (0..).zip(&mut self.own) {
            queue.rx_burst(&mut batch);
            if let Some(found) = find(&mut batch) {
                return Some(Fate::Received { queue: number, mark: found.mark() });
            }
        }
        for queue in self.peer.iter_mut().flat_map(|peer| &mut peer.rx) {
            queue.rx_burst(&mut batch);
            if let Some(found) = find(&mut batch) {
                return Some(Fate::Left(found.bytes().to_vec()));
            }
        }
        None
    }
}

/// The frame among others, which are dropped.
fn find(batch: &mut Batch<BURST>) -> Option<Mbuf> {
    let found = batch.drain().find(|mbuf| is_trial_frame(mbuf.bytes()));
    batch.clear();
    found
}

/// One port, and another if there is a peer, for one worker.
fn configuration(device: &str, peer: Option<&str>, queues: u16) -> Config {
    let port = |name: &str, device: &str| config::Port {
        name: name.to_owned(),
        device: device.to_owned(),
        mtu: 1500,
        rx_descriptors: 1024,
        tx_descriptors: 1024,
        nic: None,
    };
    let ports = std::iter::once(port("device", device)).chain(peer.map(|peer| port("peer", peer)));
    let workers = Workers { count: 1, queues, ..Workers::default() };
    Config { ports: ports.collect(), workers, ..Config::default() }
}

fn facts(
    device: &str,
    tried: &Device,
    has_peer: bool,
    (peer, outputs): (Mac, Vec<Option<u16>>),
) -> Result<Facts, StartError> {
    let failed = |source| StartError::Port { name: tried.name.clone(), source };
    let capabilities = tried.port.capabilities().map_err(failed)?;
    let queues = tried.queues;
    Ok(Facts {
        device: device.to_owned(),
        driver: capabilities.driver,
        queues,
        most_queues: capabilities.max_rx_queues.max(queues),
        redirection_entries: capabilities.reta_size,
        packets: has_peer.then(|| "sent by the peer; latency from there to the host".to_owned()),
        clock: "this machine's cycle counter".to_owned(),
        notes: tried.notes.clone(),
        mac: tried.mac,
        peer,
        outputs,
        lines: format!("device = \"{device}\"\n\n[workers]\nqueues = {queues}\n"),
    })
}

/// All queues of a device.
fn take_queues(device: &mut Device) -> Result<(Vec<RxQueue>, Vec<TxQueue>), StartError> {
    let (mut rx, mut tx) = (Vec::new(), Vec::new());
    for port in std::iter::once(&mut device.port).chain(&mut device.more) {
        let failed = |source| StartError::Port { name: device.name.clone(), source };
        let (received, sent) = port.queues().map_err(failed)?;
        rx.extend(received);
        tx.extend(sent);
    }
    Ok((rx, tx))
}

impl Card for TrialCard {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn flows(&mut self) -> &mut dyn FlowPort {
        &mut *self.flows
    }

    fn now_ns(&mut self) -> u64 {
        clock::nanoseconds()
    }

    fn pass(&mut self, frame: &[u8]) -> Option<Passed> {
        self.peer.as_ref()?;
        self.drain();
        let mut batch = Batch::<BURST>::new();
        batch.push(Mbuf::copy_from(&self.pool, frame)?).ok()?;
        let start = clock::nanoseconds();
        self.peer.as_mut()?.tx.tx_burst(&mut batch);
        loop {
            let found = self.look();
            let ns = clock::nanoseconds().saturating_sub(start);
            match found {
                Some(fate) => return Some(Passed { fate, ns }),
                None if ns > LOST_NS => return Some(Passed { fate: Fate::Lost, ns }),
                None => {}
            }
        }
    }

    fn redirect(&mut self, entries: &[(u16, u16)]) -> Result<(), String> {
        let table = self.redirection.as_ref().ok_or("the device has no redirection table")?;
        table.update(entries).map_err(|error| error.to_string())
    }

    fn redirection(&mut self) -> Result<Vec<u16>, String> {
        let table = self.redirection.as_ref().ok_or("the device has no redirection table")?;
        table.query().map_err(|error| error.to_string())
    }
}
