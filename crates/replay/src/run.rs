//! Drives a simulation with a capture.
use std::path::Path;
use std::time::Duration;

use flow::PortId;
use packet::PacketBuf;
use wire::{Headers, Mac, Net};

use crate::capture::{CaptureError, CaptureReader, CaptureWriter, Captured};
use crate::simulation::Simulation;

/// Turns of the keeper for one gap between two frames, at most: after that
/// nothing changes any more.
const TURNS_PER_GAP: u64 = 10_000;

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Frames read.
    pub read: u64,
    /// Frames written.
    pub written: u64,
    /// From the first frame to the last.
    pub duration: Duration,
}

/// Sends every frame of `reader` into `port` at its own time, and writes what
/// comes out.
///
/// # Errors
/// The capture is broken or the output can't be written.
pub fn replay(
    simulation: &mut Simulation,
    port: PortId,
    reader: &mut CaptureReader,
    mut writer: CaptureWriter,
) -> Result<Replayed, CaptureError> {
    let mut done = Replayed::default();
    let mut start = None;
    let mut now_ms = 0;
    let mut last = Duration::ZERO;
    while let Some(Captured { time, frame }) = reader.read()? {
        let start = *start.get_or_insert(time);
        // A capture's frames can be out of order by a little; time never goes back.
        last = last.max(time.saturating_sub(start));
        advance(simulation, &mut now_ms, last.as_millis() as u64);
        simulation.arrive(port, &frame, last.as_nanos() as u64);
        simulation.poll(now_ms);
        done.read += 1;
        for sent in simulation.take_sent() {
            writer.write(start + last, sent.packet.bytes())?;
            done.written += 1;
        }
    }
    advance(simulation, &mut now_ms, last.as_millis() as u64 + 1);
    done.duration = last;
    writer.finish()?;
    Ok(done)
}

/// Lets time pass, turn by turn.
fn advance(simulation: &mut Simulation, now_ms: &mut u64, to_ms: u64) {
    let gap = to_ms.saturating_sub(*now_ms);
    let step = (gap / TURNS_PER_GAP).max(1);
    while *now_ms < to_ms {
        *now_ms = (*now_ms + step).min(to_ms);
        simulation.keep(*now_ms);
        simulation.poll(*now_ms);
    }
}

/// The Ethernet address that the frames of a capture are sent to: the first
/// unicast destination of an IP frame. A replay takes it as the port's own.
///
/// # Errors
/// The capture can't be read.
pub fn destination(path: &Path) -> Result<Option<Mac>, CaptureError> {
    let mut reader = CaptureReader::open(path)?;
    while let Some(Captured { frame, .. }) = reader.read()? {
        let is_ip = Headers::parse(&frame)
            .is_ok_and(|headers| matches!(headers.net, Net::Ipv4 | Net::Ipv6));
        let mac = frame.get(..6).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok()).map(Mac);
        if let Some(mac) = mac.filter(|mac| is_ip && !mac.is_group()) {
            return Ok(Some(mac));
        }
    }
    Ok(None)
}
