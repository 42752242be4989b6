//! How busy each worker is, for those who give work to workers.
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Workers whose load is told.
const WORKERS: usize = 64;

/// util+ of each worker in thousandths, smoothed over some tens of milliseconds:
/// written by the balancing thread alone, read by the offload side.
#[derive(Debug)]
pub struct WorkerLoads {
    /// How many workers have a load; 0: nobody measures.
    workers: AtomicU16,
    /// How often the loads have been told.
    readings: AtomicU32,
    /// Packets per second of all workers.
    packets: AtomicU64,
    loads: [AtomicU16; WORKERS],
}

impl Default for WorkerLoads {
    fn default() -> Self {
        let loads = [const { AtomicU16::new(0) }; WORKERS];
        Self {
            workers: AtomicU16::new(0),
            readings: AtomicU32::new(0),
            packets: AtomicU64::new(0),
            loads,
        }
    }
}

impl WorkerLoads {
    /// Notes one reading: util+ of each worker in thousandths, and the `packets` per second
    /// of all of them.
    pub fn tell(&self, busy: &[u16], packets: u64) {
        for (own, now) in self.loads.iter().zip(busy) {
            let before = own.load(Ordering::Relaxed);
            own.store(smooth(before.into(), (*now).into()) as u16, Ordering::Relaxed);
        }
        let before = self.packets.load(Ordering::Relaxed);
        self.packets.store(smooth(before, packets), Ordering::Relaxed);
        self.workers.store(busy.len().min(WORKERS) as u16, Ordering::Relaxed);
        self.readings.fetch_add(1, Ordering::Relaxed);
    }

    /// How often loads have been told, which wraps round.
    #[must_use]
    pub fn readings(&self) -> u32 {
        self.readings.load(Ordering::Relaxed)
    }

    /// Packets per second of all workers.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// The load of each worker, by number; empty if nobody measures.
    pub fn loads(&self) -> impl Iterator<Item = u16> + '_ {
        let workers = usize::from(self.workers.load(Ordering::Relaxed));
        self.loads.iter().take(workers).map(|load| load.load(Ordering::Relaxed))
    }
}

/// An eighth of the way from `before` to `now`, rounded towards `now`, so that a load
/// that stays is reached.
const fn smooth(before: u64, now: u64) -> u64 {
    if now >= before {
        before + (now - before).div_ceil(8)
    } else {
        before - (before - now).div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_smoothed_and_reached() {
        let loads = WorkerLoads::default();
        assert_eq!(loads.loads().count(), 0);
        loads.tell(&[800, 0], 1000);
        assert_eq!(loads.loads().collect::<Vec<_>>(), [100, 0]);
        for _ in 0..60 {
            loads.tell(&[800, 1000], 1000);
        }
        assert_eq!(loads.loads().collect::<Vec<_>>(), [800, 1000]);
        for _ in 0..60 {
            loads.tell(&[0, 1000], 1000);
        }
        assert_eq!((loads.loads().next(), loads.readings()), (Some(0), 121));
        assert_eq!(loads.packets(), 1000);
    }
}
