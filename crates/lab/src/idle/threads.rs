//! What the kernel counts for each thread of a process.
use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::LabError;

/// One thread over the time of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ThreadRow {
    pub(super) name: String,
    /// Of a core.
    pub(super) percent: f64,
    /// How often a second it gave up its core and got it again.
    pub(super) wakes: f64,
}

/// What a thread has used since its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Used {
    name: String,
    ns: u64,
    wakes: u64,
}

/// Every thread of process `pid`, by its id (proc(5): `comm`, `schedstat`, `status`).
pub(super) fn used(pid: u32) -> Result<BTreeMap<u32, Used>, LabError> {
    let dir = format!("/proc/{pid}/task");
    let list = std::fs::read_dir(&dir).map_err(LabError::io(format!("read {dir}")))?;
    let ids = list.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A thread may end meanwhile.
    Ok(ids.filter_map(|id| Some((id, of(&Path::new(&dir).join(id.to_string()))?))).collect())
}

fn of(dir: &Path) -> Option<Used> {
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).ok();
    let name = read("comm")?.trim().to_owned();
    let ns = read("schedstat")?.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Used { name, ns, wakes: wakes(&read("status")?)? })
}

fn wakes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// What was used in `seconds`, the busiest thread first.
pub(super) fn between(
    before: &BTreeMap<u32, Used>,
    after: &BTreeMap<u32, Used>,
    seconds: f64,
) -> Vec<ThreadRow> {
    let both = after.iter().filter_map(|(id, now)| Some((before.get(id)?, now)));
    let mut rows: Vec<ThreadRow> = both
        .map(|(was, now)| ThreadRow {
            name: now.name.clone(),
            percent: now.ns.saturating_sub(was.ns) as f64 / seconds / 1e7,
            wakes: now.wakes.saturating_sub(was.wakes) as f64 / seconds,
        })
        .collect();
    rows.sort_by(|a, b| b.percent.total_cmp(&a.percent).then_with(|| a.name.cmp(&b.name)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_the_time() {
        let used = |name: &str, ns, wakes| Used { name: name.to_owned(), ns, wakes };
        let before = [(1, used("a", 5, 1)), (2, used("b", 0, 0))].into_iter().collect();
        let after = [(1, used("a", 5, 41)), (2, used("b", 400_000_000, 0)), (3, used("c", 9, 9))];
        let rows = between(&before, &after.into_iter().collect(), 4.0);
        let row = |name: &str, percent, wakes| ThreadRow { name: name.to_owned(), percent, wakes };
        assert_eq!(rows, [row("b", 10.0, 0.0), row("a", 0.0, 10.0)]);
        assert_eq!(
            wakes("Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t3\n"),
            Some(150)
        );
    }

    #[test]
    fn own_threads_are_found() {
        let own = used(std::process::id()).unwrap();
        assert!(own.values().any(|own| own.ns > 0));
    }
}
