//! Services of requests: their packets go to the L7 agent, which answers clients, reads
//! their requests, and joins their connections with those to backends.
//!
//! Next: out, or a drop.
use std::net::{IpAddr, SocketAddr};

use conntrack::Key;
use flow::{AdmissionPolicy, ServiceId, Transport};
use packet::PacketBuf;
use splice::{Agent, Ends, Fate, Passing, Usage};
use state::{Counter, Loans, Snapshot};
use wire::FlowKey;

use crate::Outbox;
use crate::context::{Context, Packet};
use crate::pipeline::{Settings, Stages};
use crate::sample::Sample;
use crate::slow::stateless::is_misplaced;
use crate::slow::surroundings::Surroundings;
use crate::source::is_client;
use crate::verdict::{Family, Verdict};

/// Requests of one worker whose responses are still to come and that are logged then.
const RECORDS: usize = 2048;

/// One worker's agent.
pub(crate) struct Spliced {
    /// Made with the first service of requests. It stays when that service leaves the
    /// configuration, since connections may last.
    agent: Option<Box<Agent>>,
    seed: u64,
    sample: Sample,
    /// This worker's number, and how many there are.
    share: (usize, usize),
}

/// Which side of a spliced connection has sent a packet.
#[derive(Clone, Copy)]
pub(crate) enum Sender {
    Client(ServiceId),
    Backend,
}

impl Spliced {
    /// For the worker with the number and among so many as `share` says.
    pub(crate) fn new(
        (snapshot, loans): (&Snapshot, &Loans),
        settings: Settings,
        share: (usize, usize),
    ) -> Self {
        let Settings { seed, log_sample, .. } = settings;
        let sample = Sample::new(log_sample);
        let mut spliced = Self { agent: None, seed, sample, share };
        spliced.follow(snapshot, loans);
        spliced
    }

    /// The verdict on a packet that may be of the agent's.
    #[inline(always)]
    pub(crate) fn verdict<const K: usize, O>(
        &self,
        cx: &Context<'_, O>,
        key: &Key<K>,
    ) -> Option<Verdict>
    where
        Agent: Passing<K>,
        FlowKey: for<'a> From<&'a Key<K>>,
    {
        let Key { addresses, ports, proto } = *key;
        let agent = self.agent.as_deref().filter(|_| proto == Transport::Tcp)?;
        match agent.find(&Ends { addresses, ports }) {
            Some(place) => {
                let family = if K == 1 { Family::V4 } else { Family::V6 };
                Some(Verdict::Passes(place, family))
            }
            None if self.share.1 == 1 => None,
            None => Some(Verdict::Handed(self.owner(cx, &FlowKey::from(key))? as u16)),
        }
    }

    /// The other worker that has the connection of a packet with `key`, if it is one of an
    /// agent's. Both directions of a connection have the client in common.
    pub(crate) fn owner<O>(&self, cx: &Context<'_, O>, key: &FlowKey) -> Option<usize> {
        let (own, workers) = self.share;
        if workers == 1 || cx.handed || self.agent.is_none() || key.proto() != Transport::Tcp {
            return None;
        }
        let client = match cx.snapshot.services.lookup(key) {
            Some(service) if service.is_spliced() => key.src(),
            Some(_) => return None,
            None => key.dst(),
        };
        Some(worker_of(client, workers)).filter(|worker| *worker != own)
    }

    /// The agent, if there is one.
    pub(crate) fn agent(&self) -> Option<&Agent> {
        self.agent.as_deref()
    }

    /// As [`Self::agent`], to give it a packet.
    pub(crate) fn agent_mut(&mut self) -> Option<&mut Agent> {
        self.agent.as_deref_mut()
    }

    /// Takes up a new configuration. The agent's memory is taken here, once, and not for
    /// packets.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot, loans: &Loans) {
        let wanted = snapshot.services.services().iter().any(service::Service::is_spliced);
        if wanted && self.agent.is_none() {
            let secret = [self.seed, self.seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15];
            let records = if self.sample == Sample::new(0) { 0 } else { RECORDS };
            let settings = splice::Settings { secret, records, ..splice::Settings::default() };
            self.agent = Some(Box::new(Agent::new(settings)));
            if snapshot.admit != AdmissionPolicy::Off {
                loans.prepare();
            }
        }
    }
}

impl<B: PacketBuf> Stages<B> {
    /// Who has sent a packet with `key` that is for the agent; `None`: it isn't.
    #[inline]
    pub(crate) fn spliced<O>(&self, cx: &Context<'_, O>, key: &FlowKey) -> Option<Sender> {
        let agent = self.spliced.agent.as_ref()?;
        if key.proto() != Transport::Tcp {
            return None;
        }
        match cx.snapshot.services.lookup(key) {
            Some(service) => service.is_spliced().then(|| Sender::Client(service.id())),
            None => agent.expects(key).then_some(Sender::Backend),
        }
    }

    /// Gives a packet to the agent.
    pub(crate) fn splice<O: Outbox<B>>(
        &mut self,
        cx: &mut Context<'_, O>,
        packet: Packet<B>,
        key: &FlowKey,
    ) {
        let Some(sender) = self.spliced(cx, key) else { return cx.count(Counter::HttpUnknown) };
        if let Err(malformed) = packet.check() {
            return cx.count(malformed.into());
        }
        if packet.headers.ttl <= 1 {
            return self.act(cx, packet, Err(Counter::TtlExpired));
        }
        let source = key.src().ip();
        match sender {
            Sender::Client(_) if !is_client(cx, source) => return cx.count(Counter::BadSource),
            Sender::Backend if is_misplaced(cx, source, packet.interface) => {
                return cx.count(Counter::WrongSide);
            }
            _ => {}
        }
        let Self { spliced, scheduling, acting, .. } = self;
        let Spliced { agent: Some(agent), sample, .. } = spliced else {
            return cx.count(Counter::HttpUnknown);
        };
        let waiting = &mut acting.waiting;
        let (Packet { buf, headers, interface }, now_ms) = (packet, cx.now_ms);
        let mut surroundings = Surroundings { cx, scheduling, waiting, sample, interface };
        let fate = match sender {
            Sender::Client(service) => {
                agent.from_client(buf, &headers, service, now_ms, &mut surroundings)
            }
            Sender::Backend => agent.from_backend(buf, &headers, now_ms, &mut surroundings),
        };
        match fate {
            // Counted where it left.
            Fate::Relayed => {}
            Fate::Taken => cx.count(Counter::HttpTaken),
            Fate::Unknown => cx.count(Counter::HttpUnknown),
            Fate::Malformed => cx.count(Counter::HttpMalformed),
        }
    }

    /// The agent, and what it needs where no packet has come in.
    pub(crate) fn surrounded<'a, 'b, O>(
        &'a mut self,
        cx: &'a mut Context<'b, O>,
    ) -> Option<(&'a mut Agent, Surroundings<'a, 'b, B, O>)> {
        let Self { spliced, scheduling, acting, .. } = self;
        let Spliced { agent: Some(agent), sample, .. } = spliced else { return None };
        let (waiting, interface) = (&mut acting.waiting, flow::InterfaceId(0));
        Some((agent, Surroundings { cx, scheduling, waiting, sample, interface }))
    }

    /// What the agent does without packets.
    pub(crate) fn tick_spliced<O: Outbox<B>>(&mut self, cx: &mut Context<'_, O>) {
        let Some((agent, mut surroundings)) = self.surrounded(cx) else { return };
        agent.tick(surroundings.cx.now_ms, &mut surroundings);
        let Usage { connections, half_open, idle, headers, short_headers, bytes } = agent.usage();
        for (level, value) in [
            (Counter::HttpOpen, connections),
            (Counter::HttpHalfOpen, half_open),
            (Counter::HttpIdle, idle),
            (Counter::HttpHeadersHeld, headers),
            (Counter::HttpShortHeadersHeld, short_headers),
            (Counter::HttpBytes, bytes),
        ] {
            cx.counters.set(level, value as u64);
        }
    }
}

/// The worker among so many that has the connections of a client's port.
fn worker_of(client: SocketAddr, workers: usize) -> usize {
    let address = match client.ip() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    // The upper half of the product is the better one.
    let port = u64::from(client.port()).rotate_right(16);
    let mixed = (address ^ port).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * workers as u64) >> 32) as usize
}
