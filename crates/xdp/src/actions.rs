//! The actions in use: equal ones are one.
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use foldhash::fast::RandomState;

use crate::action::WORDS;

/// Which actions are where, and how many entries name each.
#[derive(Debug)]
pub(crate) struct Actions {
    by_words: HashMap<[u64; WORDS], u32, RandomState>,
    slots: Vec<Option<Used>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Used {
    words: [u64; WORDS],
    entries: u32,
}

impl Actions {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            by_words: HashMap::default(),
            slots: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).rev().collect(),
        }
    }

    /// The place of an action with these words for one more entry; `None` if all are used.
    pub(crate) fn take(&mut self, words: [u64; WORDS], memory: &[AtomicU64]) -> Option<u32> {
        if let Some(&index) = self.by_words.get(&words)
            && let Some(Some(used)) = self.slots.get_mut(index as usize)
        {
            used.entries += 1;
            return Some(index);
        }
        let index = *self.free.last()?;
        write(memory.get(index as usize * WORDS..)?.first_chunk()?, &words);
        *self.slots.get_mut(index as usize)? = Some(Used { words, entries: 1 });
        self.free.pop();
        self.by_words.insert(words, index);
        Some(index)
    }

    /// One entry fewer names the action; with the last its place is free.
    pub(crate) fn release(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(used) = slot else { return };
        used.entries -= 1;
        if used.entries == 0 {
            self.by_words.remove(&used.words);
            *slot = None;
            self.free.push(index);
        }
    }
}

/// Replaces an action while the program may read it: its sequence is odd meanwhile.
fn write(memory: &[AtomicU64; WORDS], words: &[u64; WORDS]) {
    let sequence = memory[0].load(Ordering::Relaxed) as u32;
    memory[0].store(u64::from(sequence | 1), Ordering::Relaxed);
    fence(Ordering::Release);
    for (to, from) in memory.iter().zip(words).skip(1) {
        to.store(*from, Ordering::Relaxed);
    }
    let even = u64::from(sequence.wrapping_add(2));
    memory[0].store(words[0] | even, Ordering::Release);
}
