//! One processor alone, for the comparison with a real one.
use crate::laslb::network_function::{NetworkFunction, Packet};

/// What the simulation says of one processor that gets packets at these times and takes
/// so long for each, both in nanoseconds: the time from arrival to the end of its poll, in
/// the order of arrivals; `None` for a packet that found the queue full.
#[must_use]
pub fn model_latencies(arrivals: &[(u64, u32)]) -> Vec<Option<u64>> {
    let mut function = NetworkFunction::default();
    let mut latencies = vec![None; arrivals.len()];
    let mut sent = Vec::new();
    let mut finish = |function: &mut NetworkFunction, until_ns: u64| {
        while let Some(at_ns) = function.done_ns().filter(|done_ns| *done_ns <= until_ns) {
            function.finish(at_ns, &mut sent);
            for packet in sent.drain(..) {
                if let Some(latency) = latencies.get_mut(packet.number as usize) {
                    *latency = Some(at_ns - packet.at_ns);
                }
            }
        }
    };
    for (number, &(at_ns, service_ns)) in (0..).zip(arrivals) {
        finish(&mut function, at_ns);
        let packet = Packet {
            at_ns,
            number,
            flow: None,
            back: false,
            service_ns,
            size: 0,
            bucket: 0,
            sequence: 0,
        };
        function.offer(packet, at_ns);
    }
    finish(&mut function, u64::MAX);
    latencies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_for_their_poll() {
        // The first is polled alone, 200 ns for the poll and 1000 for it; the two that
        // come meanwhile are polled together.
        let latencies = model_latencies(&[(0, 1000), (100, 1000), (200, 1000)]);
        assert_eq!(latencies, [Some(1200), Some(3300), Some(3200)]);
    }

    #[test]
    fn a_full_queue_drops() {
        let burst = vec![(0, 1_000_000); 2000];
        let dropped = model_latencies(&burst).iter().filter(|one| one.is_none()).count();
        assert_eq!(dropped, 2000 - 1 - 1024);
    }
}
