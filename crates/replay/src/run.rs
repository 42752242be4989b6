//! Drives a simulation with captures.
use std::time::Duration;

use capture::{CaptureError, CaptureWriter};
use explain::{Sent, Trace};
use packet::PacketBuf;

use crate::arrivals::{Arrival, ArrivalError, Arrivals};
use crate::clients::Clients;

use crate::simulation::Simulation;
use crate::trace::Before;

/// Turns of the keeper for one gap between two frames, at most: after that
/// nothing changes any more.
const TURNS_PER_GAP: u64 = 10_000;

/// What a replay did.
#[derive(Debug, Default)]
pub struct Replayed {
    /// Frames read.
    pub read: u64,
    /// Frames written.
    pub written: u64,
    /// From the first frame to the last.
    pub duration: Duration,
    /// Why a capture gave no more frames before its end.
    pub error: Option<ArrivalError>,
}

/// What becomes of the story of each frame.
pub type Tell<'a> = &'a mut dyn FnMut(&Trace);

/// Sends every frame of `arrivals` into its port at its own time, and writes what comes
/// out, with a port's number as that of its interface. `tell` gets the story of each
/// frame, if it is wanted. A capture that is cut off or damaged is replayed up to there.
///
/// # Errors
/// The output can't be written.
pub fn replay(
    simulation: &mut Simulation,
    mut arrivals: Arrivals,
    mut writer: CaptureWriter,
    mut tell: Option<Tell<'_>>,
) -> Result<Replayed, CaptureError> {
    let mut done = Replayed::default();
    let mut start = None;
    let mut now_ms = 0;
    let mut last = Duration::ZERO;
    let mut clients = Clients::default();
    for Arrival { port, mut captured } in arrivals.by_ref() {
        let start = *start.get_or_insert(captured.time);
        // A capture's frames can be out of order by a little; time never goes back.
        last = last.max(captured.time.saturating_sub(start));
        advance(simulation, &mut now_ms, last.as_millis() as u64);
        let earlier = simulation.take_sent();
        clients.see(simulation.shared(), &earlier);
        clients.change(&mut captured.frame);
        let before = tell.is_some().then(|| Before::of(simulation));
        simulation.arrive(port, &captured.frame, last.as_nanos() as u64);
        simulation.poll(now_ms);
        done.read += 1;
        let sent = simulation.take_sent();
        clients.see(simulation.shared(), &sent);
        if let (Some(before), Some(tell)) = (before, &mut tell) {
            tell(&before.story(simulation, port, &captured, &sent));
        }
        for Sent { port, packet } in earlier.into_iter().chain(sent) {
            writer.write(port.0.into(), start + last, packet.bytes())?;
            done.written += 1;
        }
    }
    advance(simulation, &mut now_ms, last.as_millis() as u64 + 1);
    for Sent { port, packet } in simulation.take_sent() {
        writer.write(port.0.into(), start.unwrap_or_default() + last, packet.bytes())?;
        done.written += 1;
    }
    (done.duration, done.error) = (last, arrivals.error());
    writer.finish()?;
    Ok(done)
}

/// Lets time pass, turn by turn.
pub(crate) fn advance(simulation: &mut Simulation, now_ms: &mut u64, to_ms: u64) {
    let gap = to_ms.saturating_sub(*now_ms);
    let step = (gap / TURNS_PER_GAP).max(1);
    while *now_ms < to_ms {
        *now_ms = (*now_ms + step).min(to_ms);
        simulation.keep(*now_ms);
        simulation.poll(*now_ms);
    }
}
