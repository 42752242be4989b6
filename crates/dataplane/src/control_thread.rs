//! The thread that answers the status socket, obeys its commands and watches
//! the links.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::control::Control;
use crate::report::Reporter;
use crate::status_socket::StatusSocket;

/// How long the thread rests between two turns.
const REST: Duration = Duration::from_millis(1);

/// Everything the thread owns.
pub(crate) struct ControlThread {
    pub(crate) control: Control,
    pub(crate) reporter: Reporter,
    pub(crate) socket: StatusSocket,
    /// Set when a link has come up, since switches may have learnt our addresses
    /// elsewhere meanwhile, and when a reload may have brought new addresses.
    pub(crate) announce: Arc<AtomicBool>,
}

impl ControlThread {
    /// Runs until `stop`.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.turn(clock.now_ms());
            std::thread::sleep(REST);
        }
    }

    fn turn(&mut self, now_ms: u64) {
        let Self { control, reporter, socket, announce } = self;
        if reporter.tick(now_ms) {
            announce.store(true, Ordering::Relaxed);
        }
        socket.serve(now_ms, |request| {
            let obeyed = control.obey(request);
            obeyed.unwrap_or_else(|| reporter.answer(request, now_ms))
        });
        if control.tick(now_ms) {
            announce.store(true, Ordering::Relaxed);
        }
    }
}
