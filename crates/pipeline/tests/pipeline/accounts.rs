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
    let mut left = Carried { opened: 1, ..Carried::default() };
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
