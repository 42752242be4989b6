//! Lets a worker leave one of its receive queues alone for a while, and tell when it does.
use std::sync::atomic::{AtomicU32, Ordering};

/// One gate for each receive queue of a port: the balancing thread shuts and opens it,
/// the worker that polls the queue asks before each poll.
#[derive(Debug)]
pub struct Gates(Box<[Gate]>);

/// Counts how often it was shut and opened, so that no answer is taken for a later one.
#[derive(Debug, Default)]
struct Gate {
    /// Odd: shut.
    asked: AtomicU32,
    /// The number of `asked` that the worker has seen last while it was odd.
    seen: AtomicU32,
}

impl Gates {
    /// Open gates for `queues` queues.
    #[must_use]
    pub fn new(queues: usize) -> Self {
        Self((0..queues).map(|_| Gate::default()).collect())
    }

    /// Shuts the gate of `queue`. It must be open, and one thread shuts and opens.
    pub fn shut(&self, queue: u16) {
        if let Some(gate) = self.0.get(usize::from(queue)) {
            gate.asked.fetch_or(1, Ordering::Release);
        }
    }

    /// Opens the gate of `queue`, which is shut.
    pub fn open(&self, queue: u16) {
        if let Some(gate) = self.0.get(usize::from(queue)) {
            gate.asked.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether the worker has seen that the gate of `queue` is shut: it has processed
    /// what it has polled from there, and does not poll until the gate opens.
    #[must_use]
    pub fn is_left(&self, queue: u16) -> bool {
        self.0.get(usize::from(queue)).is_some_and(|gate| {
            let asked = gate.asked.load(Ordering::Relaxed);
            asked % 2 == 1 && gate.seen.load(Ordering::Acquire) == asked
        })
    }

    /// Asked by the worker before it polls `queue`: whether it may.
    #[inline]
    pub fn lets(&self, queue: u16) -> bool {
        let Some(gate) = self.0.get(usize::from(queue)) else { return true };
        let asked = gate.asked.load(Ordering::Acquire);
        if asked % 2 == 0 {
            return true;
        }
        gate.seen.store(asked, Ordering::Release);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_one_time_only() {
        let gates = Gates::new(2);
        assert!(gates.lets(1) && !gates.is_left(1));
        gates.shut(1);
        assert!(!gates.is_left(1), "the worker has not been there yet");
        assert!(!gates.lets(1) && gates.is_left(1) && gates.lets(0));
        gates.open(1);
        assert!(!gates.is_left(1));
        gates.shut(1);
        assert!(!gates.is_left(1), "the answer was to the time before");
        assert!(!gates.lets(1) && gates.is_left(1));
    }
}
