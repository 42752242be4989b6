//! Why the kernel's verifier refuses a program: libbpf has its log, and only prints it.
use std::cell::RefCell;

use libbpf_rs::{PrintLevel, set_print};

/// What libbpf prints before and after the verifier's log.
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";
const END: &str = "-- END PROG LOAD LOG --";

/// How the lines begin that the verifier adds to each log, whatever its verdict.
const STATISTICS: [&str; 4] = ["processed ", "verification time ", "stack depth ", "peak_states "];

thread_local! {
    /// The last verdict on a program that this thread loads: libbpf prints in the thread
    /// that has called it.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Does `load`; nothing that libbpf prints goes to the terminal. Also returns the last
/// line of the verifier's log, if there is one.
pub(crate) fn of<T>(load: impl FnOnce() -> T) -> (T, Option<String>) {
    set_print(Some((PrintLevel::Warn, hear)));
    LAST.take();
    (load(), LAST.take())
}

fn hear(_: PrintLevel, text: String) {
    if let Some(verdict) = verdict(&text) {
        LAST.set(Some(verdict.to_owned()));
    }
}

/// The last line of the log in `text` that is not one of its statistics.
fn verdict(text: &str) -> Option<&str> {
    let (_, log) = text.split_once(BEGIN)?;
    let log = log.split(END).next()?;
    let of_the_program = |line: &&str| {
        !line.is_empty() && !STATISTICS.iter().any(|statistic| line.starts_with(statistic))
    };
    log.lines().map(str::trim).rfind(of_the_program)
}

#[cfg(test)]
mod tests {
    use super::verdict;

    #[test]
    fn the_verdict_is_the_last_line_before_the_statistics() {
        let log = "libbpf: prog 'p': -- BEGIN PROG LOAD LOG --\n\
                   0: (61) r2 = *(u32 *)(r1 +0)\n\
                   invalid access to packet, off=13 size=1, R2(id=0,off=13,r=0)\n\
                   R2 offset is outside of the packet\n\
                   processed 2 insns (limit 1000000) max_states_per_insn 0\n\
                   -- END PROG LOAD LOG --\n";
        assert_eq!(verdict(log), Some("R2 offset is outside of the packet"));
    }

    #[test]
    fn other_lines_of_libbpf_and_empty_logs_have_no_verdict() {
        assert_eq!(verdict("libbpf: failed to load object 'p'\n"), None);
        assert_eq!(verdict("-- BEGIN PROG LOAD LOG --\nprocessed 0 insns\n"), None);
        assert_eq!(verdict("-- BEGIN PROG LOAD LOG --"), None);
    }
}
