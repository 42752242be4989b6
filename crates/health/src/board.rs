//! What is known of every checked backend, for whoever reports it.
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Change, Outcome, Standing, State, TargetKey};

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
pub struct Board {
    records: Mutex<BTreeMap<TargetKey, Record>>,
    standings: Mutex<BTreeMap<TargetKey, Standing>>,
}

impl Board {
    /// What is known of `key`; `None` if it isn't checked.
    #[must_use]
    pub fn get(&self, key: &TargetKey) -> Option<Record> {
        self.lock().get(key).cloned()
    }

    /// What passive signals say of `key`; `None` if they don't count.
    #[must_use]
    pub fn standing(&self, key: &TargetKey) -> Option<Standing> {
        locked(&self.standings).get(key).cloned()
    }

    /// These are the backends whose passive signals count, and what the signals say.
    pub fn set_standings(&self, standings: BTreeMap<TargetKey, Standing>) {
        *locked(&self.standings) = standings;
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
        locked(&self.records)
    }
}

/// Nothing that is done under these locks can leave its data half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
