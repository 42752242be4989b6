//! Backends for which a pool was found without a free local endpoint.
use flow::BackendId;

/// Number of remembered backends; a backend takes the place of one whose id agrees
/// modulo this number.
const CELLS: usize = 64;
/// How long an exhausted pool is remembered.
const REMEMBERED_MS: u64 = 1000;

/// One worker's memory of exhausted pools. A full table is not tried again for each
/// SYN of a flood, and neither are all candidates of an exhausted pool. One candidate
/// is tried, so that the worker finds an endpoint that becomes free before the memory
/// ends.
#[derive(Debug)]
pub(crate) struct ExhaustedPools(Box<[Option<(BackendId, u64)>; CELLS]>);

impl Default for ExhaustedPools {
    fn default() -> Self {
        Self(Box::new([None; CELLS]))
    }
}

impl ExhaustedPools {
    /// How many candidates are worth trying for a connection to `backend`.
    pub(crate) fn worth(&self, backend: BackendId, now_ms: u64) -> usize {
        let found = self.0.get(place(backend)).copied().flatten();
        let remembered = found.is_some_and(|(own, found_ms)| {
            own == backend && now_ms.saturating_sub(found_ms) < REMEMBERED_MS
        });
        if remembered { 1 } else { usize::MAX }
    }

    /// All candidates for `backend` were in use.
    pub(crate) fn note(&mut self, backend: BackendId, now_ms: u64) {
        if let Some(cell) = self.0.get_mut(place(backend)) {
            *cell = Some((backend, now_ms));
        }
    }
}

fn place(BackendId(backend): BackendId) -> usize {
    usize::from(backend) % CELLS
}
