//! Why each packet of a capture goes where it goes.
use std::time::Duration;

use explain::{Ground, Sent, raised};
use flow::PortId;
use state::{CounterKind, Metric};
use status::PacketStory;

use crate::arrivals::{Arrival, ArrivalError, Arrivals};
use crate::clients::Clients;
use crate::neighbours;
use crate::run::advance;
use crate::simulation::Simulation;
use crate::trace::Before;
use capture::Captured;

/// Sends the frames of `arrivals` into their ports, each at its own time, and gives
/// `tell` the story of each with its bytes before and after, until `tell` says that
/// this was enough. `names` are those of the ports. Returns why the capture gave no
/// more frames before its end.
pub fn explain(
    simulation: &mut Simulation,
    mut arrivals: Arrivals,
    names: &[&str],
    tell: &mut dyn FnMut(PacketStory) -> bool,
) -> Option<ArrivalError> {
    let mut start = None;
    let (mut now_ms, mut last) = (0, Duration::ZERO);
    let mut clients = Clients::default();
    for Arrival { port, mut captured } in arrivals.by_ref() {
        let start = *start.get_or_insert(captured.time);
        // A capture's frames can be out of order by a little; time never goes back.
        last = last.max(captured.time.saturating_sub(start));
        advance(simulation, &mut now_ms, last.as_millis() as u64);
        let earlier = simulation.take_sent();
        clients.see(simulation.shared(), &earlier);
        clients.change(&mut captured.frame);
        let (story, sent) = story_and_sent(simulation, (port, &captured), names, last);
        clients.see(simulation.shared(), &sent);
        if !tell(story) {
            return None;
        }
    }
    arrivals.error()
}

/// The story of one frame that comes in on `port` at `time`.
pub fn story(
    simulation: &mut Simulation,
    (port, captured): (PortId, &Captured),
    names: &[&str],
    time: Duration,
) -> PacketStory {
    story_and_sent(simulation, (port, captured), names, time).0
}

/// As [`story`], with what was sent.
fn story_and_sent(
    simulation: &mut Simulation,
    (port, captured): (PortId, &Captured),
    names: &[&str],
    time: Duration,
) -> (PacketStory, Vec<Sent>) {
    let now_ms = time.as_millis() as u64;
    neighbours::assume_receiver(simulation.shared(), &captured.frame, now_ms);
    let ground = Ground::of(simulation.shared(), &captured.frame, now_ms);
    let (before, counters) = (Before::of(simulation), simulation.metrics());
    simulation.arrive(port, &captured.frame, time.as_nanos() as u64);
    simulation.poll(now_ms);
    let sent = simulation.take_sent();
    let trace = before.story(simulation, port, captured, &sent);
    let raised: Vec<Metric> = raised(&counters, &simulation.metrics())
        .into_iter()
        .filter(|metric| !matches!(metric.kind, CounterKind::In))
        .collect();
    (ground.story(simulation.shared(), (&trace, &raised), names, now_ms), sent)
}
