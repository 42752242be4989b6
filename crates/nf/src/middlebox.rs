//! The state machine: frames of ports and of functions in, frames for both out.
use std::collections::VecDeque;

use balance::{Balancer, Placement};
use packet::PacketBuf;

use crate::class::{Class, NoFlow, Policy};
use crate::counters::{Drop, FunctionCounters, PortCounters};
use crate::function::{Function, Health};
use crate::ledger::Entry;
use crate::settings::{AllDown, Settings, SettingsError, Stamp};
use crate::stamp;
use crate::streams::Stream;
use crate::tag::{Tag, Tagged};

/// Where frames leave.
pub trait Outbox<P> {
    /// A frame for the wire of a port.
    fn to_port(&mut self, port: u8, packet: P);
    /// A frame for a network function.
    fn to_function(&mut self, function: u16, packet: P);
}

/// A frame that waits for its bucket's move.
#[derive(Debug)]
struct Held<P> {
    packet: P,
    ingress: u8,
    stream: Stream,
    ipv4_at: Option<u16>,
}

/// The middlebox server of one thread.
#[derive(Debug)]
pub struct Middlebox<P> {
    settings: Settings,
    balancer: Balancer,
    functions: Vec<Function>,
    ports: Vec<PortCounters>,
    drops: [u64; Drop::ALL.len()],
    held: Vec<VecDeque<Held<P>>>,
    waiting: u64,
}

impl<P: PacketBuf> Middlebox<P> {
    /// A server whose functions are unplugged until [`Self::set_link`] says otherwise.
    ///
    /// # Errors
    /// [`SettingsError`] says what does not fit.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let (cpus, functions) = (settings.balance.cpus, settings.functions.len());
        if usize::from(cpus) != functions {
            return Err(SettingsError::Functions { cpus, functions });
        }
        let mut balancer = match &settings.map {
            Some(map) => Balancer::with_map(settings.balance, map)?,
            None => Balancer::new(settings.balance)?,
        };
        for cpu in 0..cpus {
            balancer.fail(cpu, 0);
        }
        Ok(Self {
            balancer,
            functions: settings.functions.iter().map(|tagging| Function::new(*tagging)).collect(),
            ports: vec![PortCounters::default(); settings.streams.ports()],
            drops: [0; Drop::ALL.len()],
            held: (0..settings.balance.buckets).map(|_| VecDeque::new()).collect(),
            waiting: 0,
            settings,
        })
    }

    /// A frame has come in by port `ingress`.
    pub fn from_port(&mut self, ingress: u8, packet: P, now_ns: u64, out: &mut impl Outbox<P>) {
        let Some(stream) = self.settings.streams.of(ingress) else {
            return self.drop(Drop::NoPort);
        };
        if let Some(port) = self.ports.get_mut(usize::from(ingress)) {
            port.in_packets += 1;
            port.in_bytes += packet.bytes().len() as u64;
        }
        let class = Class::of(packet.bytes(), self.settings.hash);
        match (self.policy(class), class.hash) {
            (Ok(Policy::Balance), Some(hash)) => {
                let bucket = (hash % u32::from(self.settings.balance.buckets)) as u16;
                let held = Held { packet, ingress, stream, ipv4_at: class.ipv4_at };
                self.place(bucket, held, now_ns, out);
                self.release(now_ns, out);
            }
            (Ok(_), _) => self.pass(ingress, stream, packet, out),
            (Err(name), _) => self.drop(name),
        }
    }

    /// A frame has come back from a function.
    pub fn from_function(
        &mut self,
        number: u16,
        mut packet: P,
        now_ns: u64,
        out: &mut impl Outbox<P>,
    ) {
        let Some(function) = self.functions.get_mut(usize::from(number)) else {
            return self.drop(Drop::NoFunction);
        };
        function.counters.from_packets += 1;
        let Some(tagged) = function.tagging.take(&mut packet) else {
            function.counters.from_bytes += packet.bytes().len() as u64;
            return self.drop(Drop::Unmarked);
        };
        function.counters.from_bytes += packet.bytes().len() as u64;
        let (Tagged::Onward(tag) | Tagged::Back(tag)) = tagged;
        let Some(entry) = function.ledger.find(tag) else { return self.drop(Drop::Foreign) };
        let first = !std::mem::replace(&mut entry.returned, true);
        let entry = *entry;
        function.tagging.restore(&mut packet, tagged, entry.source);
        let away_ns = away(&entry, &mut packet, now_ns, first);
        if first {
            function.returns(entry.sequence, now_ns);
        } else {
            function.counters.copies += 1;
        }
        let egress = match tagged {
            Tagged::Onward(_) => entry.egress,
            Tagged::Back(_) => {
                function.counters.answers += 1;
                entry.ingress
            }
        };
        if function.health != Health::Up {
            // It was slow, not dead.
            function.health = Health::Up;
            self.balancer.revive(number, now_ns);
        }
        self.send(egress, packet, out);
        if first {
            self.balancer.returned(entry.bucket, number, entry.sequence, away_ns, now_ns);
            self.release(now_ns, out);
        }
    }

    /// Lets time pass: for functions that return nothing, those that are tried again, and
    /// frames that wait. To be called at least every millisecond.
    pub fn advance(&mut self, now_ns: u64, out: &mut impl Outbox<P>) {
        for number in 0..self.functions.len() {
            if self.functions.get_mut(number).is_some_and(|one| one.tries_again(now_ns)) {
                self.balancer.revive(number as u16, now_ns);
            }
            let function = self.functions.get(number).filter(|one| one.health == Health::Up);
            if let Some(why) = function.and_then(|one| one.failing(self.settings.silence, now_ns)) {
                self.fail(number as u16, why, now_ns);
            }
        }
        self.balancer.advance(now_ns);
        self.release(now_ns, out);
    }

    /// The link of a function's attachment is up or down.
    pub fn set_link(&mut self, number: u16, up: bool, now_ns: u64, out: &mut impl Outbox<P>) {
        let Some(function) = self.functions.get_mut(usize::from(number)) else { return };
        match (up, function.health) {
            (true, Health::Unplugged) => {
                function.attaches();
                self.balancer.revive(number, now_ns);
            }
            (false, health) if health != Health::Unplugged => {
                self.fail(number, Health::Unplugged, now_ns);
            }
            _ => {}
        }
        self.release(now_ns, out);
    }

    /// Busy shares of the functions in 1000ths, for algorithms that look at them.
    pub fn report_busy(&mut self, busy: &[u16]) {
        self.balancer.report_busy(busy);
    }

    /// A function has returned frames that its attachment can't read.
    pub fn garbled_by_function(&mut self, number: u16, frames: u64) {
        if let Some(function) = self.functions.get_mut(usize::from(number)) {
            function.counters.from_packets += frames;
            self.drops[Drop::Garbled as usize] += frames;
        }
    }

    /// A function's queue had no room for a frame that was sent to it.
    pub fn refused_by_function(&mut self, number: u16, packet: &P, now_ns: u64) {
        let Some(function) = self.functions.get_mut(usize::from(number)) else { return };
        let tag = if function.tagging == crate::Tagging::Vlan { 8 } else { 0 };
        let bytes = packet.bytes().len().saturating_sub(tag) as u64;
        function.refuses(bytes, now_ns);
        self.drop(Drop::FunctionQueueFull);
    }

    /// A function's queue has taken all frames that were sent to it.
    pub fn taken_by_function(&mut self, number: u16) {
        if let Some(function) = self.functions.get_mut(usize::from(number)) {
            function.takes();
        }
    }

    /// A port's send queue had no room for a frame.
    pub fn refused_by_port(&mut self, port: u8, packet: &P) {
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.out_packets = port.out_packets.saturating_sub(1);
            port.out_bytes = port.out_bytes.saturating_sub(packet.bytes().len() as u64);
        }
        self.drop(Drop::PortQueueFull);
    }

    /// The function of each bucket.
    #[must_use]
    pub fn map(&self) -> &[u16] {
        self.balancer.map()
    }

    /// Buckets that have moved, and moves that were given up.
    #[must_use]
    pub const fn moves(&self) -> (u64, u64) {
        (self.balancer.moved(), self.balancer.abandoned())
    }

    /// Frames that wait for their buckets' moves.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.waiting
    }

    /// The counters of a port.
    #[must_use]
    pub fn port(&self, port: u8) -> Option<&PortCounters> {
        self.ports.get(usize::from(port))
    }

    /// State and counters of a function.
    #[must_use]
    pub fn function(&self, number: u16) -> Option<(Health, &FunctionCounters)> {
        let function = self.functions.get(usize::from(number))?;
        Some((function.health, &function.counters))
    }

    /// The average stay of each bucket's frames with its function, in nanoseconds.
    pub fn latencies(&self) -> impl Iterator<Item = u32> + '_ {
        self.balancer.latencies()
    }

    /// Frames that were dropped for a reason.
    #[must_use]
    pub const fn dropped(&self, name: Drop) -> u64 {
        self.drops[name as usize]
    }

    /// What is done with a frame, or why it is dropped.
    fn policy(&self, class: Class) -> Result<Policy, Drop> {
        let traffic = &self.settings.traffic;
        if class.tagged {
            match traffic.tagged {
                Policy::Balance => {}
                Policy::Pass => return Ok(Policy::Pass),
                Policy::Drop => return Err(Drop::Tagged),
            }
        }
        let (policy, name) = match class.no_flow {
            None => return Ok(Policy::Balance),
            Some(NoFlow::NotIp) => (traffic.not_ip, Drop::NotIp),
            Some(NoFlow::Malformed) => (traffic.malformed, Drop::Malformed),
            Some(NoFlow::Fragment) => (traffic.fragments, Drop::Fragment),
            Some(NoFlow::Protocol) => (traffic.protocols, Drop::Protocol),
        };
        if policy == Policy::Drop { Err(name) } else { Ok(policy) }
    }

    /// Sends a frame to its bucket's function, or keeps it.
    fn place(&mut self, bucket: u16, frame: Held<P>, now_ns: u64, out: &mut impl Outbox<P>) {
        if self.functions.iter().all(|function| function.health != Health::Up) {
            return match self.settings.all_down {
                AllDown::Drop => self.drop(Drop::AllDown),
                AllDown::Pass => self.pass(frame.ingress, frame.stream, frame.packet, out),
            };
        }
        let Some(held) = self.held.get_mut(usize::from(bucket)) else { return };
        match self.balancer.to_cpu(bucket, now_ns) {
            Some(Placement::Hold) => {
                held.push_back(frame);
                self.waiting += 1;
            }
            Some(Placement::Send { cpu, sequence }) => {
                self.give(cpu, sequence, bucket, frame, now_ns, out);
            }
            None => {}
        }
    }

    /// Tags a frame, remembers it and sends it to a function.
    fn give(
        &mut self,
        cpu: u16,
        sequence: u64,
        bucket: u16,
        frame: Held<P>,
        now_ns: u64,
        out: &mut impl Outbox<P>,
    ) {
        let Held { mut packet, ingress, stream, ipv4_at } = frame;
        let Some(function) = self.functions.get_mut(usize::from(cpu)) else { return };
        let bytes = packet.bytes().len() as u64;
        let identification = match (self.settings.stamp, ipv4_at) {
            (Stamp::Identification, Some(at)) => {
                stamp::exchange(packet.bytes_mut(), at, stamp::at(now_ns)).map(|old| (old, at))
            }
            _ => None,
        };
        let Stream { egress, direction } = stream;
        let tag = Tag { direction, egress, bucket, sequence: sequence as u16 };
        let Some(source) = function.tagging.put(&mut packet, tag) else {
            return self.drop(Drop::NoHeadroom);
        };
        function.ledger.enter(Entry {
            sequence,
            sent_ns: now_ns,
            source,
            bucket,
            identification,
            direction,
            ingress,
            egress,
            returned: false,
        });
        function.sends(sequence, bytes, now_ns);
        out.to_function(cpu, packet);
    }

    /// Sends on what no longer waits.
    fn release(&mut self, now_ns: u64, out: &mut impl Outbox<P>) {
        while let Some(release) = self.balancer.release() {
            let Some(held) = self.held.get_mut(usize::from(release.bucket)) else { continue };
            for frame in std::mem::take(held) {
                self.waiting = self.waiting.saturating_sub(1);
                self.place(release.bucket, frame, now_ns, out);
            }
        }
    }

    fn pass(&mut self, ingress: u8, stream: Stream, packet: P, out: &mut impl Outbox<P>) {
        if let Some(port) = self.ports.get_mut(usize::from(ingress)) {
            port.passed += 1;
        }
        self.send(stream.egress, packet, out);
    }

    fn send(&mut self, egress: u8, packet: P, out: &mut impl Outbox<P>) {
        if let Some(port) = self.ports.get_mut(usize::from(egress)) {
            port.out_packets += 1;
            port.out_bytes += packet.bytes().len() as u64;
        }
        out.to_port(egress, packet);
    }

    fn fail(&mut self, number: u16, why: Health, now_ns: u64) {
        if let Some(function) = self.functions.get_mut(usize::from(number)) {
            function.fail(why, now_ns);
        }
        self.balancer.fail(number, now_ns);
    }

    const fn drop(&mut self, name: Drop) {
        self.drops[name as usize] += 1;
    }
}

/// The nanoseconds that a frame was away; puts its identification back. A function may
/// have written another, which then stays: only a stamp is replaced.
fn away<P: PacketBuf>(entry: &Entry, packet: &mut P, now_ns: u64, first: bool) -> u64 {
    let side = now_ns.saturating_sub(entry.sent_ns);
    let Some((old, at)) = entry.identification else { return side };
    let stamped = stamp::read(packet.bytes(), at);
    if stamped != Some(stamp::at(entry.sent_ns)) {
        return side;
    }
    stamp::exchange(packet.bytes_mut(), at, old);
    if first { stamp::since(stamp::at(entry.sent_ns), now_ns) } else { side }
}
