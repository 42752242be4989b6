//! Random changes of the configuration between packets, in every encoding and
//! in modes of every kind: a packet of a known connection goes to its backend,
//! whatever else changes; one of a connection that is to move goes to that
//! backend until it has moved, and then to others; one of a connection that is to be
//! reset goes to that backend until it has become a RST to each side; a new one goes
//! to a backend that the configuration in force has and that takes connections; what
//! is sent nowhere is counted under a name; and nothing that has left the
//! configuration is kept for ever.
//!
//! `HNLB_SEQUENCES` sequences (50) of changes for each of the cases;
//! `make soak-reload` runs a thousand. `HNLB_SEED` is where the seeds begin.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod model;

use std::net::{IpAddr, SocketAddr};

use control::Drained;
use flow::{CardProfile, Encoding, Mode, OnRemove, PortId};
use nic::Fault;
use packet::PacketBuf;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use replay::{Options, Sent, Simulation};
use state::CounterKind;
use testkit::segments::{Segment, frame, seen};
use wire::{TcpFlags, Transport};

use model::{Identity, Model, VIPS, backend, endpoint};

const OUTSIDE: PortId = PortId(0);
const INSIDE: PortId = PortId(1);

/// Changes of one sequence, and packets between two of them.
const CHANGES: u32 = 8;
const PACKETS: u32 = 60;

/// A connection as its ends see it.
#[derive(Debug)]
struct Connection {
    client: SocketAddr,
    vip: usize,
    place: Place,
    /// Where its backend sends answers: the client's address, or in mode
    /// `fullnat` the local endpoint.
    local: SocketAddr,
    /// Packets on their way: of the client, and of the backend.
    waiting: [u32; 2],
    /// RSTs that have come instead: to the backend, and to the client.
    resets: [u32; 2],
}

/// Where a connection's packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// To any backend that takes connections: it is new.
    New,
    /// To this backend of this service.
    At(Identity, u8),
    /// To its old backend until HNLB has dealt with it as the files since its
    /// backend's removal have said: if it `moves`, to any backend that takes
    /// connections; if it `resets`, to nobody, and both sides get a RST.
    Leaving { of: Identity, host: u8, moves: bool, resets: bool },
    /// To any backend that takes connections: a TCP packet of a forgotten
    /// connection enters nothing in the table where answers pass, too.
    Loose,
}

impl Place {
    const fn host(&self) -> Option<u8> {
        match self {
            Self::At(_, host) => Some(*host),
            Self::New | Self::Leaving { .. } | Self::Loose => None,
        }
    }
}

struct World {
    mode: Mode,
    model: Model,
    simulation: Simulation,
    rng: StdRng,
    connections: Vec<Connection>,
    now_us: u64,
    kept_ms: u64,
    /// Packets sent nowhere.
    dropped: u64,
    /// Connections that were to move.
    moved: u64,
    /// Packets that became RSTs.
    reset: u64,
}

fn number(name: &str, otherwise: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("{name}: {value}")))
}

impl World {
    fn new(mode: Mode, (encoding, nic): (Encoding, Option<CardProfile>), seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let model = Model::new(mode, &mut rng);
        let options = Options { nic, encoding, ..Options::default() };
        let simulation = Simulation::new(&model.config(), &options).unwrap();
        Self {
            mode,
            model,
            simulation,
            rng,
            connections: Vec::new(),
            now_us: 0,
            kept_ms: 0,
            dropped: 0,
            moved: 0,
            reset: 0,
        }
    }

    const fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    /// The configuration changes, or a backend is drained or serves again.
    fn change(&mut self) {
        if self.rng.random_ratio(1, 6) {
            return self.steer();
        }
        for _ in 0..self.rng.random_range(1..4) {
            self.model.change(&mut self.rng);
        }
        let done = self.simulation.reload(&self.model.config(), self.now_us / 1000);
        done.unwrap_or_else(|refusal| panic!("{refusal}"));
        self.model.in_force();
        for own in &mut self.connections {
            let (of, host, moved, reset) = match &own.place {
                Place::At(of, host) => (of.clone(), *host, false, false),
                Place::Leaving { of, host, moves, resets } => (of.clone(), *host, *moves, *resets),
                Place::New | Place::Loose => continue,
            };
            let is_tcp = endpoint(own.vip).1 == Transport::Tcp;
            let (moves, resets) = match self.model.leaves(&of, host) {
                None | Some(OnRemove::Keep) => continue,
                Some(OnRemove::Reset) if is_tcp => (moved, true),
                Some(OnRemove::Move | OnRemove::Reset) => (true, reset),
            };
            self.moved += u64::from(!moved && moves);
            own.place = Place::Leaving { of, host, moves, resets };
        }
    }

    fn steer(&mut self) {
        let services = self.model.services.iter();
        let all = services
            .flat_map(|own| own.backends.iter().map(move |(host, weight)| (own, host, weight)));
        let takes = all.filter(|(_, _, weight)| **weight > 0);
        let Some((service, host, _)) = takes.choose(&mut self.rng) else { return };
        let one = (service.name.clone(), backend(service.vip, *host));
        let drained = Drained { service: one.0.clone(), backend: one.1 };
        let drain = !self.model.drained.remove(&one);
        if drain {
            self.model.drained.insert(one);
        }
        self.simulation.steer(&drained, drain).unwrap();
    }

    /// One packet, of a new connection or a known one.
    fn packet(&mut self) {
        if self.rng.random_ratio(1, 10) || self.connections.is_empty() {
            let vip = self.rng.random_range(0..VIPS);
            let ip: IpAddr =
                if vip % 2 == 1 { "2001:db8::5" } else { "198.51.100.5" }.parse().unwrap();
            let client = SocketAddr::new(ip, 1024 + self.connections.len() as u16);
            let (place, local, waiting, resets) = (Place::New, client, [0; 2], [0; 2]);
            self.connections.push(Connection { client, vip, place, local, waiting, resets });
        }
        let id = self.rng.random_range(0..self.connections.len());
        let own = &mut self.connections[id];
        let (vip, proto) = endpoint(own.vip);
        // The number stands at the end, also of what is in a tunnel.
        let mut payload = [0; 30];
        payload[26..].copy_from_slice(&(id as u32).to_be_bytes());
        let answers = !self.mode.is_one_way() && self.rng.random_bool(0.4);
        let answer = own.place.host().filter(|_| answers);
        let (port, src, dst, segment) = match answer {
            Some(host) => {
                let server = SocketAddr::new(backend(own.vip, host), 8080);
                (INSIDE, server, own.local, Segment::Ack)
            }
            None if own.place == Place::New => (OUTSIDE, own.client, vip, Segment::Syn),
            None => (OUTSIDE, own.client, vip, Segment::Ack),
        };
        own.waiting[usize::from(answer.is_some())] += 1;
        let bytes = frame(proto, src, dst, segment, &payload);
        assert!(self.simulation.arrive(port, &bytes, self.now_us * 1000));
    }

    /// The backend that a frame goes to, by the mode's own way.
    fn host(&self, sent: &Sent) -> u8 {
        let bytes = sent.packet.bytes();
        match self.mode {
            Mode::Dsr => bytes[5],
            Mode::Nat | Mode::FullNat => last(seen(bytes).unwrap().dst.ip()),
            _ => {
                let headers = wire::Headers::parse(bytes).unwrap();
                last(headers.dst_addr(bytes).unwrap())
            }
        }
    }

    /// The workers poll; all that waited must have gone where it belongs.
    fn receive(&mut self) {
        self.simulation.poll(self.now_ms());
        for sent in self.simulation.take_sent() {
            let bytes = sent.packet.bytes();
            if self.mode != Mode::Ipip && is_reset(bytes) {
                self.note_reset(&sent);
                continue;
            }
            let id = u32::from_be_bytes(bytes[bytes.len() - 4..].try_into().unwrap());
            let own = &self.connections[id as usize];
            let answer = sent.port == OUTSIDE;
            if answer {
                let seen = seen(bytes).unwrap();
                assert_eq!((seen.src, seen.dst), (endpoint(own.vip).0, own.client), "{own:?}");
            } else {
                let host = self.host(&sent);
                let place = self.place_of(own, host);
                let local = match self.mode {
                    Mode::FullNat => seen(bytes).unwrap().src,
                    _ => own.client,
                };
                let own = &mut self.connections[id as usize];
                (own.place, own.local) = (place, local);
            }
            let own = &mut self.connections[id as usize];
            let waiting = &mut own.waiting[usize::from(answer)];
            *waiting = waiting.checked_sub(1).unwrap_or_else(|| panic!("twice: connection {id}"));
        }
        for (id, own) in self.connections.iter_mut().enumerate() {
            // Each packet that becomes a RST to its receiver brings one to its sender.
            let [there, back] = std::mem::take(&mut own.resets);
            assert_eq!(there, back, "RSTs of connection {id}: {own:?}");
            let lost = own.waiting.iter().sum::<u32>() - there;
            self.reset += u64::from(there);
            let served = own.place.host().is_some() || !self.model.eligible(own.vip).is_empty();
            assert!(lost == 0 || !served, "{lost} packets of connection {id} are lost: {own:?}");
            self.dropped += u64::from(lost);
            own.waiting = [0; 2];
        }
        self.check_books();
    }

    /// A RST goes to a side of a connection that is to be reset.
    fn note_reset(&mut self, sent: &Sent) {
        let seen = seen(sent.packet.bytes()).unwrap();
        let back = sent.port == OUTSIDE;
        let host = (!back).then(|| self.host(sent));
        let mut all = self.connections.iter_mut();
        let own = all.find(|own| match host {
            None => (seen.src, seen.dst) == (endpoint(own.vip).0, own.client),
            Some(to) => {
                let is_own = seen.src == own.local;
                is_own && matches!(own.place, Place::Leaving { host, .. } if host == to)
            }
        });
        let own = own.unwrap_or_else(|| panic!("a RST of no connection: {seen:?}"));
        assert!(matches!(own.place, Place::Leaving { resets: true, .. }), "{own:?}");
        own.resets[usize::from(back)] += 1;
    }

    /// Where `own` is after a packet of its client went to `host`.
    fn place_of(&self, own: &Connection, host: u8) -> Place {
        let eligible = self.model.eligible(own.vip);
        let is_new = match own.place {
            Place::At(_, known) => {
                assert_eq!(host, known, "{own:?}");
                false
            }
            Place::Leaving { host: old, .. } if host == old => false,
            Place::Leaving { moves, .. } => {
                assert!(moves, "{host}: {own:?}");
                true
            }
            Place::New | Place::Loose => true,
        };
        if !is_new {
            return own.place.clone();
        }
        assert!(eligible.contains(&host), "{host} of {eligible:?}: {own:?}");
        let (_, proto) = endpoint(own.vip);
        if own.place == Place::New || proto == Transport::Udp || self.mode.is_one_way() {
            Place::At(self.model.identity(own.vip).unwrap(), host)
        } else {
            Place::Loose
        }
    }

    /// Every packet has its counter, and those that went nowhere a named one.
    fn check_books(&self) {
        let mut dropped = 0;
        for counters in self.simulation.worker_counters() {
            let (came, went) = counters.balance();
            assert_eq!(came, went, "{counters:?}");
            dropped += counters.total(CounterKind::Dropped);
        }
        assert_eq!(dropped, self.dropped, "{:?}", self.simulation.counters());
    }

    fn pass_time(&mut self) {
        self.now_us += self.rng.random_range(0..900);
        if self.now_ms() != self.kept_ms {
            self.kept_ms = self.now_ms();
            self.simulation.keep(self.kept_ms);
        }
    }

    /// Another fault of the cards, or none.
    fn disturb(&mut self) {
        let (seed, per_mille) = (self.rng.random(), self.rng.random_range(0..300));
        let fault = match self.rng.random_range(0..5) {
            0 => Some(Fault::RefuseShare { per_mille, seed }),
            1 => Some(Fault::LateCreate { ns: 9_000_000 }),
            2 => Some(Fault::LateDestroy { ns: 7_000_000 }),
            3 => Some(Fault::SilentLoss { per_mille, seed }),
            _ => None,
        };
        for nic in [OUTSIDE, INSIDE].iter().filter_map(|port| self.simulation.nic(*port)) {
            nic.clear_faults();
            fault.into_iter().for_each(|fault| nic.order_fault(fault));
        }
    }

    fn run(&mut self) {
        for _ in 0..CHANGES {
            for _ in 0..PACKETS {
                self.packet();
                if self.rng.random_ratio(1, 3) {
                    self.receive();
                }
                self.pass_time();
            }
            self.disturb();
            // Some packets still wait, and are served by what comes now.
            self.change();
        }
        self.receive();
    }

    /// Nothing comes any more: everything goes, also what had left the
    /// configuration.
    fn fall_silent(&mut self) {
        for nic in [OUTSIDE, INSIDE].iter().filter_map(|port| self.simulation.nic(*port)) {
            nic.clear_faults();
        }
        for _ in 0..600 {
            self.now_us += 500_000;
            self.simulation.keep(self.now_us / 1000);
            self.simulation.poll(self.now_us / 1000);
            if self.is_empty() {
                return;
            }
        }
        let snapshot = self.simulation.shared().snapshot();
        panic!(
            "left: {} connections, {:?}, {:?}, {} old snapshots",
            self.simulation.shared().table().len(),
            snapshot.services.departed(),
            self.simulation.offload_stats().now(),
            self.simulation.control().old_snapshots(),
        );
    }

    fn is_empty(&self) -> bool {
        let shared = self.simulation.shared();
        let snapshot = shared.snapshot();
        let (services, now) = (&snapshot.services, self.simulation.offload_stats().now());
        shared.table().len() == 0
            && services.departed().is_empty()
            && services.departed_services().is_empty()
            && self.simulation.control().old_snapshots() == 0
            && (now.rules, now.pending, now.settling) == (now.adopted, 0, 0)
    }
}

fn is_reset(bytes: &[u8]) -> bool {
    wire::Headers::parse(bytes).is_ok_and(|headers| headers.tcp_flags.any(TcpFlags::RST))
}

fn last(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(v4) => v4.octets()[3],
        IpAddr::V6(v6) => v6.octets()[15],
    }
}

/// Of one mode, all encodings.
fn check(mode: Mode) {
    use CardProfile::{BlueField3, ConnectX, E810, X550};
    let cards = [
        (Encoding::Off, None),
        (Encoding::Mark, Some(X550)),
        (Encoding::Mark, Some(E810)),
        (Encoding::Queue, Some(X550)),
        (Encoding::Queue, Some(E810)),
        (Encoding::Queue, Some(BlueField3)),
        (Encoding::Rewrite, Some(ConnectX)),
    ];
    for card in cards {
        let (mut told, mut moved, mut reset) = (0, 0, 0);
        let (first, sequences) = (number("HNLB_SEED", 1), number("HNLB_SEQUENCES", 50));
        for seed in first..first + sequences {
            // What fails says which case it was.
            let case = format!("{mode}, {card:?}, seed {seed}");
            let failed = std::panic::catch_unwind(|| {
                let mut world = World::new(mode, card, seed);
                world.run();
                world.fall_silent();
                let counters = world.simulation.counters();
                let nics = [OUTSIDE, INSIDE].iter().filter_map(|port| world.simulation.nic(*port));
                let by_card: u64 = nics.map(|nic| nic.stats().forwarded).sum();
                let told = counters["matched_by_mark"] + counters["matched_by_queue"] + by_card;
                (told, world.moved, world.reset)
            });
            let (by_card, away, ended) = failed.unwrap_or_else(|_| panic!("{case}"));
            (told, moved, reset) = (told + by_card, moved + away, reset + ended);
        }
        println!(
            "{mode}, {card:?}: {told} packets by mark, queue or card; {moved} connections moved; \
             {reset} packets became RSTs"
        );
        assert!(moved > 0, "{mode}, {card:?}: no connection moved");
        assert_eq!(reset > 0, mode != Mode::Ipip, "{mode}, {card:?}: {reset} packets");
        let enough = told > 40 * sequences;
        // A queue can't name a connection's local endpoint.
        let tells = card.1.is_some() && (mode, card.0) != (Mode::FullNat, Encoding::Queue);
        assert_eq!(enough, tells, "{mode}, {card:?}: {told} told by the card");
    }
}

#[test]
fn nat() {
    check(Mode::Nat);
}

#[test]
fn fullnat() {
    check(Mode::FullNat);
}

#[test]
fn dsr() {
    check(Mode::Dsr);
}

#[test]
fn ipip() {
    check(Mode::Ipip);
}
