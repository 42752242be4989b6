//! The state machine by itself: random events in any order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::BTreeSet;
use std::net::SocketAddr;

use flow::{BackendId, ServiceId};
use proptest::prelude::*;
use service::Forwarding;
use wire::Transport;

use super::*;

/// A rule is a number.
type Rule = u32;
const PORTS: [PortId; 2] = [PortId(0), PortId(1)];

fn binding(backend: u16) -> Binding {
    let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
    Binding {
        proto: Transport::Tcp,
        service: ServiceId(0),
        backend: BackendId(backend),
        forwarding: Forwarding::Rewrite,
        client: at(1),
        vip: at(2),
        server: at(3),
        local: at(1),
    }
}

/// What becomes of a rule that is to be created.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Created(Visibility),
    Full,
    Failed { fallback: bool },
    Refused { fallback: bool },
    PathChanged(Placement),
    Gone,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The turn of the direction comes wherever it waits, or where it doesn't.
    Turn {
        direction: Direction,
        stray: Option<PortId>,
        ready: bool,
        is_there: bool,
        answer: Answer,
    },
    /// An answer that belongs to no command.
    Stray(Direction, Answer),
    NotCreated(Direction),
    Closing,
    Lingered,
    Reopened {
        same: bool,
    },
    Idle,
    Withdrawn,
    NextHopChanged,
    Destroyed(Direction),
    Settled(Direction),
    Aged(Direction),
    Counted([u8; 2], bool),
    Examined([u8; 2], u64),
    Audited {
        same: bool,
        established: bool,
    },
}

fn answer() -> impl Strategy<Value = Answer> {
    let visibility =
        prop_oneof![Just(Visibility::All), Just(Visibility::Sampled), Just(Visibility::None)];
    prop_oneof![
        6 => visibility.prop_map(Answer::Created),
        1 => Just(Answer::Full),
        2 => any::<bool>().prop_map(|fallback| Answer::Failed { fallback }),
        1 => any::<bool>().prop_map(|fallback| Answer::Refused { fallback }),
        1 => placement().prop_map(Answer::PathChanged),
        1 => Just(Answer::Gone),
    ]
}

fn placement() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Software),
        Just(Placement::Crowded),
        Just(Placement::Port(PORTS[0])),
        Just(Placement::Port(PORTS[1])),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let direction = || prop_oneof![Just(Direction::Forward), Just(Direction::Reply)];
    let stray = prop::option::weighted(0.1, prop_oneof![Just(PORTS[0]), Just(PORTS[1])]);
    let moved = || [0u8..3, 0u8..3];
    let turn =
        (direction(), stray, prop::bool::weighted(0.9), prop::bool::weighted(0.95), answer());
    prop_oneof![
        12 => turn.prop_map(|(direction, stray, ready, is_there, answer)| {
            Step::Turn { direction, stray, ready, is_there, answer }
        }),
        2 => (direction(), answer()).prop_map(|(direction, answer)| Step::Stray(direction, answer)),
        1 => direction().prop_map(Step::NotCreated),
        1 => Just(Step::Closing),
        1 => Just(Step::Lingered),
        1 => any::<bool>().prop_map(|same| Step::Reopened { same }),
        1 => Just(Step::Idle),
        1 => Just(Step::Withdrawn),
        1 => Just(Step::NextHopChanged),
        6 => direction().prop_map(Step::Destroyed),
        6 => direction().prop_map(Step::Settled),
        1 => direction().prop_map(Step::Aged),
        2 => (moved(), any::<bool>()).prop_map(|(moved, touched)| Step::Counted(moved, touched)),
        1 => (moved(), 0u64..20_000).prop_map(|(moved, idle)| Step::Examined(moved, idle)),
        1 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(same, established)| Step::Audited { same, established }),
    ]
}

/// The machine, and around it what it commands: a card, a line and a table.
struct World {
    connection: Connection<Rule>,
    binding: Binding,
    /// Rules in the card, and destroyed ones whose tags packets may carry.
    in_card: BTreeSet<(Rule, usize)>,
    /// Those of them that the card was told to destroy.
    doomed: BTreeSet<(Rule, usize)>,
    settling: BTreeSet<(Rule, usize)>,
    ever: u32,
    held: bool,
    in_line: BTreeSet<(usize, PortId)>,
    linger_ms: Option<u64>,
    now_ms: u64,
    rearmed: u32,
    gone: bool,
}

impl World {
    fn new(placements: [Placement; 2]) -> Self {
        let mut world = Self {
            connection: Connection::new(None, None),
            binding: binding(1),
            in_card: BTreeSet::new(),
            doomed: BTreeSet::new(),
            settling: BTreeSet::new(),
            ever: 0,
            held: false,
            in_line: BTreeSet::new(),
            linger_ms: None,
            now_ms: 1_000,
            rearmed: 0,
            gone: false,
        };
        world.step(Event::Wanted(placements), None, true);
        world
    }

    fn event(&mut self, direction: Direction, answer: Answer) -> Event<Rule> {
        match answer {
            Answer::Created(visibility) => {
                self.ever += 1;
                self.in_card.insert((self.ever, direction.index()));
                Event::Created { direction, rule: self.ever, visibility }
            }
            Answer::Full => Event::Full(direction),
            Answer::Failed { fallback } => Event::Failed { direction, fallback },
            Answer::Refused { fallback } => {
                Event::Refused { direction, fallback: fallback.then_some(NotRewritten::Mtu) }
            }
            Answer::PathChanged(placement) => Event::PathChanged(direction, placement),
            Answer::Gone => Event::Gone(direction),
        }
    }

    /// Steps the machine and does what it says.
    fn step(&mut self, event: Event<Rule>, answer: Option<Answer>, is_there: bool) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            assert!(!self.gone, "its record has ended");
            let mut commands = Vec::new();
            self.connection.step(event, &mut commands);
            let answers = commands
                .iter()
                .filter(|one| matches!(one, Command::Hold(_) | Command::Create { .. }))
                .count();
            assert!(answers == 0 || commands.len() == 1, "an answer's command comes alone");
            for command in commands {
                match command {
                    Command::Hold(direction) => {
                        assert!(!self.held, "it is held once");
                        self.held = is_there;
                        next = Some(Event::Held(direction, is_there.then_some(self.binding)));
                    }
                    Command::Create { direction, binding, .. } => {
                        assert!(self.held && binding == self.binding);
                        next = Some(self.event(direction, answer.unwrap_or(Answer::Full)));
                    }
                    Command::Destroy(direction, installed) => {
                        let rule = (installed.into_rule(), direction.index());
                        assert!(self.in_card.contains(&rule), "only what is in the card goes");
                        assert!(self.doomed.insert(rule), "a rule is destroyed once");
                        assert!(self.held, "a rule's connection is held");
                    }
                    Command::LineUp { direction, port, .. } => {
                        self.in_line.insert((direction.index(), port));
                    }
                    Command::LetGo { .. } => {
                        assert!(self.in_card.is_empty(), "let go with rules in the card");
                        assert!(self.settling.is_empty(), "let go while packets carry a tag");
                        self.held = false;
                    }
                    Command::Forget(_) => self.gone = true,
                    Command::Linger { due_ms } => self.linger_ms = Some(due_ms),
                    Command::Rearm => self.rearmed += 1,
                    _ => {}
                }
            }
        }
        self.check();
    }

    /// The machine knows every rule there is, and no other.
    fn check(&self) {
        if self.gone {
            assert!(!self.held && self.in_card.is_empty() && self.settling.is_empty());
            return;
        }
        for direction in Direction::BOTH {
            let at = direction.index();
            let of =
                |rules: &BTreeSet<(Rule, usize)>| rules.iter().filter(|one| one.1 == at).count();
            let there = (of(&self.in_card), of(&self.settling));
            match self.connection.stage(direction) {
                Stage::Software => assert_eq!(there, (0, 0)),
                Stage::Waiting(port) => {
                    assert_eq!(there, (0, 0));
                    assert!(self.in_line.contains(&(at, *port)), "it waits in no line");
                }
                Stage::Installed(installed) => {
                    assert!(self.in_card.contains(&(*installed.rule(), at)));
                    assert_eq!(there, (1, 0));
                }
                Stage::Destroying => assert_eq!((there, of(&self.doomed)), ((1, 0), 1)),
                Stage::Settling => assert_eq!(there, (0, 1)),
            }
        }
    }

    fn run(&mut self, step: Step) {
        self.now_ms += 200;
        let other = |same: bool| Some(binding(if same { 1 } else { 2 }));
        let event = match step {
            Step::Turn { direction, stray, ready, is_there, answer } => {
                let own = match self.connection.stage(direction) {
                    Stage::Waiting(port) => Some(*port),
                    _ => None,
                };
                let port = stray.or(own).unwrap_or(PORTS[0]);
                let event = Event::Turn { direction, port, ready };
                if own == Some(port) {
                    self.in_line.remove(&(direction.index(), port));
                }
                return self.step(event, Some(answer), is_there || self.held);
            }
            // A rule comes only where one was commanded.
            Step::Stray(_, Answer::Created(_)) => return,
            // Of one in line, this would be an answer.
            Step::Stray(direction, _) if self.connection.is_waiting(direction) => return,
            Step::Stray(direction, answer) => self.event(direction, answer),
            Step::NotCreated(direction) => Event::NotCreated(direction),
            Step::Closing => Event::Closing { due_ms: self.now_ms + 300 },
            Step::Lingered => match self.linger_ms {
                Some(due_ms) => Event::Lingered { due_ms },
                None => return,
            },
            Step::Reopened { same } => Event::Reopened { binding: other(same) },
            Step::Idle => Event::Idle,
            Step::Withdrawn => Event::Withdrawn,
            Step::NextHopChanged => Event::NextHopChanged,
            Step::Destroyed(direction) => return self.destroyed(direction),
            Step::Settled(direction) => return self.settled(direction),
            Step::Aged(direction) => Event::Aged(direction),
            Step::Counted(moved, touched) => Event::Counted(self.reading(moved, touched)),
            Step::Examined(moved, idle_ms) => Event::Examined {
                reading: self.reading(moved, false),
                idle_ms: Some(idle_ms),
                timeout_ms: 10_000,
            },
            Step::Audited { same, established } => {
                Event::Audited { binding: other(same), established }
            }
        };
        self.step(event, None, true);
    }

    fn reading(&self, moved: [u8; 2], touched: bool) -> Reading {
        let rules = Direction::BOTH.map(|direction| match self.connection.stage(direction) {
            Stage::Installed(installed) if installed.is_unseen() => {
                let moved = moved[direction.index()];
                let new = Counters { packets: moved.into(), bytes: 64 };
                Some(if moved == 2 { Counted::Lost } else { Counted::New(new) })
            }
            _ => None,
        });
        let touched_ms = if touched { self.now_ms } else { 0 };
        Reading { now_ms: self.now_ms, touched_ms, rules }
    }

    /// The card destroys what it was told to; told twice, it changes nothing.
    fn destroyed(&mut self, direction: Direction) {
        if matches!(self.connection.stage(direction), Stage::Destroying) {
            let own = |one: &(Rule, usize)| one.1 == direction.index();
            let rule = self.doomed.iter().copied().find(own).expect("nobody told the card");
            self.doomed.remove(&rule);
            self.in_card.remove(&rule);
            self.settling.insert(rule);
        }
        self.step(Event::Destroyed(direction), None, true);
    }

    fn settled(&mut self, direction: Direction) {
        if matches!(self.connection.stage(direction), Stage::Settling) {
            self.settling.retain(|one| one.1 != direction.index());
        }
        self.step(Event::Settled(direction), None, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// No rule is lost or destroyed twice, nothing is let go too early, and
    /// after withdrawal, destruction and settling nothing is left.
    #[test]
    fn every_rule_has_its_end(
        placements in [placement(), placement()],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = World::new(placements);
        for step in steps {
            if world.gone {
                break;
            }
            world.run(step);
        }
        for step in [Step::Withdrawn]
            .into_iter()
            .chain(Direction::BOTH.map(Step::Destroyed))
            .chain(Direction::BOTH.map(Step::Settled))
        {
            if !world.gone {
                world.run(step);
            }
        }
        prop_assert!(world.gone && !world.held, "{:?}", world.connection);
        prop_assert!(world.in_card.is_empty() && world.settling.is_empty());
    }
}

fn installed(visibility: Visibility) -> World {
    let mut world = World::new(PORTS.map(Placement::Port));
    for direction in Direction::BOTH {
        let answer = Answer::Created(visibility);
        world.run(Step::Turn { direction, stray: None, ready: true, is_there: true, answer });
    }
    assert_eq!(world.in_card.len(), 2);
    world
}

fn end(world: &mut World) {
    for direction in Direction::BOTH {
        world.destroyed(direction);
    }
    for direction in Direction::BOTH {
        world.settled(direction);
    }
    assert!(world.gone);
}

/// Software must see all of a handshake: where workers see no packets, a
/// connection that is opened anew loses its rules; elsewhere it keeps them.
#[test]
fn a_reopened_connection_keeps_only_rules_whose_packets_workers_see() {
    for (visibility, keeps) in
        [(Visibility::All, true), (Visibility::Sampled, true), (Visibility::None, false)]
    {
        let mut world = installed(visibility);
        world.run(Step::Closing);
        world.run(Step::Reopened { same: true });
        let stage = world.connection.stage(Direction::Forward);
        assert_eq!(matches!(stage, Stage::Installed(_)), keeps, "{visibility:?}");
        // The end that was to come when it closed is called off.
        world.run(Step::Lingered);
        let stage = world.connection.stage(Direction::Forward);
        assert_eq!(matches!(stage, Stage::Installed(_)), keeps, "{visibility:?}");
        world.run(Step::Reopened { same: false });
        let stage = world.connection.stage(Direction::Forward);
        assert!(matches!(stage, Stage::Destroying), "another backend's rules go");
        end(&mut world);
    }
}

/// A connection that has been opened anew, without a message that says so, loses its
/// rules at the next comparison with the table, if workers see none of its packets.
#[test]
fn a_lost_message_of_a_reopened_connection_is_made_up_for() {
    let stays =
        |world: &World| matches!(world.connection.stage(Direction::Forward), Stage::Installed(_));
    for (visibility, keeps) in
        [(Visibility::All, true), (Visibility::Sampled, true), (Visibility::None, false)]
    {
        let mut world = installed(visibility);
        world.run(Step::Audited { same: true, established: true });
        assert!(stays(&world), "{visibility:?}");
        world.run(Step::Audited { same: true, established: false });
        assert_eq!(stays(&world), keeps, "{visibility:?}");
    }
    // One that has ended keeps its rules until its time has come.
    let mut world = installed(Visibility::None);
    world.run(Step::Closing);
    world.run(Step::Audited { same: true, established: false });
    assert!(stays(&world));
    world.run(Step::Lingered);
    assert!(!stays(&world));
    end(&mut world);
}

/// The timeout of a connection starts anew if packets of it may have been missed.
#[test]
fn the_timeout_starts_anew_only_if_packets_may_have_come_unseen() {
    for (visibility, step, anew) in [
        (Visibility::All, Step::Idle, 0),
        (Visibility::Sampled, Step::Idle, 1),
        (Visibility::Sampled, Step::Reopened { same: false }, 0),
        (Visibility::Sampled, Step::Withdrawn, 1),
        (Visibility::None, Step::NextHopChanged, 1),
    ] {
        let mut world = installed(visibility);
        world.run(step);
        end(&mut world);
        assert_eq!(world.rearmed, anew, "{visibility:?} {step:?}");
    }
}

/// An idle connection whose packets workers don't see is examined first: its
/// counters decide, and a card that was wrong isn't believed again.
#[test]
fn a_connection_that_only_the_card_sees_ends_by_its_counters() {
    let mut world = installed(Visibility::None);
    let commands = |world: &mut World, event| {
        let mut commands = Vec::new();
        world.connection.step(event, &mut commands);
        commands
    };
    let idle = commands(&mut world, Event::Idle);
    assert!(matches!(idle[..], [Command::Examine]), "{idle:?}");
    let aged = |world: &mut World| {
        Direction::BOTH.map(|direction| commands(world, Event::Aged(direction)).len())
    };
    assert_eq!(aged(&mut world), [0, 1], "both rules must be idle");
    world.run(Step::Examined([1, 0], 20_000));
    assert!(matches!(world.connection.stage(Direction::Forward), Stage::Installed(_)));
    assert_eq!(aged(&mut world), [0, 0], "the card was wrong");
    world.run(Step::Examined([0, 0], 5_000));
    assert!(matches!(world.connection.stage(Direction::Forward), Stage::Installed(_)));
    world.run(Step::Examined([0, 0], 10_000));
    assert!(matches!(world.connection.stage(Direction::Forward), Stage::Destroying));
    end(&mut world);
}

/// A rule that counts nothing at three readings, while software sees packets
/// that it should have matched, is lost.
#[test]
fn a_rule_that_packets_pass_by_goes_after_three_readings() {
    let mut world = installed(Visibility::None);
    world.run(Step::Counted([1, 1], false));
    for _ in 0..2 {
        world.run(Step::Counted([1, 0], true));
    }
    assert!(matches!(world.connection.stage(Direction::Forward), Stage::Installed(_)));
    world.run(Step::Counted([0, 1], true));
    assert!(matches!(world.connection.stage(Direction::Forward), Stage::Destroying));
    end(&mut world);
}
