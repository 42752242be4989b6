//! DPDK's telemetry socket: commands of our own beside those that DPDK's libraries
//! register (`/ethdev/stats` and so on).
//!
//! EAL listens at the socket if [`EalConfig::telemetry`](crate::EalConfig) says so, and
//! answers each client on a thread of its own. DPDK can't forget a command, so that a
//! command whose [`Telemetry`] is gone answers `null`.
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpdk_sys as sys;

use crate::errno;
use crate::live::{Live, NotRunning};

/// Bytes of a name, and of a text within a table or a list.
const LONGEST: usize = sys::RTE_TEL_MAX_STRING_LEN as usize - 1;

/// A value in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A text, of which the first 127 bytes are shown.
    Text(String),
}

/// What a command answers. DPDK's bounds hold: 256 lines of a table, 512 of a list, 16 KiB
/// of JSON; what is beyond them is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Values by name. Letters that DPDK allows in no name become `_`.
    Table(Vec<(String, Value)>),
    /// Texts in their order.
    List(Vec<String>),
}

/// A command and its help, of at most 55 and 127 bytes.
pub type Command = (&'static str, &'static str);

/// Answers a command, given what a client wrote behind its comma; `None` is sent as
/// `null`.
pub type Answers = Box<dyn Fn(&str, &str) -> Option<Answer> + Send>;

/// Commands can't be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TelemetryError {
    /// EAL does not run.
    #[error(transparent)]
    NotRunning(#[from] NotRunning),
    /// Others are served.
    #[error("telemetry commands are served already")]
    Again,
    /// DPDK refused a command.
    #[error("DPDK refused the telemetry command {0}: {1}")]
    Refused(&'static str, String),
}

/// Who answers, and what has been registered.
struct State {
    answers: Option<Answers>,
    registered: BTreeSet<&'static str>,
}

static STATE: Mutex<State> = Mutex::new(State { answers: None, registered: BTreeSet::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Commands that are served until this is dropped.
#[derive(Debug)]
#[must_use = "the commands answer null once this is dropped"]
pub struct Telemetry {
    _live: Live,
}

impl Telemetry {
    /// Serves `commands` by `answers`.
    ///
    /// # Errors
    /// EAL does not run, other commands are served, or DPDK refuses one.
    pub fn serve(commands: &[Command], answers: Answers) -> Result<Self, TelemetryError> {
        let live = Live::new()?;
        let mut state = state();
        if state.answers.is_some() {
            return Err(TelemetryError::Again);
        }
        for (command, help) in commands {
            if state.registered.insert(command) {
                register(command, help)?;
            }
        }
        state.answers = Some(answers);
        Ok(Self { _live: live })
    }

    /// The socket, for clients on this machine; `None` if EAL listens at none. DPDK adds
    /// `:1` and so on to its usual name if other processes have it.
    #[must_use]
    pub fn socket(&self) -> Option<PathBuf> {
        // SAFETY: EAL runs; the text lives as long as the process.
        let directory = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
        let directory = Path::new(std::ffi::OsStr::from_bytes(directory.to_bytes()));
        let table = std::fs::read_to_string("/proc/self/net/unix").ok()?;
        let name = directory.join("dpdk_telemetry.v2");
        listening(&table, name.to_str()?, &own_sockets())
    }
}

impl Drop for Telemetry {
    /// Waits for an answer that is being made.
    fn drop(&mut self) {
        state().answers = None;
    }
}

fn register(command: &'static str, help: &str) -> Result<(), TelemetryError> {
    let refused = |why: String| TelemetryError::Refused(command, why);
    let word = |text: &str| CString::new(text).map_err(|error| refused(error.to_string()));
    let (name, help) = (word(command)?, word(help)?);
    // SAFETY: two C strings, which DPDK copies, and a function that lives for ever.
    match unsafe { sys::rte_telemetry_register_cmd(name.as_ptr(), Some(call), help.as_ptr()) } {
        0 => Ok(()),
        code => Err(refused(errno::text(code))),
    }
}

/// What DPDK calls for a command, on a thread of its own.
unsafe extern "C" fn call(
    command: *const c_char,
    parameters: *const c_char,
    out: *mut sys::rte_tel_data,
) -> c_int {
    let text = |words: *const c_char| match words.is_null() {
        true => String::new(),
        // SAFETY: DPDK gives a C string, which lives during the call.
        false => unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned(),
    };
    let answer = match &state().answers {
        Some(answers) => answers(&text(command), &text(parameters)),
        None => None,
    };
    match answer {
        Some(Answer::Table(lines)) => table(out, &lines),
        Some(Answer::List(lines)) => list(out, &lines),
        None => -1,
    }
}

fn table(out: *mut sys::rte_tel_data, lines: &[(String, Value)]) -> c_int {
    // SAFETY: `out` is DPDK's, and this call's alone.
    let begun = unsafe { sys::rte_tel_data_start_dict(out) };
    for (name, value) in lines.iter().take(sys::RTE_TEL_MAX_DICT_ENTRIES as usize) {
        let name = words(&plain(name));
        // A line that DPDK does not take is missing, which no caller could mend.
        let _ = match value {
            // SAFETY: `out` is as above, the name is a C string, which DPDK copies.
            Value::Number(value) => unsafe { sys::hnlb_tel_add(out, name.as_ptr(), *value) },
            Value::Text(value) => {
                let value = words(value);
                // SAFETY: `out` is as above, both texts are C strings, which DPDK copies.
                unsafe { sys::rte_tel_data_add_dict_string(out, name.as_ptr(), value.as_ptr()) }
            }
        };
    }
    begun
}

fn list(out: *mut sys::rte_tel_data, lines: &[String]) -> c_int {
    // SAFETY: `out` is DPDK's, and this call's alone.
    let begun = unsafe { sys::rte_tel_data_start_array(out, sys::RTE_TEL_STRING_VAL) };
    for line in lines.iter().take(sys::RTE_TEL_MAX_ARRAY_ENTRIES as usize) {
        // SAFETY: as above.
        let _ = unsafe { sys::rte_tel_data_add_array_string(out, words(line).as_ptr()) };
    }
    begun
}

/// `name` in the letters that DPDK allows.
fn plain(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_/".contains(letter);
    name.chars().map(|letter| if allowed(letter) { letter } else { '_' }).collect()
}

/// As much of `text` as DPDK takes.
fn words(text: &str) -> CString {
    let text: String = text.chars().filter(|letter| *letter != '\0').collect();
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    CString::new(text.get(..end).unwrap_or_default()).unwrap_or_default()
}

/// The inodes of this process' sockets.
fn own_sockets() -> BTreeSet<String> {
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else { return BTreeSet::new() };
    let names = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let inode = |name: PathBuf| {
        let name = name.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(name.to_owned())
    };
    names.filter_map(inode).collect()
}

/// The path in `table`, which is /proc/net/unix, that is `name` or begins with it and a
/// colon, and belongs to one of the `sockets`.
fn listening(table: &str, name: &str, sockets: &BTreeSet<String>) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        // Number, references, protocol, flags, type, state, inode, path.
        let mut fields = line.split_whitespace();
        let inode = fields.nth(6)?;
        let path = fields.next()?;
        let rest = path.strip_prefix(name)?;
        let is_ours = sockets.contains(inode) && (rest.is_empty() || rest.starts_with(':'));
        is_ours.then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_the_one_that_this_process_has() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0: 00000002 00000000 00010000 0005 01 7 /run/dpdk/rte/dpdk_telemetry.v2\n\
            0: 00000002 00000000 00010000 0005 01 8 /run/dpdk/rte/dpdk_telemetry.v2:1\n\
            0: 00000003 00000000 00000000 0001 03 9\n";
        let of = |inode: &str| {
            listening(table, "/run/dpdk/rte/dpdk_telemetry.v2", &[inode.to_owned()].into())
        };
        assert_eq!(of("7"), Some(PathBuf::from("/run/dpdk/rte/dpdk_telemetry.v2")));
        assert_eq!(of("8"), Some(PathBuf::from("/run/dpdk/rte/dpdk_telemetry.v2:1")));
        assert_eq!(of("9"), None);
    }

    #[test]
    fn names_and_texts_are_cut_to_what_dpdk_takes() {
        assert_eq!(plain("a-b.c/d_1é"), "a_b_c/d_1_");
        let long = words(&"é".repeat(LONGEST));
        assert_eq!(long.as_bytes().len(), LONGEST - 1, "no half letter");
        assert_eq!(words("a\0b").as_bytes(), b"ab");
    }
}
