//! New connections that a backend has left without an answer.
use std::collections::VecDeque;

/// Connections since the backend's last answer to any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    /// When connections were seen first, and how many; oldest first.
    waiting: VecDeque<(u64, u64)>,
    /// Those that have waited for the whole timeout.
    overdue: u64,
}

impl Silence {
    /// The backend has answered a connection.
    pub(crate) fn end(&mut self) {
        self.waiting.clear();
        self.overdue = 0;
    }

    /// `count` more connections wait at `now_ms`. How many have waited for `timeout_ms` or
    /// longer.
    pub(crate) fn go_on(&mut self, count: u64, timeout_ms: u64, now_ms: u64) -> u64 {
        if count > 0 {
            self.waiting.push_back((now_ms, count));
        }
        while let Some((since_ms, count)) = self.waiting.front().copied()
            && now_ms.saturating_sub(since_ms) >= timeout_ms
        {
            self.overdue = self.overdue.saturating_add(count);
            self.waiting.pop_front();
        }
        self.overdue
    }
}
