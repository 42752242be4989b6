//! Records of established connections at a fixed rate on one core, while
//! handshakes arrive: at the same core, or at another, which hands the keys over.
//!
//! A handshake is the server's answer to a ClientHello: key agreement, signature
//! and key schedule, so all of its asymmetric work. The client's Finished, which
//! costs the server a hash, is left out, so that no client needs a core. Records
//! are due at equal distances whether the core keeps up or not: what waits behind
//! a handshake counts with its whole delay.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use rtrb::{Consumer, Producer, RingBuffer};
use rustls::{ServerConfig, ServerConnection};

use super::certificate::{Ends, KeyExchange, Signature};
use super::engine::{Cipher, Inline};
use super::options::{CryptoBenchError, Options};
use super::records::Times;
use super::row::{Row, What};

/// Text of a record: what a full Ethernet frame carries.
const BYTES: usize = 1400;
/// Established connections, each with a key of its own.
const CONNECTIONS: usize = 256;
/// The core's load by records, of what it can seal.
const LOAD: f64 = 0.5;
/// Records between two looks for handshakes.
const RECORDS: u64 = 32;
/// ClientHellos, used again and again: the server does not know them apart.
const HELLOS: usize = 64;

/// Where handshakes are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    SameCore,
    OtherCore,
}

impl Place {
    const ALL: [Self; 2] = [Self::SameCore, Self::OtherCore];

    const fn name(self) -> &'static str {
        match self {
            Self::SameCore => "same-core",
            Self::OtherCore => "other-core",
        }
    }
}

/// Handshakes that arrive at equal distances.
struct Arrivals<'a> {
    server: &'a Arc<ServerConfig>,
    hellos: &'a [Vec<u8>],
    begin: u64,
    /// Cycles between two of them; 0: none arrives.
    distance: u64,
    done: u64,
}

impl Arrivals<'_> {
    fn is_due(&self, now: u64) -> bool {
        self.distance > 0 && now.saturating_sub(self.begin) / self.distance > self.done
    }

    /// Answers the next ClientHello, and gives the keys of a new connection.
    fn answer(&mut self) -> Result<Inline, CryptoBenchError> {
        let at = self.done as usize % self.hellos.len().max(1);
        answer(self.server, self.hellos.get(at).map(Vec::as_slice).unwrap_or_default())?;
        self.done += 1;
        Inline::new(Cipher::Aes128Gcm, self.done as u8)
    }
}

/// The server's first flight.
fn answer(server: &Arc<ServerConfig>, hello: &[u8]) -> Result<(), CryptoBenchError> {
    let mut connection = ServerConnection::new(Arc::clone(server))?;
    let mut rest = hello;
    while !rest.is_empty() {
        connection.read_tls(&mut rest)?;
        connection.process_new_packets()?;
    }
    let mut wire = Vec::with_capacity(4096);
    while connection.wants_write() {
        connection.write_tls(&mut wire)?;
    }
    std::hint::black_box(&wire);
    Ok(())
}

/// Established connections, and when their records are due.
struct Records {
    connections: Vec<Inline>,
    distance: u64,
    sealed: u64,
    waited: Histogram<u64>,
}

impl Records {
    /// Seals those that are due, as many as a burst at most.
    fn serve(&mut self, begin: u64) -> Result<(), CryptoBenchError> {
        for _ in 0..RECORDS {
            let due = begin + self.sealed * self.distance;
            if dpdk::cycles() < due {
                return Ok(());
            }
            let at = self.sealed as usize % self.connections.len().max(1);
            if let Some(connection) = self.connections.get_mut(at) {
                connection.seal(BYTES)?;
            }
            self.sealed += 1;
            self.waited.saturating_record(dpdk::cycles() - due);
        }
        Ok(())
    }

    /// A new connection takes the place of an old one.
    fn take_over(&mut self, new: Inline) {
        let at = self.sealed as usize % self.connections.len().max(1);
        if let Some(connection) = self.connections.get_mut(at) {
            *connection = new;
        }
    }
}

/// One rate of handshakes, and what records beside it gave.
struct Point {
    signature: Signature,
    place: Place,
    share: f64,
    arrived: Vec<f64>,
    times: Times,
}

/// The whole experiment.
pub(super) struct Split {
    /// By signature: both ends, and ClientHellos.
    ends: Vec<(Signature, Ends, Vec<Vec<u8>>)>,
    points: Vec<Point>,
}

impl Split {
    /// Nothing is measured yet. The signatures are the dearest and the one that is
    /// used most.
    pub(super) fn new(options: Options) -> Result<Self, CryptoBenchError> {
        let cores = dpdk::thread::allowed_cores().len();
        if cores < 2 {
            return Err(CryptoBenchError::Cores(cores));
        }
        let (mut ends, mut points) = (Vec::new(), Vec::new());
        for signature in [Signature::Rsa2048, Signature::EcdsaP256] {
            let both = Ends::new(signature, KeyExchange::X25519)?;
            let hellos = (0..HELLOS).map(|_| both.client_hello()).collect::<Result<_, _>>()?;
            ends.push((signature, both, hellos));
            for &share in options.shares() {
                points.extend(Place::ALL.map(|place| {
                    let (arrived, times) = (Vec::new(), Times::default());
                    Point { signature, place, share, arrived, times }
                }));
            }
        }
        Ok(Self { ends, points })
    }

    /// How many steps one repetition has.
    pub(super) fn steps(&self) -> usize {
        self.points.len()
    }

    /// One repetition of every point; `told` is called after each.
    pub(super) fn repeat(
        &mut self,
        options: Options,
        told: &mut dyn FnMut(),
    ) -> Result<(), CryptoBenchError> {
        let record = record_cycles()?;
        for (signature, ends, hellos) in &self.ends {
            let most = answer_cycles(ends, hellos)?;
            for point in self.points.iter_mut().filter(|point| point.signature == *signature) {
                let distance =
                    if point.share > 0.0 { (most as f64 / point.share) as u64 } else { 0 };
                point.measure(options, ends, hellos, distance, (record as f64 / LOAD) as u64)?;
                told();
            }
        }
        Ok(())
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        self.points.iter().map(|point| {
            let algorithm =
                format!("{} X25519 {}", point.signature.name(), Cipher::Aes128Gcm.name());
            let row = point.times.row(What::Split, point.place.name(), &algorithm, BYTES);
            let arrived = crate::statistics::median(&point.arrived).unwrap_or_default();
            Row { handshakes_per_s: Some(arrived.round()), ..row }
        })
    }
}

impl Point {
    fn measure(
        &mut self,
        options: Options,
        ends: &Ends,
        hellos: &[Vec<u8>],
        handshake_distance: u64,
        record_distance: u64,
    ) -> Result<(), CryptoBenchError> {
        let hz = dpdk::cycles_per_second().max(1);
        let begin = dpdk::cycles() + hz / 1000;
        let end = begin + hz / 1000 * options.split_ms();
        let arrivals =
            Arrivals { server: &ends.server, hellos, begin, distance: handshake_distance, done: 0 };
        let mut records = Records {
            connections: connections()?,
            distance: record_distance,
            sealed: 0,
            // Up to ten minutes, to three digits.
            waited: Histogram::new_with_bounds(1, 1 << 41, 3)?,
        };
        let done = match self.place {
            Place::SameCore => on_one_core(arrivals, &mut records, end)?,
            Place::OtherCore => on_two_cores(arrivals, &mut records, end)?,
        };
        let seconds = (end - begin) as f64 / hz as f64;
        let us = |share: f64| records.waited.value_at_quantile(share) as f64 * 1e6 / hz as f64;
        self.times.push(records.sealed as f64 / seconds, [us(0.5), us(0.99), us(0.999)]);
        self.arrived.push(done as f64 / seconds);
        Ok(())
    }
}

fn core(at: usize) -> usize {
    dpdk::thread::allowed_cores().get(at).copied().unwrap_or_default() as usize
}

/// Both by one thread, by turns. Handshakes done.
fn on_one_core(
    mut arrivals: Arrivals<'_>,
    records: &mut Records,
    end: u64,
) -> Result<u64, CryptoBenchError> {
    dpdk::pin_to_core(core(0))?;
    let begin = arrivals.begin;
    loop {
        let now = dpdk::cycles();
        if now >= end {
            return Ok(arrivals.done);
        }
        records.serve(begin)?;
        if arrivals.is_due(now) {
            let new = arrivals.answer()?;
            records.take_over(new);
        }
    }
}

/// Handshakes by a thread of their own, which hands the keys over. Handshakes done.
fn on_two_cores(
    arrivals: Arrivals<'_>,
    records: &mut Records,
    end: u64,
) -> Result<u64, CryptoBenchError> {
    let begin = arrivals.begin;
    let (keys, new_keys) = RingBuffer::new(CONNECTIONS);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let handshakes = scope.spawn(|| hand_over(arrivals, keys, end, &over));
        let served = receive(records, new_keys, begin, end);
        over.store(true, Ordering::Relaxed);
        let done = handshakes.join().map_err(|_| CryptoBenchError::Worker)?;
        served.and(done)
    })
}

/// The core of the records.
fn receive(
    records: &mut Records,
    mut keys: Consumer<Inline>,
    begin: u64,
    end: u64,
) -> Result<(), CryptoBenchError> {
    dpdk::pin_to_core(core(0))?;
    while dpdk::cycles() < end {
        records.serve(begin)?;
        if let Ok(new) = keys.pop() {
            records.take_over(new);
        }
    }
    Ok(())
}

/// The core of the handshakes.
fn hand_over(
    mut arrivals: Arrivals<'_>,
    mut keys: Producer<Inline>,
    end: u64,
    over: &AtomicBool,
) -> Result<u64, CryptoBenchError> {
    dpdk::pin_to_core(core(1))?;
    loop {
        let now = dpdk::cycles();
        if now >= end || over.load(Ordering::Relaxed) {
            return Ok(arrivals.done);
        }
        if arrivals.is_due(now) {
            // A full ring: the worker is behind, and the connection is refused.
            let _ = keys.push(arrivals.answer()?);
        }
    }
}

fn connections() -> Result<Vec<Inline>, CryptoBenchError> {
    (0..CONNECTIONS).map(|seed| Inline::new(Cipher::Aes128Gcm, seed as u8)).collect()
}

/// Cycles that one record takes on this core.
fn record_cycles() -> Result<u64, CryptoBenchError> {
    let mut connections = connections()?;
    let mut best = u64::MAX;
    for _ in 0..8 {
        let begin = dpdk::cycles();
        connections.iter_mut().try_for_each(|connection| connection.seal(BYTES))?;
        best = best.min((dpdk::cycles() - begin) / CONNECTIONS as u64);
    }
    Ok(best)
}

/// Cycles that the answer to a ClientHello takes: the median.
fn answer_cycles(ends: &Ends, hellos: &[Vec<u8>]) -> Result<u64, CryptoBenchError> {
    let mut all = Vec::with_capacity(hellos.len());
    for hello in hellos {
        let begin = dpdk::cycles();
        answer(&ends.server, hello)?;
        all.push(dpdk::cycles() - begin);
    }
    all.sort_unstable();
    Ok(all.get(all.len() / 2).copied().unwrap_or(1).max(1))
}
