//! What takes time: a wire, and a card's tables. Both are servers with a queue.

/// Bits a second of every port of the paper's machines (section 5.1).
const BITS_PER_NS: f64 = 100.0;
/// Check sequence, preamble and the gap between frames.
const OVERHEAD: f64 = 24.0;
/// The longest queue of a server: 128 packets of the card, a number without a
/// source; it decides how long an overload stays without loss.
const QUEUE_NS: f64 = 128.0 * 10.35;

/// Serves one packet after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Server {
    free_ns: f64,
}

impl Server {
    /// When a packet that comes at `at_ns` and takes `takes_ns` is done; `None`:
    /// it finds the queue full.
    pub(super) fn serve(&mut self, at_ns: f64, takes_ns: f64) -> Option<f64> {
        let begin = self.free_ns.max(at_ns);
        if begin - at_ns > QUEUE_NS {
            return None;
        }
        self.free_ns = begin + takes_ns;
        Some(self.free_ns)
    }
}

/// Nanoseconds on the wire of a frame of `len` bytes without check sequence.
pub(super) fn wire_ns(len: usize) -> f64 {
    (len as f64 + OVERHEAD) * 8.0 / BITS_PER_NS
}

/// Bytes of the frame around a UDP payload over IPv4, without check sequence.
pub(super) fn frame_len(payload: usize) -> usize {
    (42 + payload).max(60)
}

/// Packets a second of XenoFlow's BlueField-3 with frames of more than 64 bytes
/// (section 5.2: from 23 bytes of payload on).
const LONG_FRAMES: f64 = 92.8e6;

/// Nanoseconds that the card's tables take for a frame of `len` bytes; `rate`
/// is the profile's for short frames.
pub(super) fn tables_ns(len: usize, rate: u64) -> f64 {
    let rate = if len > 64 { LONG_FRAMES } else { rate as f64 };
    1e9 / rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_loses_what_it_has_no_time_for() {
        let mut server = Server::default();
        let served = (0..100_000).filter(|n| server.serve(f64::from(*n), 2.0).is_some()).count();
        assert!((50_000..=51_000).contains(&served), "{served}");
        let mut idle = Server::default();
        assert_eq!(idle.serve(5.0, 2.0), Some(7.0));
        assert_eq!(idle.serve(6.0, 2.0), Some(9.0));
        assert_eq!(idle.serve(20.0, 2.0), Some(22.0));
    }

    #[test]
    fn frames_are_as_long_as_the_paper_says() {
        // 23 bytes of payload are 65 bytes without check sequence (section 5.2).
        assert_eq!((frame_len(23), frame_len(18), frame_len(0)), (65, 60, 60));
        assert!((1e3 / wire_ns(60) - 148.8).abs() < 0.1, "100 Gbit/s are 148.8 Mpps at 64 bytes");
        assert!(tables_ns(65, 96_700_000) > tables_ns(64, 96_700_000));
    }
}
