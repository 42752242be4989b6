//! What a network function does with a frame.
/// A network function's view of a frame.
pub trait Inspect {
    /// Looks at a frame, which may be changed in place; `false`: it is dropped.
    fn inspect(&mut self, frame: &mut [u8]) -> bool;

    /// What it has seen, for its report; a few words.
    fn summary(&self) -> Option<String> {
        None
    }
}

/// A synthetic network function: cycles for each packet and each byte, so that its load
/// is known. With none of both it is the plain forwarder of section 6.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Cycles of the time stamp counter for each packet.
    pub cycles_per_packet: u32,
    /// 1000ths of a cycle for each byte.
    pub millicycles_per_byte: u32,
    /// Every n-th frame is dropped; 0: none.
    pub drop_every: u32,
    seen: u32,
}

impl Work {
    /// A function of that much work that drops every `drop_every`-th frame, or none.
    #[must_use]
    pub const fn new(cycles_per_packet: u32, millicycles_per_byte: u32, drop_every: u32) -> Self {
        Self { cycles_per_packet, millicycles_per_byte, drop_every, seen: 0 }
    }
}

impl Inspect for Work {
    fn inspect(&mut self, frame: &mut [u8]) -> bool {
        let bytes = frame.len() as u64 * u64::from(self.millicycles_per_byte) / 1000;
        let cycles = u64::from(self.cycles_per_packet) + bytes;
        if cycles > 0 {
            let start = dpdk::eal::cycles();
            while dpdk::eal::cycles().saturating_sub(start) < cycles {
                std::hint::spin_loop();
            }
        }
        self.seen = self.seen.wrapping_add(1);
        self.drop_every == 0 || self.seen % self.drop_every != 0
    }
}
