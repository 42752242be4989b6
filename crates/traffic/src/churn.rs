//! Connections that come and go.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::positive;
use crate::{Rng, TrafficError};

/// One kind of connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Class {
    /// Its part of the new connections, relative to the other classes'.
    pub weight: f64,
    /// Mean time from the first packet to the last, in seconds; exponentially
    /// distributed.
    pub lifetime: f64,
    /// Mean time between two packets of a connection, in seconds;
    /// exponentially distributed.
    pub interval: f64,
}

/// Where in its connection's life a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The first packet (a TCP SYN).
    Open,
    /// Neither the first nor the last.
    Data,
    /// The last packet (a TCP FIN). Every connection has a first and a last.
    Close,
}

/// A packet of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChurnPacket {
    /// When it comes, in nanoseconds from the start.
    pub at_ns: u64,
    /// Its connection. Connections are numbered by their start; a number is
    /// used again only after 2^32 others.
    pub flow: u32,
    /// Where in the connection's life.
    pub phase: Phase,
}

/// Packets of a mixture of short and long connections: a Poisson stream of
/// arrivals, each living for a random time and sending at random moments.
///
/// By Little's law the number of connections at a time tends to arrivals per
/// second times mean lifetime. A packet costs a heap operation, logarithmic in
/// that number.
#[derive(Debug, Clone)]
pub struct Churn {
    arrivals: f64,
    classes: Vec<Class>,
    rng: Rng,
    next_flow: u32,
    next_arrival: f64,
    heap: BinaryHeap<Reverse<Event>>,
}

/// The next packet of a connection. Ordered by time, then by number, so that
/// the order never depends on the heap.
#[derive(Debug, Clone, Copy)]
struct Event {
    at: f64,
    flow: u32,
    class: usize,
    end: f64,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at).then(self.flow.cmp(&other.flow))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

impl Churn {
    /// `arrivals` new connections a second of these classes, from none on.
    ///
    /// # Errors
    /// [`TrafficError::NoClasses`], [`TrafficError::NotPositive`] for a number
    /// that is not finite and above 0.
    pub fn new(arrivals: f64, classes: &[Class], seed: u64) -> Result<Self, TrafficError> {
        positive("arrival rate", arrivals)?;
        if classes.is_empty() {
            return Err(TrafficError::NoClasses);
        }
        for class in classes {
            positive("weight of a class", class.weight)?;
            positive("lifetime of a class", class.lifetime)?;
            positive("packet interval of a class", class.interval)?;
        }
        let mut rng = Rng::new(seed);
        let next_arrival = rng.exponential(1.0 / arrivals);
        let (classes, heap) = (classes.to_vec(), BinaryHeap::new());
        Ok(Self { arrivals, classes, rng, next_flow: 0, next_arrival, heap })
    }

    /// As [`Churn::new`], but begun long ago: the connections that are open on
    /// average are there from the start (numbers 0 to [`Churn::open`] - 1). Of
    /// these no [`Phase::Open`] is seen.
    ///
    /// # Errors
    /// As [`Churn::new`].
    pub fn established(arrivals: f64, classes: &[Class], seed: u64) -> Result<Self, TrafficError> {
        let mut churn = Self::new(arrivals, classes, seed)?;
        let expected = (churn.expected_open().round() as u32).max(1);
        // A moment finds the long ones more often; and exponential lifetimes
        // have no memory, so the rest of one is distributed as all of it.
        for _ in 0..expected {
            let class = churn.draw(|class| class.weight * class.lifetime);
            let flow = churn.next_flow;
            churn.next_flow = flow.wrapping_add(1);
            let Some(&Class { lifetime, .. }) = churn.classes.get(class) else { continue };
            let end = churn.rng.exponential(lifetime);
            churn.schedule(0.0, Event { at: 0.0, flow, class, end });
        }
        Ok(churn)
    }

    /// Connections that are open on average: arrivals times mean lifetime.
    #[must_use]
    pub fn expected_open(&self) -> f64 {
        let weights: f64 = self.classes.iter().map(|class| class.weight).sum();
        let life: f64 = self.classes.iter().map(|class| class.weight * class.lifetime).sum();
        self.arrivals * life / weights
    }

    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.heap.len()
    }

    /// One of the classes, by a weight.
    fn draw(&mut self, weight: impl Fn(&Class) -> f64) -> usize {
        let all: f64 = self.classes.iter().map(&weight).sum();
        let mut left = self.rng.unit() * all;
        let found = self.classes.iter().position(|class| {
            left -= weight(class);
            left < 0.0
        });
        found.unwrap_or(self.classes.len() - 1)
    }

    /// Puts the packet after the one at `now` into the heap: at the latest the
    /// last one, when the connection's time is over.
    fn schedule(&mut self, now: f64, mut event: Event) {
        let interval = self.classes.get(event.class).map_or(f64::INFINITY, |class| class.interval);
        event.at = (now + self.rng.exponential(interval)).min(event.end);
        self.heap.push(Reverse(event));
    }

    fn arrive(&mut self) -> ChurnPacket {
        let at = self.next_arrival;
        self.next_arrival = at + self.rng.exponential(1.0 / self.arrivals);
        let flow = self.next_flow;
        self.next_flow = flow.wrapping_add(1);
        let class = self.draw(|class| class.weight);
        let lifetime = self.classes.get(class).map_or(0.0, |class| class.lifetime);
        let end = at + self.rng.exponential(lifetime);
        self.schedule(at, Event { at, flow, class, end });
        packet(at, flow, Phase::Open)
    }
}

impl Iterator for Churn {
    type Item = ChurnPacket;

    fn next(&mut self) -> Option<ChurnPacket> {
        let due = self.heap.peek().is_some_and(|Reverse(event)| event.at < self.next_arrival);
        if !due {
            return Some(self.arrive());
        }
        let Reverse(event) = self.heap.pop()?;
        if event.at >= event.end {
            return Some(packet(event.at, event.flow, Phase::Close));
        }
        self.schedule(event.at, event);
        Some(packet(event.at, event.flow, Phase::Data))
    }
}

fn packet(at: f64, flow: u32, phase: Phase) -> ChurnPacket {
    ChurnPacket { at_ns: (at * 1e9) as u64, flow, phase }
}
