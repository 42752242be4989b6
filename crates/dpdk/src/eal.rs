//! DPDK's environment: started once per process, from a typed configuration.
use std::ffi::{CString, c_char, c_int};
use std::marker::PhantomData;

use crate::hugepages::{self, HugePages, Memory};
use crate::live::StillInUse;
use crate::log::LogLevel;
use crate::{errno, live, log};

/// How EAL is started.
#[derive(Clone, Debug)]
pub struct EalConfig {
    /// The program's name, the first of EAL's arguments.
    pub program: String,
    /// Further EAL arguments, as on the command line, for instance
    /// `-a 0000:01:00.0`. They come last.
    pub args: Vec<String>,
    /// Memory to reserve, in megabytes. With huge pages EAL may take more later.
    pub memory_mb: u32,
    /// Whether to use huge pages.
    pub huge_pages: HugePages,
    /// Cores EAL gives an lcore and pins; workers started with
    /// [`register_thread`](crate::register_thread) need none. Empty: one lcore
    /// for the calling thread, which may still run on any of its processors.
    pub lcores: Vec<u32>,
    /// The calling thread's lcore, one of `lcores`; `None`: the first.
    pub main_lcore: Option<u32>,
    /// `None`: everything in memory of this process only. With a prefix EAL
    /// writes run-time files under it, so that DPDK's tools can attach; huge
    /// pages then need a mounted hugetlbfs. Means nothing without huge pages.
    pub file_prefix: Option<String>,
    /// Whether to look for PCI devices.
    pub pci: bool,
    /// Whether EAL listens at a [telemetry](crate::telemetry) socket, for which it makes a
    /// directory.
    pub telemetry: bool,
    /// The least severe message shown on stderr.
    pub log_level: LogLevel,
}

impl Default for EalConfig {
    fn default() -> Self {
        Self {
            program: "hnlb".to_owned(),
            args: Vec::new(),
            memory_mb: 512,
            huge_pages: HugePages::Auto,
            lcores: Vec::new(),
            main_lcore: None,
            file_prefix: None,
            pci: false,
            telemetry: false,
            log_level: LogLevel::Warning,
        }
    }
}

/// EAL was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EalError {
    /// EAL was started a second time.
    #[error("DPDK's environment (EAL) can be started once per process, and was")]
    Again,
    /// Huge pages were required.
    #[error("{wanted} MB of huge pages are required, {free} MB are free{}; reserve them with: {}",
        if *.mount { " and no hugetlbfs is mounted (a file prefix needs one)" } else { "" },
        hugepages::remedy(*.wanted))]
    HugePages {
        /// Megabytes asked for.
        wanted: u32,
        /// Megabytes free.
        free: u64,
        /// Whether a mount is missing.
        mount: bool,
    },
    /// The main lcore is not in the list.
    #[error("main lcore {main} is not one of the lcores {lcores:?}")]
    MainLcore {
        /// What was asked for.
        main: u32,
        /// Out of these.
        lcores: Vec<u32>,
    },
    /// An argument has a NUL byte.
    #[error("EAL argument {0:?} contains a NUL byte")]
    Nul(String),
    /// EAL refused.
    #[error("EAL did not start with the arguments {args:?}: {reason}")]
    Init {
        /// All arguments.
        args: Vec<String>,
        /// EAL's error and log.
        reason: String,
    },
}

/// The running environment. Stays on the thread that started it, and cleans up
/// when dropped, unless something of DPDK is still in use.
#[derive(Debug)]
#[must_use = "EAL is cleaned up when this is dropped"]
pub struct Eal {
    memory: Memory,
    /// EAL is cleaned up by the thread that started it.
    _here: PhantomData<*const ()>,
}

impl Eal {
    /// Starts EAL on the calling thread, which becomes its main lcore.
    ///
    /// # Errors
    /// Wrong arguments, missing memory, or a second start. Once EAL itself has
    /// refused, the process can't try again.
    pub fn init(config: &EalConfig) -> Result<Self, EalError> {
        let memory = choose_memory(config)?;
        let args = arguments(config, &memory)?;
        let words = args
            .iter()
            .map(|arg| CString::new(arg.as_str()).map_err(|_| EalError::Nul(arg.clone())))
            .collect::<Result<Vec<_>, _>>()?;
        match live::start(|| log::explained(|| start(words))) {
            None => Err(EalError::Again),
            Some(Ok(())) => Ok(Self { memory, _here: PhantomData }),
            Some(Err((code, log))) => {
                Err(EalError::Init { args, reason: log::with_log(errno::text(code), &log) })
            }
        }
    }

    /// The memory that was chosen.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Cleans up now, or says what is still in use; then EAL runs on, and this
    /// can be tried again. (The driver net_af_xdp keeps some mbufs for ever.)
    ///
    /// # Errors
    /// What is still in use.
    pub fn shutdown(&mut self) -> Result<(), StillInUse> {
        live::end()
    }
}

impl Drop for Eal {
    fn drop(&mut self) {
        // Handles that are in use at the end of the process go with the process.
        let _ = live::end();
    }
}

/// The version of the DPDK that is linked, as in `DPDK 22.11.11`.
#[must_use]
pub fn version() -> String {
    // SAFETY: 64 bytes are more than the longest version text, which is
    // terminated and static.
    let text = unsafe { std::ffi::CStr::from_ptr(dpdk_sys::rte_version()) };
    text.to_string_lossy().into_owned()
}

/// The time stamp counter of the calling core.
#[must_use]
#[inline]
pub fn cycles() -> u64 {
    // SAFETY: reads a register.
    unsafe { dpdk_sys::hnlb_rdtsc() }
}

/// How many [`cycles`] a second has; 0 before EAL has run.
#[must_use]
pub fn cycles_per_second() -> u64 {
    // SAFETY: reads a number that EAL measures at its start.
    unsafe { dpdk_sys::rte_get_tsc_hz() }
}

/// So many cycles of [`cycles`] in nanoseconds; once EAL runs.
#[must_use]
pub fn nanoseconds(cycles: u64) -> u64 {
    (u128::from(cycles) * 1_000_000_000 / u128::from(cycles_per_second().max(1))) as u64
}

fn start(words: Vec<CString>) -> Result<(), i32> {
    // EAL and libraries keep pointers into the arguments, so they are leaked,
    // once per process.
    let mut argv: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let argc = c_int::try_from(argv.len()).unwrap_or(c_int::MAX);
    argv.push(std::ptr::null_mut());
    let argv = argv.leak();
    // SAFETY: only called here, once, before anything of DPDK runs.
    let logged = unsafe { dpdk_sys::hnlb_log_install() };
    if logged < 0 {
        return Err(logged);
    }
    // SAFETY: argv has argc writable C strings and a null behind them, all of
    // which live for ever; `live::start` makes sure that this runs once.
    let taken = unsafe { dpdk_sys::rte_eal_init(argc, argv.as_mut_ptr()) };
    if taken < 0 { Err(errno::last()) } else { Ok(()) }
}

fn choose_memory(config: &EalConfig) -> Result<Memory, EalError> {
    let megabytes = config.memory_mb;
    if config.huge_pages == HugePages::Never {
        return Ok(Memory::Ordinary { megabytes, free: None });
    }
    let free = hugepages::free_megabytes();
    let mount = config.file_prefix.is_some() && !hugepages::mounted();
    if free >= u64::from(megabytes) && !mount {
        return Ok(Memory::Huge { megabytes });
    }
    match config.huge_pages {
        HugePages::Require => Err(EalError::HugePages { wanted: megabytes, free, mount }),
        _ => Ok(Memory::Ordinary { megabytes, free: Some(free) }),
    }
}

fn arguments(config: &EalConfig, memory: &Memory) -> Result<Vec<String>, EalError> {
    let mut args = vec![config.program.clone()];
    args.push(format!("--log-level={}", config.log_level));
    if !config.telemetry {
        args.push("--no-telemetry".to_owned());
    }
    args.extend(["-m".to_owned(), config.memory_mb.to_string()]);
    match (memory, &config.file_prefix) {
        (Memory::Huge { .. }, Some(prefix)) => args.push(format!("--file-prefix={prefix}")),
        // A device over vhost-user passes on a file for each piece of memory, and may
        // have eight: a page in a file of its own is a piece.
        (Memory::Huge { .. }, None) => {
            args.extend(["--in-memory", "--single-file-segments"].map(str::to_owned));
        }
        // Ordinary pages are the legacy memory model, which --in-memory excludes;
        // this is the part of it that applies: nothing shared, no files.
        (Memory::Ordinary { .. }, _) => {
            args.extend(["--no-huge".to_owned(), "--no-shconf".to_owned()]);
        }
    }
    if !config.pci {
        args.push("--no-pci".to_owned());
    }
    args.extend(lcore_arguments(config)?);
    args.extend(config.args.iter().cloned());
    Ok(args)
}

fn lcore_arguments(config: &EalConfig) -> Result<Vec<String>, EalError> {
    if config.lcores.is_empty() {
        if let Some(main) = config.main_lcore {
            return Ok(vec!["-l".to_owned(), main.to_string()]);
        }
        // One lcore that floats over every processor the thread may use.
        let cores = join(&crate::thread::allowed_cores());
        return Ok(vec!["--lcores".to_owned(), format!("0@({cores})")]);
    }
    let mut args = vec!["-l".to_owned(), join(&config.lcores)];
    if let Some(main) = config.main_lcore {
        if !config.lcores.contains(&main) {
            return Err(EalError::MainLcore { main, lcores: config.lcores.clone() });
        }
        args.push(format!("--main-lcore={main}"));
    }
    Ok(args)
}

fn join(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_touch_nothing_outside_the_process() {
        let memory = Memory::Ordinary { megabytes: 512, free: None };
        let args = arguments(&EalConfig::default(), &memory).unwrap();
        let huge = arguments(&EalConfig::default(), &Memory::Huge { megabytes: 512 }).unwrap();
        for wanted in ["--in-memory", "--single-file-segments"] {
            assert!(huge.iter().any(|arg| arg == wanted), "{wanted} in {huge:?}");
        }
        for wanted in ["--no-shconf", "--no-huge", "--no-pci", "--no-telemetry"] {
            assert!(args.iter().any(|arg| arg == wanted), "{wanted} in {args:?}");
        }
        assert!(args.contains(&"--log-level=warning".to_owned()));
    }

    #[test]
    fn a_prefix_shares_huge_pages_only() {
        let config = EalConfig { file_prefix: Some("x".into()), pci: true, ..EalConfig::default() };
        let huge = arguments(&config, &Memory::Huge { megabytes: 512 }).unwrap();
        assert!(huge.contains(&"--file-prefix=x".to_owned()));
        assert!(!huge.iter().any(|arg| arg == "--in-memory" || arg == "--no-pci"), "{huge:?}");
        let ordinary = Memory::Ordinary { megabytes: 512, free: Some(0) };
        let args = arguments(&config, &ordinary).unwrap();
        assert!(args.contains(&"--no-shconf".to_owned()), "{args:?}");
    }

    #[test]
    fn the_main_lcore_is_one_of_the_lcores() {
        let config = EalConfig { lcores: vec![1, 2], main_lcore: Some(3), ..EalConfig::default() };
        let error = lcore_arguments(&config).unwrap_err();
        assert_eq!(error, EalError::MainLcore { main: 3, lcores: vec![1, 2] });
        let config = EalConfig { main_lcore: Some(2), ..config };
        assert_eq!(lcore_arguments(&config).unwrap(), ["-l", "1,2", "--main-lcore=2"]);
    }
}
