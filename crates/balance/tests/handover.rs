//! The commands of a handover, by the order in which buckets move.
use balance::{Command, Event, Handover, HandoverOrder, HandoverSettings, Move};

const MOVE: Move = Move { bucket: 3, from: 0, to: 1 };

fn handover(order: HandoverOrder) -> (Handover, HandoverSettings) {
    let settings = HandoverSettings { order, ..HandoverSettings::default() };
    (Handover::new(settings), settings)
}

/// What follows once the new worker is to leave its queue alone.
fn drains(handover: &mut Handover, settings: HandoverSettings, begun_ns: u64) {
    assert_eq!(handover.tell(Event::Emptied, begun_ns), None, "nothing waits for that");
    assert_eq!(handover.tell(Event::Closed, begun_ns), Some(Command::Write(MOVE)));
    assert_eq!(handover.tell(Event::Written, begun_ns), None);
    let settled_ns = begun_ns + settings.settle_ns;
    assert_eq!(handover.advance(settled_ns - 1), None);
    assert_eq!(handover.advance(settled_ns), Some(Command::Await(MOVE)));
    assert_eq!(handover.tell(Event::Emptied, settled_ns), Some(Command::Open(MOVE)));
    assert!(!handover.is_busy());
    let totals = handover.totals();
    assert_eq!((totals.moved, totals.late, totals.longest_ns), (1, 0, settings.settle_ns));
}

#[test]
fn an_idle_moment_is_awaited_before_the_new_worker_waits() {
    let (mut handover, settings) = handover(HandoverOrder::Idle);
    assert_eq!(handover.begin(MOVE, 0), Some(Command::Await(MOVE)));
    assert_eq!(handover.tell(Event::Closed, 500), None, "nothing waits for that");
    assert_eq!(handover.tell(Event::Emptied, 700_000), Some(Command::Close(MOVE)));
    drains(&mut handover, settings, 700_000);
}

#[test]
fn without_an_idle_moment_the_old_worker_is_drained() {
    let (mut handover, settings) = handover(HandoverOrder::Idle);
    assert_eq!(handover.begin(MOVE, 0), Some(Command::Await(MOVE)));
    assert_eq!(handover.advance(settings.idle_ns - 1), None);
    assert_eq!(handover.advance(settings.idle_ns), Some(Command::Close(MOVE)));
    drains(&mut handover, settings, settings.idle_ns);
}

#[test]
fn the_new_worker_has_its_whole_time_to_answer_after_an_idle_moment() {
    let (mut handover, settings) = handover(HandoverOrder::Idle);
    handover.begin(MOVE, 0);
    assert_eq!(handover.tell(Event::Emptied, 900_000), Some(Command::Close(MOVE)));
    assert_eq!(handover.advance(settings.close_ns), None);
    assert_eq!(handover.advance(900_000 + settings.close_ns), Some(Command::Open(MOVE)));
    assert_eq!(handover.totals().given_up, 1);
}

#[test]
fn drain_and_instant_look_for_no_idle_moment() {
    let (mut drained, settings) = handover(HandoverOrder::Drain);
    assert_eq!(drained.begin(MOVE, 0), Some(Command::Close(MOVE)));
    drains(&mut drained, settings, 0);
    let (mut instant, _) = handover(HandoverOrder::Instant);
    assert_eq!(instant.begin(MOVE, 0), Some(Command::Write(MOVE)));
    assert_eq!(instant.tell(Event::Written, 0), None);
    assert!(!instant.is_busy());
}
