//! What keeps secrets in the memory of a process: no core dump, no debugger but root's, and
//! no page of it on a disk.
use config::Config;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// Guards the process if it terminates TLS, before it does: it has the secrets of
/// connections and of tickets. What the system refuses is logged, with what would allow it.
pub(crate) fn guard(config: &Config) {
    if config.services.iter().any(|service| service.tls.is_some()) {
        guard_process();
    }
}

fn guard_process() {
    undumpable();
    lock_memory();
}

fn undumpable() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!("a core dump of this process would have secrets of TLS: {error}");
    }
}

fn lock_memory() {
    // Pages that are not used yet are locked when they are: DPDK maps much that it never
    // touches.
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(all) {
        tracing::warn!(
            "secrets of TLS may get to swap: the memory cannot be locked: {error}; allow it with \
             LimitMEMLOCK=infinity in the unit, or with CAP_IPC_LOCK"
        );
    }
}

/// Takes from a process that has private keys all that it does not need for reading files
/// of its user and signing: core dumps, swap, and the powers of root.
pub(crate) fn withdraw() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let mut refused = vec![("no core dumps", setrlimit(Resource::Core, none))];
    lock_memory();
    // Keys may be files of another user. Without the right to lock memory every allocation
    // beyond the limit would fail from now on.
    let wanted = CapabilitySet::DAC_READ_SEARCH | CapabilitySet::IPC_LOCK;
    let reduced = capabilities(None).and_then(|own| {
        let (kept, none) = (own.permitted & wanted, CapabilitySet::empty());
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: none };
        set_capabilities(None, sets)
    });
    refused.push(("no capability but these", reduced));
    refused.push(("no new powers", set_no_new_privs(true)));
    undumpable();
    for (what, result) in refused {
        if let Err(error) = result {
            tracing::warn!("the process of the private keys: {what}: {error}");
        }
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
