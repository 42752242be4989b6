//! The thread that answers requests, obeys commands and watches the ports' links.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::control::Control;
use crate::link::{Links, Reply};
use crate::report::Reporter;

/// How long the thread rests between two turns while it searches the connection table.
const REST: Duration = Duration::from_millis(1);
/// How long it waits for a question otherwise. Health checks, new links and captures are
/// looked at this often.
const WAIT: Duration = Duration::from_millis(10);

/// Everything the thread owns.
pub(crate) struct ControlThread {
    control: Control,
    reporter: Reporter,
    links: Links,
    /// Set when a link has come up, since switches may have learnt our addresses
    /// elsewhere meanwhile, and when a reload may have brought new addresses.
    announce: Arc<AtomicBool>,
}

impl ControlThread {
    /// The thread that serves `links`; it sets `announce` when the load balancer's
    /// addresses are to be announced on every link.
    pub(crate) const fn new(
        control: Control,
        reporter: Reporter,
        links: Links,
        announce: Arc<AtomicBool>,
    ) -> Self {
        Self { control, reporter, links, announce }
    }

    /// Runs until `stop`.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.turn(clock.now_ms());
            if self.links.are_busy() {
                std::thread::sleep(REST);
            } else {
                self.links.wait(WAIT);
            }
        }
    }

    fn turn(&mut self, now_ms: u64) {
        let Self { control, reporter, links, announce } = self;
        if reporter.tick(now_ms) {
            announce.store(true, Ordering::Relaxed);
        }
        links.serve(|asked, search| {
            let obeyed = control.obey(asked);
            let outcome = obeyed.or_else(|| reporter.answer(&asked.request, search, now_ms))?;
            Some(Reply { version: control.version(), outcome })
        });
        if control.tick(now_ms) {
            announce.store(true, Ordering::Relaxed);
        }
    }
}
