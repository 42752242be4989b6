//! What keeps private keys in the memory of this process: no core dump, no debugger but
//! root's, and no page of it on a disk.
use config::Config;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Guards the process if it reads private keys, before it does. What the system refuses is
/// logged, with what would allow it.
pub(crate) fn guard(config: &Config) {
    if config.services.iter().any(|service| service.tls.is_some()) {
        guard_process();
    }
}

fn guard_process() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("a core dump of this process would have the private keys: {error}");
    }
    // Pages that are not used yet are locked when they are: DPDK maps much that it never
    // touches.
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(all) {
        tracing::warn!(
            "private keys may get to swap: the memory cannot be locked: {error}; allow it with \
             LimitMEMLOCK=infinity in the unit, or with CAP_IPC_LOCK"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    /// In a test process of its own nothing else depends on this.
    #[test]
    fn a_guarded_process_is_neither_dumped_nor_swapped() {
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        guard_process();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        // Without the right to lock memory this can't be seen.
        if rustix::process::geteuid().is_root() {
            assert!(locked() > 0);
        }
    }
}
