//! Frames at given times through a real instance on a core of its own, and which of them
//! were disturbed by other processes.
//!
//! Both threads look at the clock at every turn of their loops. A turn that is longer than
//! any can be was interrupted: what came from then on until the queue was empty again says
//! nothing of the instance.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use middlebox::Inspect;

use crate::check::CheckError;
use crate::inspector::Inspector;

/// Packets that the queue has room for, as in the simulation.
const QUEUE: usize = 1024;
/// Packets of a poll, as in the simulation.
const POLL: usize = 32;
/// A turn of the source's loop takes a fraction of this.
const SOURCE_TURN_NS: u64 = 20_000;
/// The work on one packet, and a look at an empty queue, take less than this: libndpi's
/// dearest packets take some 30 µs.
const INSTANCE_TURN_NS: u64 = 100_000;

/// A frame that is to come.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) at_ns: u64,
    pub(crate) frame: Vec<u8>,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Nanoseconds from its time to the end of its poll; `None`: the queue was full.
    pub(crate) latency_ns: Option<u64>,
    /// Something else had a core meanwhile.
    pub(crate) disturbed: bool,
}

/// What a replay has shown.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// By frame.
    pub(crate) seen: Vec<Seen>,
    /// Nanoseconds of work on an average frame, of the polls without interruption.
    pub(crate) service_ns: f64,
}

/// The cores of source and instance: that which is wanted, and another. `None` where there
/// are not two.
pub(crate) fn cores(wanted: Option<u32>, allowed: &[u32]) -> Option<(u32, u32)> {
    let instance = wanted.or_else(|| allowed.last().copied())?;
    let source = allowed.iter().copied().find(|core| *core != instance)?;
    allowed.contains(&instance).then_some((source, instance))
}

/// When each thread was away, in cycles: from, to, and, of the instance, until the queue
/// was empty again.
type Absences = Vec<(u64, u64)>;

/// What a thread notes of its turns.
struct Turns {
    last: u64,
    longest: u64,
    /// Since when the present disturbance lasts.
    since: Option<u64>,
    absences: Absences,
}

impl Turns {
    fn new(longest_ns: u64) -> Self {
        let longest =
            u128::from(longest_ns) * u128::from(dpdk::eal::cycles_per_second()) / 1_000_000_000;
        Self { last: 0, longest: longest as u64, since: None, absences: Vec::new() }
    }

    /// A turn is over.
    fn turn(&mut self, now: u64) {
        if self.last != 0 && now.saturating_sub(self.last) > self.longest {
            self.since.get_or_insert(self.last);
        }
        self.last = now;
    }

    /// Nothing that was delayed is left.
    fn settled(&mut self, now: u64) {
        if let Some(since) = self.since.take() {
            self.absences.push((since, now));
        }
    }
}

/// What both threads share.
#[derive(Default)]
struct Shared {
    ready: AtomicBool,
    ended: AtomicBool,
    /// The cycle until which the source's absences reach; what comes late by them waits
    /// until the queue is empty.
    source_away_until: AtomicU64,
}

/// Gives every frame to a real instance at its time. `cores` are those of source and
/// instance.
pub(crate) fn replay(due: &mut [Due], cores: Option<(u32, u32)>) -> Result<Replayed, CheckError> {
    let mut latencies = vec![None; due.len()];
    let (mut to, from) = rtrb::RingBuffer::<Sent>::new(QUEUE);
    let shared = Shared::default();
    let (start, of_source, of_instance, service_ns) = std::thread::scope(|scope| {
        let (latencies, shared) = (&mut latencies, &shared);
        let instance = scope.spawn(move || {
            pin(cores.map(|(_, instance)| instance), "instance");
            work(from, latencies, shared)
        });
        pin(cores.map(|(source, _)| source), "source");
        while !shared.ready.load(Ordering::Acquire) && !instance.is_finished() {
            std::thread::yield_now();
        }
        let start = dpdk::eal::cycles();
        let absences = send(due, start, &mut to, shared);
        shared.ended.store(true, Ordering::Release);
        let (of_instance, service_ns) = instance.join().map_err(|_| CheckError::Thread)??;
        Ok::<_, CheckError>((start, absences, of_instance, service_ns))
    })?;
    let mut absences = of_source;
    absences.extend(of_instance);
    let seen = due.iter().zip(latencies).map(|(due, latency_ns)| {
        let came = start + cycles(due.at_ns);
        // A frame that was dropped has been nowhere, but found what had gathered.
        let left = came + cycles(latency_ns.unwrap_or(0));
        let disturbed = absences.iter().any(|(from, to)| came <= *to && left >= *from);
        Seen { latency_ns, disturbed }
    });
    Ok(Replayed { seen: seen.collect(), service_ns })
}

/// A frame on its way: its place, when it came, its bytes.
type Sent = (usize, u64, Vec<u8>);

fn pin(core: Option<u32>, what: &str) {
    let Some(core) = core else { return };
    if let Err(error) = dpdk::pin_to_core(core as usize) {
        tracing::warn!("the {what} is not pinned: {error}");
    }
}

fn cycles(ns: u64) -> u64 {
    let per_second = u128::from(dpdk::eal::cycles_per_second());
    (u128::from(ns) * per_second / 1_000_000_000) as u64
}

/// Sends every frame at its time.
fn send(due: &mut [Due], start: u64, to: &mut rtrb::Producer<Sent>, shared: &Shared) -> Absences {
    let mut turns = Turns::new(SOURCE_TURN_NS);
    for (number, packet) in due.iter_mut().enumerate() {
        let at = start + cycles(packet.at_ns);
        loop {
            let now = dpdk::eal::cycles();
            turns.turn(now);
            if now >= at {
                break;
            }
            // What was late has been sent.
            if turns.since.is_some() {
                shared.source_away_until.store(now, Ordering::Release);
                turns.settled(now);
            }
            std::hint::spin_loop();
        }
        // A full queue drops the packet. What the source is late counts, too.
        let _ = to.push((number, at, std::mem::take(&mut packet.frame)));
    }
    turns.settled(dpdk::eal::cycles());
    turns.absences
}

/// The instance: polls, and works on all packets of a poll before it sends them.
fn work(
    mut from: rtrb::Consumer<Sent>,
    latencies: &mut [Option<u64>],
    shared: &Shared,
) -> Result<(Absences, f64), CheckError> {
    let mut inspector = Inspector::new().ok_or(CheckError::Library)?;
    let mut batch: Vec<Sent> = Vec::with_capacity(POLL);
    let mut turns = Turns::new(INSTANCE_TURN_NS);
    let (mut busy, mut packets, mut known) = (0, 0, 0);
    shared.ready.store(true, Ordering::Release);
    loop {
        let over = shared.ended.load(Ordering::Acquire);
        let begin = dpdk::eal::cycles();
        turns.turn(begin);
        let away_until = shared.source_away_until.load(Ordering::Acquire);
        if away_until > known {
            // What the source has sent late is in the queue.
            turns.since.get_or_insert(away_until);
            known = away_until;
        }
        while batch.len() < POLL {
            let Ok(packet) = from.pop() else { break };
            batch.push(packet);
        }
        if batch.is_empty() {
            turns.settled(begin);
            if over {
                let per_packet = dpdk::eal::nanoseconds(busy) as f64 / f64::from(packets.max(1));
                return Ok((turns.absences, per_packet));
            }
            std::hint::spin_loop();
            continue;
        }
        let calm = turns.since.is_none();
        for (_, _, frame) in &mut batch {
            inspector.inspect(frame);
            drop(std::mem::take(frame));
            turns.turn(dpdk::eal::cycles());
        }
        let now = dpdk::eal::cycles();
        if calm && turns.since.is_none() {
            busy += now.saturating_sub(begin).saturating_sub(cycles(measure::laslb::POLL_NS));
            packets += batch.len() as u32;
        }
        for (number, came, _) in batch.drain(..) {
            if let Some(latency) = latencies.get_mut(number) {
                *latency = Some(dpdk::eal::nanoseconds(now.saturating_sub(came)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_turn_disturbs_until_the_queue_is_empty() {
        let mut turns = Turns { last: 0, longest: 100, since: None, absences: Vec::new() };
        for now in [1000, 1050, 1100] {
            turns.turn(now);
            turns.settled(now);
        }
        assert_eq!(turns.absences, []);
        for now in [1500, 1550] {
            turns.turn(now);
        }
        assert_eq!(turns.since, Some(1100));
        turns.settled(1600);
        assert_eq!(turns.absences, [(1100, 1600)]);
    }

    #[test]
    fn source_and_instance_have_different_cores() {
        assert_eq!(cores(None, &[0, 1]), Some((0, 1)));
        assert_eq!(cores(Some(0), &[0, 1]), Some((1, 0)));
        assert_eq!(cores(None, &[3]), None);
        assert_eq!(cores(Some(7), &[0, 1]), None, "it is not there");
    }
}
