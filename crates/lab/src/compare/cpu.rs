//! Processor time as the kernel counts it.

use std::path::Path;

use crate::LabError;

/// Nanoseconds of one of the kernel's ticks for user space: `USER_HZ` is 100 on
/// every architecture that DPDK runs on.
const TICK_NS: u64 = 10_000_000;

/// utime + stime of a process with all its threads, in nanoseconds (proc(5),
/// fields 14 and 15 of `/proc/PID/stat`).
pub(crate) fn process_ns(pid: u32) -> Result<u64, LabError> {
    process_times_ns(pid).map(|[user, system]| user + system)
}

/// utime and stime of a process, in nanoseconds.
pub(crate) fn process_times_ns(pid: u32) -> Result<[u64; 2], LabError> {
    let file = format!("/proc/{pid}/stat");
    let text = read(&file)?;
    times(&text).ok_or_else(|| bad(&file, &text))
}

/// utime and stime of those threads of a process whose names begin with `name`, in
/// nanoseconds.
pub(crate) fn threads_times_ns(pid: u32, name: &str) -> Result<[u64; 2], LabError> {
    let dir = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(&dir).map_err(LabError::io(format!("read {dir}")))?;
    let mut sums = [0; 2];
    for task in tasks.flatten() {
        let of = |file: &str| read(&task.path().join(file).display().to_string());
        if of("comm").is_ok_and(|own| own.starts_with(name)) {
            let text = of("stat")?;
            let own = times(&text).ok_or_else(|| bad(&dir, &text))?;
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
    }
    Ok(sums)
}

/// Nanoseconds that those threads of a process have run whose names begin with one of
/// `names` (the first field of `/proc/PID/task/TID/schedstat`).
pub(crate) fn threads_ns(pid: u32, names: &[&str]) -> Result<u64, LabError> {
    let dir = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(&dir).map_err(LabError::io(format!("read {dir}")))?;
    let mut sum = 0;
    for task in tasks.flatten() {
        let of = |file: &str| read(&task.path().join(file).display().to_string());
        if names.iter().any(|name| of("comm").is_ok_and(|own| own.starts_with(name))) {
            let text = of("schedstat")?;
            let run = text.split_ascii_whitespace().next().and_then(|own| own.parse::<u64>().ok());
            sum += run.ok_or_else(|| bad(&dir, &text))?;
        }
    }
    Ok(sum)
}

fn times(stat: &str) -> Option<[u64; 2]> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some([user, system].map(|ticks| ticks * TICK_NS))
}

/// Time of all processors in soft interrupts, in nanoseconds (proc(5), field 7
/// of `cpu` in `/proc/stat`).
pub(super) fn softirq_ns() -> Result<u64, LabError> {
    let text = read("/proc/stat")?;
    softirq(&text).ok_or_else(|| bad("/proc/stat", &text))
}

fn softirq(stat: &str) -> Option<u64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: u64 = line.split_ascii_whitespace().nth(7)?.parse().ok()?;
    Some(ticks * TICK_NS)
}

/// Packets received on a device, by the text of `/proc/net/dev`.
pub(super) fn received(table: &str, device: &str) -> Option<u64> {
    let of = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        (name.trim() == device).then(|| counters.split_ascii_whitespace().nth(1)?.parse().ok())?
    };
    table.lines().find_map(of)
}

fn read(file: &str) -> Result<String, LabError> {
    std::fs::read_to_string(Path::new(file)).map_err(LabError::io(format!("read {file}")))
}

fn bad(file: &str, text: &str) -> LabError {
    let line = text.lines().next().unwrap_or_default();
    LabError::Parse { tool: "the kernel", detail: format!("{file}: {line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 25 17 99 99 20 0 3";
        assert_eq!(times(stat), Some([250_000_000, 170_000_000]));
        assert_eq!(times("7 (a) S 1"), None);
        let stat = "cpu  1 2 3 4 5 6 70 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(softirq(stat), Some(700_000_000));
        assert_eq!(softirq("intr 1\n"), None);
        let table = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs\n    lo:       0       0    0\n hnlb0: 9000 123 0 0\n";
        assert_eq!(received(table, "hnlb0"), Some(123));
        assert_eq!(received(table, "hnlb"), None);
    }

    #[test]
    fn own_time_is_there() {
        assert!(process_ns(std::process::id()).is_ok() && softirq_ns().is_ok());
        assert!(process_ns(0).is_err());
    }
}
