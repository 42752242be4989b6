//! How soon each backend answers new connections.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use flow::BackendId;

/// New connections whose first answer is waited for at a time; one that falls
/// on another's place takes it, and the answer to the other is not measured.
const PENDING: u32 = 1 << 14;

/// A mean's units in a millisecond.
const UNITS: u32 = 256;

/// An answer counts for 1/8 of the mean.
const SHARE: u32 = 3;

/// The mean time from a connection's first packet to its first answer, by
/// backend, shared by all workers: 640 KiB. Times are whole milliseconds of the
/// workers' clocks. Since connections begin at any moment of a millisecond, the
/// mean of many is right to a fraction of one.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// By backend, in 1/256 ms; 0: it has not answered yet.
    means: Box<[AtomicU32]>,
    /// By backend: when the oldest connection began that no answer has followed
    /// since, in milliseconds with bit 0 set; 0: there is none.
    waiting: Box<[AtomicU32]>,
    /// From the top: the connection's tag (32 bits), its backend's id (16), and
    /// the time (16); 0: empty.
    pending: Box<[AtomicU64]>,
    /// When a connection was last opened, in milliseconds.
    clock: AtomicU32,
}

impl Default for Latencies {
    fn default() -> Self {
        let zeros = || (0..=u16::MAX).map(|_| AtomicU32::new(0)).collect();
        Self {
            means: zeros(),
            waiting: zeros(),
            pending: (0..PENDING).map(|_| AtomicU64::new(0)).collect(),
            clock: AtomicU32::new(0),
        }
    }
}

/// What tells a pending connection from all others of its place: the bits of the
/// id that the place doesn't say, and as many of the generation as fit. Without
/// the generation the answer to a connection in a record that has been reused
/// would be taken for that of the record's last one, which never got any.
const fn tag((id, generation): (u32, u32)) -> u32 {
    (id / PENDING * PENDING) | (generation % PENDING)
}

impl Latencies {
    /// The same means, without the connections whose first answer is waited for.
    pub(super) fn copied(&self) -> Self {
        Self { means: super::copied(&self.means), ..Self::default() }
    }

    fn place(&self, (id, _): (u32, u32)) -> Option<&AtomicU64> {
        self.pending.get((id % PENDING) as usize)
    }

    /// The connection with this id and generation began with `backend` at `now_ms`.
    pub(super) fn asked(&self, conn: (u32, u32), backend: BackendId, now_ms: u64) {
        if let Some(place) = self.place(conn) {
            let entry = u64::from(tag(conn)) << 32 | u64::from(backend.0) << 16 | now_ms & 0xffff;
            place.store(entry, Ordering::Relaxed);
        }
    }

    /// A connection began with `backend` at `now_ms`: if no answer follows, the backend is
    /// slow.
    pub(super) fn waits(&self, backend: BackendId, now_ms: u64) {
        let now = now_ms as u32;
        self.clock.store(now, Ordering::Relaxed);
        if let Some(waiting) = self.waiting.get(usize::from(backend.0)) {
            // An error means that an older connection waits.
            let _ = waiting.compare_exchange(0, now | 1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The backend of the connection with this id and generation refused it. It counts
    /// neither as fast nor as one that is waited for no longer.
    pub(super) fn refused(&self, conn: (u32, u32)) -> Option<BackendId> {
        self.take(conn).map(|(backend, _)| backend)
    }

    /// The connection with this id and generation got an answer at `now_ms`;
    /// nothing happens if it was not its first one, or is not measured. The backend, and
    /// after how many milliseconds it has answered.
    pub(super) fn answered(&self, conn: (u32, u32), now_ms: u64) -> Option<(BackendId, u16)> {
        let (id, asked_ms) = self.take(conn)?;
        let (backend, after_ms) = (usize::from(id.0), (now_ms as u16).wrapping_sub(asked_ms));
        let taken = u32::from(after_ms) * UNITS;
        if let Some(waiting) = self.waiting.get(backend) {
            waiting.store(0, Ordering::Relaxed);
        }
        if let Some(mean) = self.means.get(backend) {
            let next = |old: u32| match old {
                0 => Some(taken.max(1)),
                old => Some((old - (old >> SHARE) + (taken >> SHARE)).max(1)),
            };
            // It is never an error: there is always a next mean.
            let _ = mean.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        }
        Some((id, after_ms))
    }

    /// The backend of the connection with this id and generation, and when it began, by the
    /// low bits of the clock; it is not waited for any more.
    fn take(&self, conn: (u32, u32)) -> Option<(BackendId, u16)> {
        let place = self.place(conn)?;
        let entry = place.load(Ordering::Relaxed);
        let (relaxed, empty) = (Ordering::Relaxed, 0);
        if entry == empty
            || (entry >> 32) as u32 != tag(conn)
            || place.compare_exchange(entry, empty, relaxed, relaxed).is_err()
        {
            return None;
        }
        Some((BackendId((entry >> 16) as u16), entry as u16))
    }

    /// How soon `backend` answers, in 1/256 ms: the mean, or, if that is more,
    /// for how long it has left connections without an answer. 0: not known.
    pub(super) fn get(&self, backend: BackendId) -> u32 {
        let of = |all: &[AtomicU32]| {
            all.get(usize::from(backend.0)).map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let silent = match of(&self.waiting) {
            0 => 0,
            since => self.clock.load(Ordering::Relaxed).saturating_sub(since),
        };
        of(&self.means).max(silent.saturating_mul(UNITS))
    }
}
