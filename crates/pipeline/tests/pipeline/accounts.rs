//! What counts for which backend.
use flow::BackendId;
use state::Carried;

use crate::world::{INSIDE, Link, OUTSIDE, Plan, World, at, destination, tcp};

const VIP: &str = "10.9.0.1:80";
const CLIENT: &str = "9.9.9.9:5000";

fn carried(world: &World, backend: &str) -> Carried {
    let snapshot = world.shared.snapshot();
    let is = |id: &BackendId| {
        let service = snapshot.services.services().iter().find(|own| own.name() == "web").unwrap();
        service.server(*id, 80) == Some(at(backend))
    };
    let id = snapshot.services.backends().iter().map(|own| own.id).find(is).unwrap();
    world.shared.totals().backend(id)
}

#[test]
fn each_frame_that_leaves_counts_for_its_backend_with_its_way_and_length() {
    let mut world = World::new(&Plan::default());
    let mut left = Carried { opened: 1, asked: 1, ..Carried::default() };
    let mut backend = None;
    // The last two of each side are RSTs: one of the connection, one behind its end.
    let steps = [
        (0, "S", 0, 0),
        (1, "SA", 0, 0),
        (0, "A", 0, 0),
        (0, "PA", 7, 0),
        (1, "PA", 900, 0),
        (0, "A", 1, 0),
        (1, "R", 0, 1),
        (0, "R", 0, 1),
    ];
    for (way, flags, length, reset) in steps {
        let payload = vec![1; length];
        let (port, frame) = match (way, backend.as_deref()) {
            (0, _) => (OUTSIDE, tcp(Link::CLIENT, CLIENT, VIP, flags, &payload)),
            (_, backend) => {
                (INSIDE, tcp(Link::from_backend(1), backend.unwrap(), CLIENT, flags, &payload))
            }
        };
        let Some((_, sent)) = world.one(port, &frame) else { panic!("{flags} is dropped") };
        if way == 0 {
            backend = Some(destination(&sent).to_string());
        }
        left.packets[way] += 1;
        left.bytes[way] += sent.len() as u64;
        left.resets[way] += reset;
        // The world's clock stands still: the answer takes less than a millisecond.
        left.answers.counts[0] += u64::from(flags == "SA");
        assert_eq!(carried(&world, backend.as_deref().unwrap()), left, "{flags}");
    }
    assert_eq!(carried(&world, "10.1.0.12:8080"), Carried::default());
}

/// A connection is refused if the first packet of its backend is a RST, whatever the client
/// does meanwhile; a RST behind an answer ends a connection that was served.
#[test]
fn a_rst_as_first_answer_counts_as_a_refusal() {
    for (steps, refused, answered) in [
        (["S>", "RA<", ""], 1, 0),
        (["S>", "S>", "RA<"], 1, 0),
        (["S>", "SA<", "R<"], 0, 1),
        (["S>", "R>", ""], 0, 0),
        (["S>", "RA<", "RA<"], 1, 0),
    ] {
        let mut world = World::new(&Plan::default());
        let mut backend = String::new();
        for step in steps.into_iter().filter(|own| !own.is_empty()) {
            let (flags, way) = step.split_at(step.len() - 1);
            let (port, frame) = match way {
                ">" => (OUTSIDE, tcp(Link::CLIENT, CLIENT, VIP, flags, b"")),
                _ => (INSIDE, tcp(Link::from_backend(1), &backend, CLIENT, flags, b"")),
            };
            let sent = world.one(port, &frame);
            if way == ">" && backend.is_empty() {
                backend = destination(&sent.unwrap().1).to_string();
            }
        }
        let own = carried(&world, &backend);
        assert_eq!(own.asked, 1, "{steps:?}");
        assert_eq!(
            (own.refused, own.answers.counts.iter().sum()),
            (refused, answered),
            "{steps:?}"
        );
    }
}
