//! Ctrl-C, SIGTERM and SIGHUP, as flags; SIGUSR1 and SIGUSR2 are ignored.
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

/// What signals ask for.
pub(crate) struct Signals {
    /// To stop.
    pub(crate) stop: Arc<AtomicBool>,
    /// To read the configuration again.
    pub(crate) reload: Arc<AtomicBool>,
}

/// A flag that the first Ctrl-C or SIGTERM sets, and one that every SIGHUP sets.
/// A second Ctrl-C or SIGTERM ends the program at once.
pub(crate) fn on_signal() -> io::Result<Signals> {
    let signals = Signals { stop: Arc::default(), reload: Arc::default() };
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&signals.stop))?;
        signal_hook::flag::register(signal, Arc::clone(&signals.stop))?;
    }
    // By default they would end the program with its rules in the NIC.
    for signal in [SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    signal_hook::flag::register(SIGHUP, Arc::clone(&signals.reload))?;
    Ok(signals)
}
