//! What all threads together have sent on for each backend and service.
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::{BackendId, ServiceId};

use crate::{BackendCounts, Carried, Codes};

/// The counts of every thread that sends packets on. An id that is lent to another backend
/// begins at zero, and a service keeps what its former backends have counted. For the
/// control side: whoever asks waits for a lock that no worker takes.
#[derive(Debug, Default)]
pub struct BackendTotals {
    writers: Mutex<Vec<Arc<BackendCounts>>>,
    ended: Mutex<Ended>,
}

/// What has been counted for backends that are gone.
#[derive(Debug, Default)]
struct Ended {
    /// What the counts of an id were when it was last given back.
    before: HashMap<BackendId, Carried>,
    /// By service: all of its backends that are gone.
    services: HashMap<ServiceId, Carried>,
    /// By service: what was answered by no backend when its id was last given back.
    alone: HashMap<ServiceId, Codes>,
}

impl BackendTotals {
    /// The counts of one more thread.
    #[must_use]
    pub fn register(&self) -> Arc<BackendCounts> {
        let counts = Arc::default();
        locked(&self.writers).push(Arc::clone(&counts));
        counts
    }

    /// What was counted for the backend that has the id `backend`.
    #[must_use]
    pub fn backend(&self, backend: BackendId) -> Carried {
        let before = locked(&self.ended).before.get(&backend).copied().unwrap_or_default();
        self.ever(backend).since(before)
    }

    /// What was counted for backends of `service` that are gone.
    #[must_use]
    pub fn gone(&self, service: ServiceId) -> Carried {
        locked(&self.ended).services.get(&service).copied().unwrap_or_default()
    }

    /// What of `service` was answered by no backend, by the status code.
    #[must_use]
    pub fn alone(&self, service: ServiceId) -> Codes {
        let before = locked(&self.ended).alone.get(&service).copied().unwrap_or_default();
        self.ever_alone(service).by_number(before, u64::saturating_sub)
    }

    fn ever_alone(&self, service: ServiceId) -> Codes {
        let writers = locked(&self.writers);
        let all = writers.iter().map(|own| own.alone(service));
        all.fold(Codes::default(), |sum, own| sum.by_number(own, u64::wrapping_add))
    }

    /// The backend of `service` that has the id `backend` is gone, and no thread counts
    /// anything for it any more.
    pub fn retire(&self, service: ServiceId, backend: BackendId) {
        let ever = self.ever(backend);
        let mut ended = locked(&self.ended);
        let before = ended.before.insert(backend, ever).unwrap_or_default();
        let sum = ended.services.entry(service).or_default();
        *sum = sum.plus(ever.since(before));
    }

    /// `service` and its backends are gone.
    pub fn forget(&self, service: ServiceId) {
        let alone = self.ever_alone(service);
        let mut ended = locked(&self.ended);
        ended.services.remove(&service);
        ended.alone.insert(service, alone);
    }

    /// What was counted under the id `backend` since the start.
    fn ever(&self, backend: BackendId) -> Carried {
        let writers = locked(&self.writers);
        writers.iter().fold(Carried::default(), |sum, own| sum.plus(own.of(backend)))
    }
}

/// Nothing that is done under these locks can leave its data half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use flow::{Account, Direction};

    use super::*;
    use crate::AnswerTimes;

    fn to(backend: u16) -> Account {
        Account { backend: BackendId(backend), direction: Direction::Forward }
    }

    #[test]
    fn an_id_that_is_lent_again_begins_at_zero_and_its_service_keeps_the_sum() {
        let totals = BackendTotals::default();
        let (first, second) = (totals.register(), totals.register());
        let (web, id) = (ServiceId(3), BackendId(u16::MAX));
        let from = Account { backend: id, direction: Direction::Reply };
        first.ways().carry(to(id.0), 60);
        second.ways().carry_many(from, 2, 3000);
        second.opened(id);
        second.asked(id);
        first.refused(id);
        first.reset(from);
        for (thread, after_ms) in [(&first, 0), (&second, 1), (&second, 4), (&first, u16::MAX)] {
            thread.answered(id, after_ms);
        }
        let mut answers = AnswerTimes { sum_ms: 5 + u64::from(u16::MAX), ..AnswerTimes::default() };
        [0, 1, 2, 13].into_iter().for_each(|place| answers.counts[place] = 1);
        let mut first_bytes = AnswerTimes { sum_ms: 100_007, ..AnswerTimes::default() };
        for (thread, status, after_ms, place) in
            [(&first, 200, 7, 3), (&second, 503, 100_000, 13), (&first, 101, 0, 0)]
        {
            thread.responded(id, status, after_ms);
            first_bytes.counts[place] += 1;
        }
        let sum = Carried {
            packets: [1, 2],
            bytes: [60, 3000],
            opened: 1,
            resets: [0, 1],
            asked: 1,
            refused: 1,
            answers,
            responses: Codes::of(&[101, 200, 503]),
            first_bytes,
        };
        assert_eq!((totals.backend(id), totals.gone(web)), (sum, Carried::default()));
        totals.retire(web, id);
        assert_eq!((totals.backend(id), totals.gone(web)), (Carried::default(), sum));
        first.ways().carry(to(id.0), 100);
        let next = Carried { packets: [1, 0], bytes: [100, 0], ..Carried::default() };
        assert_eq!(totals.backend(id), next);
        totals.retire(web, id);
        assert_eq!((totals.backend(id), totals.gone(web)), (Carried::default(), sum.plus(next)));
        totals.forget(web);
        assert_eq!(totals.gone(web), Carried::default());
    }

    #[test]
    fn what_no_backend_answers_counts_for_the_service() {
        let totals = BackendTotals::default();
        let (first, second) = (totals.register(), totals.register());
        let (web, other) = (ServiceId(3), ServiceId(4));
        for (thread, status) in [(&first, 404), (&second, 499), (&first, 301), (&second, 0)] {
            thread.answered_alone(web, status);
        }
        first.answered_alone(other, 503);
        let (own, others) = (Codes::of(&[404, 499, 301]), Codes::of(&[503]));
        assert_eq!((totals.alone(web), totals.alone(other)), (own, others));
        totals.forget(web);
        assert_eq!((totals.alone(web), totals.alone(other)), (Codes::default(), others));
        second.answered_alone(web, 200);
        assert_eq!(totals.alone(web), Codes::of(&[200]));
    }

    #[test]
    fn backends_and_directions_have_counts_of_their_own() {
        let totals = BackendTotals::default();
        let counts = totals.register();
        for backend in [0, 1, 2, 32_767, 32_768, u16::MAX] {
            counts.ways().carry(to(backend), usize::from(backend));
        }
        for backend in [0, 1, 2, 32_767, 32_768, u16::MAX] {
            let own = totals.backend(BackendId(backend));
            assert_eq!((own.packets, own.bytes), ([1, 0], [backend.into(), 0]));
        }
        assert_eq!(totals.backend(BackendId(3)), Carried::default());
    }
}
