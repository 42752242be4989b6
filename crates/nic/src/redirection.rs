//! The redirection table (RETA) and its updates, which the receive path may see late.
use std::collections::VecDeque;

/// A changed entry: its number and its queue.
type Entry = (u16, u16);

/// How the receive path takes up an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lateness {
    /// Nanoseconds until all frames go by the new entries.
    pub(crate) ns: u64,
    /// Whether every other frame goes by them already before.
    pub(crate) mixed: bool,
}

/// An update that the receive path has not taken up yet.
struct Update {
    due_ns: u64,
    mixed: bool,
    entries: Vec<Entry>,
}

/// A power of two of queue numbers.
pub(crate) struct Redirection {
    /// What the receive path goes by.
    live: Box<[u16]>,
    /// What the host has written.
    written: Box<[u16]>,
    /// The queue of all entries, if they have the same.
    pub(crate) only: Option<u16>,
    updates: VecDeque<Update>,
    /// Whether the next frame goes by what is written, while an update is mixed.
    ahead: bool,
    updated: u64,
}

impl Redirection {
    pub(crate) fn new(entries: Vec<u16>) -> Self {
        let live: Box<[u16]> = entries.into();
        let (written, updates) = (live.clone(), VecDeque::new());
        let mut table = Self { live, written, only: None, updates, ahead: false, updated: 0 };
        table.only = table.common_queue();
        table
    }

    /// Entries that the host has written.
    pub(crate) fn written(&self) -> &[u16] {
        &self.written
    }

    /// Updates since the start.
    pub(crate) const fn updated(&self) -> u64 {
        self.updated
    }

    /// The queue of a frame.
    #[inline]
    pub(crate) fn queue(&mut self, hash: u32) -> u16 {
        let index = hash as usize & (self.live.len() - 1);
        if !self.updates.is_empty() && self.goes_ahead() {
            return self.written.get(index).copied().unwrap_or(0);
        }
        self.live.get(index).copied().unwrap_or(0)
    }

    /// Changes entries, all of which exist.
    pub(crate) fn update(&mut self, entries: &[Entry], now_ns: u64, late: Lateness) {
        write(&mut self.written, entries);
        self.updated += 1;
        // An update does not overtake the one before.
        let before_ns = self.updates.back().map_or(0, |update| update.due_ns);
        let due_ns = now_ns.saturating_add(late.ns).max(before_ns);
        self.updates.push_back(Update { due_ns, mixed: late.mixed, entries: entries.to_vec() });
        self.only = None;
        self.advance(now_ns);
    }

    /// Takes up what is due.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while self.updates.front().is_some_and(|update| update.due_ns <= now_ns) {
            if let Some(update) = self.updates.pop_front() {
                write(&mut self.live, &update.entries);
            }
            if self.updates.is_empty() {
                self.only = self.common_queue();
            }
        }
    }

    #[cold]
    fn goes_ahead(&mut self) -> bool {
        self.ahead = !self.ahead;
        self.ahead && self.updates.iter().any(|update| update.mixed)
    }

    fn common_queue(&self) -> Option<u16> {
        let first = self.live.first().copied()?;
        self.live.iter().all(|queue| *queue == first).then_some(first)
    }
}

fn write(table: &mut [u16], entries: &[Entry]) {
    for (entry, queue) in entries {
        if let Some(place) = table.get_mut(usize::from(*entry)) {
            *place = *queue;
        }
    }
}
