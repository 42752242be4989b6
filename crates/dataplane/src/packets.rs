//! Answers to questions about packets: what would become of them.
use control::{Question, Refusal};
use explain::{Sandbox, arrival};
use state::Shared;
use status::{PacketStories, PacketStory};

use crate::connections::Entry;
use crate::offload_thread::RulesDesk;

/// The stories of the packets of `question`. `names` are those of the ports.
///
/// # Errors
/// A packet can't be made as it is asked for, or there is no memory.
pub(crate) fn stories(
    question: &Question,
    shared: &Shared,
    names: &[&str],
    desk: &RulesDesk,
    now_ms: u64,
) -> Result<PacketStories, Refusal> {
    if question.packets.len() > Question::MOST {
        let what = format!("at most {} packets at once", Question::MOST);
        return Err(Refusal::Malformed(what));
    }
    let busy = |error: explain::SandboxError| Refusal::Busy(error.to_string());
    let mut sandbox = Sandbox::of(shared).map_err(busy)?;
    let mut packets = Vec::with_capacity(question.packets.len());
    let mut connections = Vec::new();
    for (place, probe) in question.packets.iter().enumerate() {
        let number = place as u64 + 1;
        let (port, frame) = arrival(probe, shared, names)
            .map_err(|error| Refusal::Malformed(format!("packet {number}: {error}")))?;
        let (ground, story) = sandbox.story(shared, (port, &frame), names, now_ms);
        connections.extend(ground.connection().map(|conn| (place, conn)));
        packets.push(PacketStory { number, ..story });
    }
    // While a driver keeps the thread that knows rules, nothing is said of them.
    let asked = connections.iter().map(|(_, conn)| *conn).collect();
    for ((place, conn), explained) in
        connections.iter().zip(desk.explain(asked).unwrap_or_default())
    {
        let entry = Entry::of(shared.table(), *conn, now_ms);
        if let (Some(story), Some(entry), Some(explained)) =
            (packets.get_mut(*place), entry, explained)
        {
            story.rules = Some(entry.explain(&explained, now_ms));
        }
    }
    Ok(PacketStories { packets })
}
