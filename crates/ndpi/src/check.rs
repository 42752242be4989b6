//! Whether the simulation of one processor is true: a real instance on a core of its own
//! gets the same packets at the same times.
use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use measure::laslb::{ServiceTimes, model_latencies};
use middlebox::Inspect;
use serde::Serialize;
use traffic::{Application, Rng, Set, TrafficError, TrafficSet};

use crate::frames::Conversation;
use crate::inspector::Inspector;

/// Loads of the processor in percent.
const LOADS: [u32; 4] = [20, 50, 80, 95];
/// Packets that the queue has room for, as in the simulation.
const QUEUE: usize = 1024;
/// Packets of a poll, as in the simulation.
const POLL: usize = 32;

/// One load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Offered load of the processor in percent, by recorded times.
    pub load_percent: u32,
    /// Packets.
    pub packets: usize,
    /// Latency of half of the packets in the simulation, in microseconds.
    pub simulated_p50_us: f64,
    /// Of the real instance.
    pub real_p50_us: f64,
    /// Latency of 95 % in the simulation.
    pub simulated_p95_us: f64,
    /// Of the real instance.
    pub real_p95_us: f64,
    /// 99 % in the simulation.
    pub simulated_p99_us: f64,
    /// Of the real instance.
    pub real_p99_us: f64,
    /// Packets that found the queue full in the simulation.
    pub simulated_dropped: usize,
    /// Of the real instance.
    pub real_dropped: usize,
}

/// No check.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// libndpi.
    #[error("libndpi has no memory for its protocols")]
    Library,
    /// A histogram.
    #[error("latencies can't be counted: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
    /// The instance's thread.
    #[error("the instance's thread has panicked")]
    Thread,
}

/// A packet that is to come: when, and its frame.
struct Due {
    at_ns: u64,
    frame: Vec<u8>,
}

/// Runs all loads with `packets` packets each; the instance is pinned to `core`.
///
/// # Errors
/// [`CheckError`] says what is missing.
pub fn check(
    times: &ServiceTimes,
    packets: usize,
    core: Option<u32>,
    each: &mut dyn FnMut(&Row),
) -> Result<(), CheckError> {
    for load_percent in LOADS {
        let (mut due, simulated) = arrivals(times, packets, load_percent)?;
        let simulated = model_latencies(&simulated);
        let real = replay(&mut due, core)?;
        let dropped = |latencies: &[Option<u64>]| latencies.iter().filter(|l| l.is_none()).count();
        let (s, r) = (histogram(&simulated)?, histogram(&real)?);
        let us = |histogram: &Histogram<u64>, p| histogram.value_at_percentile(p) as f64 / 1000.0;
        each(&Row {
            load_percent,
            packets: due.len(),
            simulated_p50_us: us(&s, 50.0),
            real_p50_us: us(&r, 50.0),
            simulated_p95_us: us(&s, 95.0),
            real_p95_us: us(&r, 95.0),
            simulated_p99_us: us(&s, 99.0),
            real_p99_us: us(&r, 99.0),
            simulated_dropped: dropped(&simulated),
            real_dropped: dropped(&real),
        });
    }
    Ok(())
}

fn histogram(latencies: &[Option<u64>]) -> Result<Histogram<u64>, CheckError> {
    // Up to 10 s.
    let mut histogram = Histogram::new_with_max(10_000_000_000, 3)?;
    for latency in latencies.iter().flatten() {
        histogram.saturating_record(*latency);
    }
    Ok(histogram)
}

/// When packets come and how long they take, in nanoseconds.
type Simulated = Vec<(u64, u32)>;

/// The packets of traffic set 1 in an order of time that loads a processor with recorded
/// times to `load_percent`: with their frames, and with times drawn for the simulation.
fn arrivals(
    times: &ServiceTimes,
    packets: usize,
    load_percent: u32,
) -> Result<(Vec<Due>, Simulated), CheckError> {
    let mut rng = Rng::new(7);
    let set = TrafficSet::at(Set::Balanced, 2.0, 3)?;
    let mut flows = std::collections::HashMap::new();
    let (mut due, mut simulated) = (Vec::with_capacity(packets), Vec::with_capacity(packets));
    let mut sum_ns = 0_u64;
    for packet in set.take(packets) {
        let number = flows.len() as u32;
        let (conversation, place) = flows.entry(packet.flow).or_insert_with(|| {
            let application = Application::draw(&mut rng);
            (Conversation::new(application, number, &mut rng), 0)
        });
        let service_ns = times.draw_ns(conversation.application(), *place, &mut rng);
        *place += 1;
        sum_ns += u64::from(service_ns);
        due.push(Due { at_ns: packet.at_ns, frame: conversation.next_frame() });
        simulated.push((packet.at_ns, service_ns));
    }
    let length_ns = due.last().map_or(1, |last| last.at_ns).max(1);
    let stretch = sum_ns as f64 * 100.0 / f64::from(load_percent) / length_ns as f64;
    for (due, simulated) in due.iter_mut().zip(&mut simulated) {
        due.at_ns = (due.at_ns as f64 * stretch) as u64;
        simulated.0 = due.at_ns;
    }
    Ok((due, simulated))
}

/// Gives every frame to a real instance at its time; how long each took from then to the
/// end of its poll.
fn replay(due: &mut [Due], core: Option<u32>) -> Result<Vec<Option<u64>>, CheckError> {
    let per_second = dpdk::eal::cycles_per_second().max(1);
    let mut latencies = vec![None; due.len()];
    let (mut to, mut from) = rtrb::RingBuffer::<(usize, u64, Vec<u8>)>::new(QUEUE);
    let (ready, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let latencies = &mut latencies;
        let (ready, ended) = (&ready, &ended);
        let instance = scope.spawn(move || -> Result<(), CheckError> {
            if let Some(core) = core {
                if let Err(error) = dpdk::pin_to_core(core as usize) {
                    tracing::warn!("the instance is not pinned: {error}");
                }
            }
            let mut inspector = Inspector::new().ok_or(CheckError::Library)?;
            let mut batch = Vec::with_capacity(POLL);
            ready.store(true, Ordering::Release);
            loop {
                let over = ended.load(Ordering::Acquire);
                while batch.len() < POLL {
                    let Ok(packet) = from.pop() else { break };
                    batch.push(packet);
                }
                if batch.is_empty() {
                    if over {
                        return Ok(());
                    }
                    std::hint::spin_loop();
                    continue;
                }
                for (_, _, frame) in &mut batch {
                    inspector.inspect(frame);
                }
                let now = dpdk::eal::cycles();
                for (number, came, _) in batch.drain(..) {
                    if let Some(latency) = latencies.get_mut(number) {
                        *latency = Some(dpdk::eal::nanoseconds(now.saturating_sub(came)));
                    }
                }
            }
        });
        while !ready.load(Ordering::Acquire) && !instance.is_finished() {
            std::thread::yield_now();
        }
        let start = dpdk::eal::cycles();
        for (number, packet) in due.iter_mut().enumerate() {
            let at =
                start + (u128::from(packet.at_ns) * u128::from(per_second) / 1_000_000_000) as u64;
            while dpdk::eal::cycles() < at {
                std::hint::spin_loop();
            }
            // A full queue drops the packet. What the source is late counts, too.
            let _ = to.push((number, at, std::mem::take(&mut packet.frame)));
        }
        ended.store(true, Ordering::Release);
        instance.join().map_err(|_| CheckError::Thread)?
    })?;
    Ok(latencies)
}
