//! Huge pages for everything that is compared, or for nothing: DPDK's tables
//! get them from hugetlbfs, the connection table as transparent ones.
use std::fmt;
use std::fs::{read_to_string, write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use dpdk::{Eal, EalConfig, EalError, HugePages};

/// Huge pages that are reserved.
const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
/// Whether the kernel has transparent ones.
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const MEMINFO: &str = "/proc/meminfo";

/// DPDK, started, with huge pages on both sides of a comparison or on none.
pub(crate) struct Memory {
    eal: Eal,
    huge: bool,
    // Last: pages are given back once DPDK has let go of them.
    _reserved: Option<Reserved>,
}

impl Memory {
    /// Starts DPDK with `megabytes`. If there are not enough huge pages, or
    /// `ordinary` ones are asked for, transparent huge pages are switched off
    /// for this process, so that no table has any.
    pub(crate) fn start(megabytes: u32, ordinary: bool) -> Result<Self, EalError> {
        let never = read_to_string(TRANSPARENT).map_or(true, |text| text.contains("[never]"));
        let reserved = if ordinary || never { Err(()) } else { Reserved::get(megabytes) };
        let huge = reserved.is_ok();
        if !huge {
            // Where the kernel refuses, it has no transparent huge pages either.
            let _ = rustix::thread::disable_transparent_huge_pages(true);
        }
        let huge_pages = if huge { HugePages::Require } else { HugePages::Never };
        let eal =
            Eal::init(&EalConfig { memory_mb: megabytes, huge_pages, ..EalConfig::default() })?;
        Ok(Self { eal, huge, _reserved: reserved.ok().flatten() })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = match self.eal.memory() {
            dpdk::Memory::Huge { megabytes } | dpdk::Memory::Ordinary { megabytes, .. } => {
                megabytes
            }
        };
        let kind = if self.huge { "huge" } else { "ordinary" };
        write!(f, "{kind} pages for all systems, {megabytes} MB of DPDK's and the connection table")
    }
}

/// Huge pages reserved for this run. A process of their own gives them back when this
/// one ends, however it ends. What others reserve meanwhile stays.
struct Reserved {
    /// Gives the pages back when its standard input ends.
    keeper: Child,
}

/// Reads until the end of standard input, then lowers the number in the file `$1` by
/// `$2`. What ends this process is not to end that one.
const GIVE_BACK: &str = r#"trap "" INT TERM HUP
while read -r _; do :; done
echo $(($(cat "$1") - $2)) > "$1""#;

impl Reserved {
    /// `None`: enough are free already. `Err`: there can't be enough.
    fn get(megabytes: u32) -> Result<Option<Self>, ()> {
        let wanted = u64::from(megabytes);
        if free_megabytes().ok_or(())? >= wanted {
            return Ok(None);
        }
        let before = reserved().ok_or(())?;
        write(RESERVED, (before + pages(wanted)).to_string()).map_err(drop)?;
        // The kernel may have found fewer: those are given back.
        let more = reserved().ok_or(())?.saturating_sub(before);
        let Ok(reserved) = Self::keep(RESERVED, more) else {
            let _ = write(RESERVED, before.to_string());
            return Err(());
        };
        if free_megabytes().ok_or(())? >= wanted { Ok(Some(reserved)) } else { Err(()) }
    }

    /// So many of the pages in `file` go when this process has ended, or `Self` is
    /// dropped.
    fn keep(file: &str, pages: u64) -> std::io::Result<Self> {
        let keeper = Command::new("sh")
            .args(["-c", GIVE_BACK, "sh", file, &pages.to_string()])
            .stdin(Stdio::piped())
            // A signal to the group of this process is none to that one.
            .process_group(0)
            .spawn()?;
        Ok(Self { keeper })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // Lowering the number was allowed before; if it is refused, an operator sees
        // the pages in /proc/meminfo.
        let _ = self.keeper.wait();
    }
}

/// Huge pages that are reserved, free and in use.
fn reserved() -> Option<u64> {
    read_to_string(RESERVED).ok()?.trim().parse().ok()
}

/// Kilobytes of the line `name`, or the number that it is.
fn field(name: &str) -> Option<u64> {
    let text = read_to_string(MEMINFO).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').split_ascii_whitespace().next()?.parse().ok()
}

fn free_megabytes() -> Option<u64> {
    Some(field("HugePages_Free")? * field("Hugepagesize")? / 1024)
}

/// Huge pages of `megabytes` and a few for what DPDK takes beside.
fn pages(megabytes: u64) -> u64 {
    (megabytes + 64) * 1024 / field("Hugepagesize").unwrap_or(2048).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_given_back_at_the_end_of_the_process() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let now = || read_to_string(path).unwrap().trim().to_owned();
        write(path, "700").unwrap();
        let first = Reserved::keep(path, 544).unwrap();
        let mut second = Reserved::keep(path, 100).unwrap();
        assert_eq!(now(), "700");
        drop(first);
        assert_eq!(now(), "156");
        // What the kernel does for a process that was killed.
        drop(second.keeper.stdin.take());
        second.keeper.wait().unwrap();
        assert_eq!(now(), "56");
    }
}
