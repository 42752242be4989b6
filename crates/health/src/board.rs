//! What is known of every checked backend, for whoever reports it.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Change, Outcome, State, TargetKey};

/// What is known of one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What the backend is.
    pub state: State,
    /// Its part of the configured weight, in percent.
    pub percent: u8,
    /// Since when, by the clock of the checks.
    pub since_ms: u64,
    /// Probes that passed.
    pub passed: u64,
    /// Probes that failed.
    pub failed: u64,
    /// How often it has come up or gone down.
    pub transitions: u64,
    /// Why the last probe failed; empty if it passed.
    pub last_failure: String,
}

/// The records of all checked backends. Only slow threads have it.
#[derive(Debug, Default)]
pub struct Board(Mutex<BTreeMap<TargetKey, Record>>);

impl Board {
    /// What is known of `key`; `None` if it isn't checked.
    #[must_use]
    pub fn get(&self, key: &TargetKey) -> Option<Record> {
        self.lock().get(key).cloned()
    }

    /// Only those of which `stays` have records from now on, and others have new ones.
    pub(crate) fn keep(&self, keys: impl Iterator<Item = TargetKey>, now_ms: u64) {
        let mut records = self.lock();
        let mut old = std::mem::take(&mut *records);
        for key in keys {
            let record = old.remove(&key).unwrap_or(Record {
                state: State::Unknown,
                percent: 100,
                since_ms: now_ms,
                passed: 0,
                failed: 0,
                transitions: 0,
                last_failure: String::new(),
            });
            records.insert(key, record);
        }
    }

    pub(crate) fn note(&self, key: &TargetKey, outcome: &Outcome) {
        let mut records = self.lock();
        let Some(record) = records.get_mut(key) else { return };
        match outcome {
            Outcome::Passed => {
                record.passed += 1;
                record.last_failure.clear();
            }
            Outcome::Failed(why) => {
                record.failed += 1;
                record.last_failure.clone_from(why);
            }
        }
    }

    pub(crate) fn change(&self, key: &TargetKey, change: &Change, now_ms: u64) {
        let mut records = self.lock();
        let Some(record) = records.get_mut(key) else { return };
        if record.state != change.state {
            record.transitions += u64::from(record.state != State::Unknown || change.percent == 0);
            record.since_ms = now_ms;
        }
        (record.state, record.percent) = (change.state, change.percent);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TargetKey, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
