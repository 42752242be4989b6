//! Whether the simulation of one processor is true: a real instance on a core of its own
//! gets the same packets at the same times.
//!
//! What is compared is the distribution of latencies, over packets that no other process
//! has disturbed. Recorded times are scaled to the average that the instance takes in the
//! very run, as the simulation scales them to the average that the thesis' server takes.
use hdrhistogram::Histogram;
use measure::laslb::{ServiceTimes, model_latencies};
use serde::Serialize;
use traffic::{Application, Rng, Set, TrafficError, TrafficSet};

use crate::frames::Conversation;
use crate::replay::{Due, Replayed, cores, replay};

/// Loads of the processor in percent.
const LOADS: [u32; 4] = [20, 50, 80, 95];
/// How far the 95th percentiles may be apart, of the simulated one.
const TOLERANCE: f64 = 0.2;
/// A load is tried again until no more than this share of its packets was disturbed.
const MOST_DISTURBED: f64 = 0.25;
/// How often at most.
const TRIES: u32 = 8;

/// One load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Load of the processor in percent that was aimed at.
    pub load_percent: u32,
    /// The load that it was: arrivals times the instance's average time.
    pub real_load_percent: f64,
    /// The instance's average time for a packet in nanoseconds.
    pub service_ns: f64,
    /// Packets that are compared.
    pub packets: usize,
    /// Packets that are not, in percent: other processes had a core meanwhile.
    pub disturbed_percent: f64,
    /// Runs of this load; the least disturbed is shown.
    pub tries: u32,
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
    /// Whether the 95th percentiles are within 20 %; `None`: too many packets were
    /// disturbed, or there were not two cores, to say so.
    pub is_within: Option<bool>,
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
    /// The core.
    #[error("there is no core {core} for the instance beside one for the source: {allowed:?}")]
    Core {
        /// The core.
        core: u32,
        /// Those that this process may use.
        allowed: Vec<u32>,
    },
}

/// Runs all loads with `packets` packets each; the instance is pinned to `core`, or to the
/// last there is, and the source to another.
///
/// # Errors
/// [`CheckError`] says what is missing.
pub fn check(
    times: &ServiceTimes,
    packets: usize,
    core: Option<u32>,
    each: &mut dyn FnMut(&Row),
) -> Result<(), CheckError> {
    let allowed = dpdk::thread::allowed_cores();
    let cores = cores(core, &allowed);
    if let (Some(core), None) = (core, cores) {
        return Err(CheckError::Core { core, allowed });
    }
    // What the instance takes, of what was recorded: a first run shows it.
    let (mut due, simulated) = arrivals(times, packets, 50, 1.0)?;
    let mut pace = replay(&mut due, cores)?.service_ns / average_ns(&simulated);
    for load_percent in LOADS {
        let mut best: Option<(f64, Simulated, Replayed)> = None;
        let mut tries = 0;
        while tries < TRIES && best.as_ref().is_none_or(|(share, ..)| *share > MOST_DISTURBED) {
            tries += 1;
            let (mut due, simulated) = arrivals(times, packets, load_percent, pace)?;
            let replayed = replay(&mut due, cores)?;
            let disturbed = replayed.seen.iter().filter(|seen| seen.disturbed).count();
            let share = disturbed as f64 / packets.max(1) as f64;
            if best.as_ref().is_none_or(|(least, ..)| share < *least) {
                best = Some((share, simulated, replayed));
            }
        }
        let Some((share, simulated, replayed)) = best else { continue };
        if replayed.service_ns > 0.0 {
            pace = replayed.service_ns / average_ns(&simulated);
        }
        let valid = cores.is_some() && share <= MOST_DISTURBED;
        each(&row(load_percent, tries, valid, simulated, &replayed)?);
    }
    Ok(())
}

/// The average of recorded times in nanoseconds.
fn average_ns(simulated: &Simulated) -> f64 {
    let sum: u64 = simulated.iter().map(|(_, service_ns)| u64::from(*service_ns)).sum();
    (sum as f64 / simulated.len().max(1) as f64).max(1.0)
}

fn row(
    load_percent: u32,
    tries: u32,
    valid: bool,
    mut simulated: Simulated,
    real: &Replayed,
) -> Result<Row, CheckError> {
    let scale = real.service_ns / average_ns(&simulated);
    let length_ns = simulated.last().map_or(1, |last| last.0).max(1);
    let real_load = simulated.len() as f64 * real.service_ns / length_ns as f64;
    for (_, service_ns) in &mut simulated {
        *service_ns = (f64::from(*service_ns) * scale) as u32;
    }
    let model = model_latencies(&simulated);
    let calm = || real.seen.iter().zip(&model).filter(|(seen, _)| !seen.disturbed);
    let s = histogram(calm().filter_map(|(_, simulated)| *simulated))?;
    let r = histogram(calm().filter_map(|(seen, _)| seen.latency_ns))?;
    let us = |histogram: &Histogram<u64>, p| histogram.value_at_percentile(p) as f64 / 1000.0;
    let packets = calm().count();
    let (simulated_p95_us, real_p95_us) = (us(&s, 95.0), us(&r, 95.0));
    let apart = (real_p95_us - simulated_p95_us).abs();
    Ok(Row {
        load_percent,
        real_load_percent: 100.0 * real_load,
        service_ns: real.service_ns,
        packets,
        disturbed_percent: 100.0 * (1.0 - packets as f64 / real.seen.len().max(1) as f64),
        tries,
        simulated_p50_us: us(&s, 50.0),
        real_p50_us: us(&r, 50.0),
        simulated_p95_us,
        real_p95_us,
        simulated_p99_us: us(&s, 99.0),
        real_p99_us: us(&r, 99.0),
        simulated_dropped: calm().filter(|(_, simulated)| simulated.is_none()).count(),
        real_dropped: calm().filter(|(seen, _)| seen.latency_ns.is_none()).count(),
        is_within: valid.then_some(apart <= TOLERANCE * simulated_p95_us),
    })
}

fn histogram(latencies: impl Iterator<Item = u64>) -> Result<Histogram<u64>, CheckError> {
    // Up to 10 s.
    let mut histogram = Histogram::new_with_max(10_000_000_000, 3)?;
    for latency in latencies {
        histogram.saturating_record(latency);
    }
    Ok(histogram)
}

/// When packets come and how long they take, in nanoseconds.
type Simulated = Vec<(u64, u32)>;

/// The packets of traffic set 1 in an order of time that loads a processor with recorded
/// times, times `pace`, to `load_percent`: with their frames, and with recorded times drawn
/// for the simulation.
fn arrivals(
    times: &ServiceTimes,
    packets: usize,
    load_percent: u32,
    pace: f64,
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
    let work_ns = sum_ns as f64 * pace;
    let stretch = work_ns * 100.0 / f64::from(load_percent) / length_ns as f64;
    for (due, simulated) in due.iter_mut().zip(&mut simulated) {
        due.at_ns = (due.at_ns as f64 * stretch) as u64;
        simulated.0 = due.at_ns;
    }
    Ok((due, simulated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Seen;

    #[test]
    fn disturbed_packets_are_left_out_on_both_sides() -> Result<(), CheckError> {
        // A packet every 10 us of 1 us each, which the simulation polls alone: 1.2 us.
        let simulated: Simulated = (0..100).map(|at| (at * 10_000, 500)).collect();
        let seen = (0..100).map(|at| Seen {
            latency_ns: Some(if at < 10 { 5_000_000 } else { 1300 }),
            disturbed: at < 10,
        });
        let replayed = Replayed { seen: seen.collect(), service_ns: 1000.0 };
        let shown = row(20, 1, true, simulated.clone(), &replayed)?;
        assert_eq!((shown.packets, shown.is_within), (90, Some(true)));
        assert!((shown.disturbed_percent - 10.0).abs() < 0.01);
        assert!((shown.simulated_p95_us - 1.2).abs() < 0.01, "{shown:?}");
        assert!((shown.real_p99_us - 1.3).abs() < 0.01, "{shown:?}");
        let seen = (0..100).map(|_| Seen { latency_ns: Some(2000), disturbed: false });
        let replayed = Replayed { seen: seen.collect(), service_ns: 1000.0 };
        assert_eq!(row(20, 1, true, simulated.clone(), &replayed)?.is_within, Some(false));
        assert_eq!(row(20, 1, false, simulated, &replayed)?.is_within, None);
        Ok(())
    }
}
