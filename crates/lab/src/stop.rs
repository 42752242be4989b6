//! The wish to stop, from a signal or from the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::LabError;

/// A flag that every wait in the lab looks at, so that Ctrl-C in the middle
/// of a load run still takes the lab down in order.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that SIGINT, SIGTERM and SIGHUP set.
    ///
    /// # Errors
    /// [`LabError::Io`] when a handler cannot be registered.
    pub fn on_signals() -> Result<Self, LabError> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))
                .map_err(LabError::io(format!("catch signal {signal}")))?;
        }
        Ok(stop)
    }

    /// Sets the flag.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// [`LabError::Interrupted`] if the flag is set.
    ///
    /// # Errors
    /// Exactly then.
    pub fn check(&self) -> Result<(), LabError> {
        if self.requested() { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Sleeps, but not past a wish to stop (looked at every 20 ms).
    ///
    /// # Errors
    /// [`LabError::Interrupted`] if the flag is or gets set.
    pub fn sleep(&self, time: Duration) -> Result<(), LabError> {
        const STEP: Duration = Duration::from_millis(20);
        let mut left = time;
        loop {
            self.check()?;
            if left.is_zero() {
                return Ok(());
            }
            let step = left.min(STEP);
            std::thread::sleep(step);
            left = left.saturating_sub(step);
        }
    }
}
