//! Passive signals against a plain reading of their documentation, over the whole history.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::collections::BTreeMap;

use health::{LONGEST, PassiveSettings, Seen, State, TargetKey, Watched, Watches};
use proptest::prelude::*;

const LOOK_MS: u64 = 200;

fn key(service: &str, host: u8) -> TargetKey {
    let address = format!("10.0.0.{host}").parse().unwrap();
    TargetKey { service: service.to_owned(), address, port: Some(80) }
}

/// What happens between two looks.
#[derive(Clone, Copy, Debug)]
struct Step {
    asked: u64,
    answered: u64,
    refused: u64,
    has_next_hop: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let few = || prop_oneof![3 => Just(0_u64), 1 => 1_u64..4];
    let hop = prop::bool::weighted(0.8);
    (few(), prop_oneof![6 => Just(0_u64), 1 => 1_u64..3], few(), hop).prop_map(
        |(asked, answered, refused, has_next_hop)| Step { asked, answered, refused, has_next_hop },
    )
}

fn settings() -> impl Strategy<Value = PassiveSettings> {
    let slow_start = prop_oneof![Just(0), 1_u64..4000];
    (0_u32..5, 0_u32..5, 200_u64..1500, any::<bool>(), 1000_u64..3000, slow_start).prop_map(
        |(resets, timeouts, timeout_ms, next_hop, hold_ms, slow_start_ms)| PassiveSettings {
            resets,
            timeouts,
            timeout_ms,
            next_hop,
            hold_ms,
            most: 100,
            slow_start_ms,
        },
    )
}

/// What speaks against a backend after `steps`, which it has served through; by the sentences
/// of the documentation, each over all of the steps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reason {
    NextHop,
    Resets,
    Timeouts,
}

fn reason(own: &PassiveSettings, served: &[Step], hops: &[Step]) -> Option<Reason> {
    let at = |place: usize, of: &[Step]| (of.len() - 1 - place) as u64 * LOOK_MS;
    let lost = hops.iter().rev().take_while(|step| !step.has_next_hop).count();
    if own.next_hop && lost > 0 && at(hops.len() - lost, hops) >= own.timeout_ms {
        return Some(Reason::NextHop);
    }
    let taken = served.iter().rposition(|step| step.answered > 0).map_or(0, |place| place + 1);
    let refused: u64 = served[taken..].iter().map(|step| step.refused).sum();
    if own.resets > 0 && refused >= u64::from(own.resets) {
        return Some(Reason::Resets);
    }
    let any = |step: &Step| step.answered > 0 || step.refused > 0;
    let heard = served.iter().rposition(any).map_or(0, |place| place + 1);
    let late = (heard..served.len()).filter(|place| at(*place, served) >= own.timeout_ms);
    let late: u64 = late.map(|place| served[place].asked).sum();
    (own.timeouts > 0 && late >= u64::from(own.timeouts)).then_some(Reason::Timeouts)
}

proptest! {
    /// A backend goes down at the look at which the documentation says so and for that
    /// reason, stays down for as long, and comes up again.
    #[test]
    fn the_state_follows_from_the_counts(
        own in settings(), steps in prop::collection::vec(step(), 1..120),
    ) {
        let web = key("web", 1);
        let mut watches = Watches::default();
        watches.set(vec![Watched { key: web.clone(), settings: own }], |_| Some(Seen::default()));
        let mut total = Seen::default();
        // The model: since which step it serves, until when it is down, and its holds.
        let (mut since, mut down): (usize, Option<Option<u64>>) = (0, None);
        let (mut hold_ms, mut back_ms) = (0_u64, 0_u64);
        for (place, step) in steps.iter().enumerate() {
            let now_ms = place as u64 * LOOK_MS;
            total.asked += step.asked;
            total.answered += step.answered;
            total.refused += step.refused;
            total.has_next_hop = step.has_next_hop;
            let changes = watches.look(now_ms, |asked| (*asked == web).then_some(total));
            match down {
                Some(until) => {
                    if until.map_or(step.has_next_hop, |until| now_ms >= until) {
                        (down, since, back_ms) = (None, place + 1, now_ms);
                        prop_assert_eq!(changes[0].1.state, State::Up);
                        prop_assert_eq!(changes[0].1.percent == 100, own.slow_start_ms == 0);
                    } else {
                        prop_assert!(changes.is_empty());
                    }
                }
                None => {
                    let why = reason(&own, &steps[since..=place], &steps[..=place]);
                    let state = changes.iter().map(|(_, own)| own.state).next_back();
                    prop_assert_eq!(state == Some(State::Down), why.is_some(), "{:?}", why);
                    if let Some(why) = why {
                        let said = &changes.last().unwrap().1.why;
                        let word = match why {
                            Reason::NextHop => "next hop",
                            Reason::Resets => "refused",
                            Reason::Timeouts => "no answer",
                        };
                        prop_assert!(said.contains(word), "{} for {:?}", said, why);
                        down = Some((why != Reason::NextHop).then(|| {
                            let behaved = now_ms - back_ms >= hold_ms;
                            let longer = (hold_ms * 2).clamp(own.hold_ms, own.hold_ms * LONGEST);
                            hold_ms = if behaved { own.hold_ms } else { longer };
                            now_ms + hold_ms
                        }));
                    }
                }
            }
            let standing = watches.standings().next().unwrap().1.clone();
            prop_assert_eq!(standing.state == State::Down, down.is_some());
            prop_assert_eq!(standing.percent == 0, down.is_some());
        }
    }

    /// However many backends reset everything, no more of a service are down than may be;
    /// those beyond are shown as spared, and other services have counts of their own.
    #[test]
    fn no_more_are_down_than_may_be(
        most in 0_u8..=100, backends in 1_u8..8, sick in prop::collection::vec(any::<bool>(), 8),
    ) {
        let settings = PassiveSettings {
            resets: 1, timeouts: 0, timeout_ms: 1000, next_hop: true, hold_ms: 1_000_000, most,
            slow_start_ms: 0,
        };
        let keys = (0..backends).map(|host| key("web", host)).chain([key("other", 1)]);
        let watched = keys.map(|key| Watched { key, settings }).collect();
        let mut watches = Watches::default();
        watches.set(watched, |_| Some(Seen::default()));
        for turn in 1..4_u64 {
            watches.look(turn * LOOK_MS, |key| {
                let host = key.address.to_string().rsplit('.').next().unwrap().parse::<usize>().unwrap();
                let refused = if key.service == "web" && sick[host] { turn } else { 0 };
                Some(Seen { refused, has_next_hop: true, ..Seen::default() })
            });
        }
        let mut by: BTreeMap<(bool, bool), usize> = BTreeMap::new();
        for (key, own) in watches.standings().filter(|(key, _)| key.service == "web") {
            let host = key.address.to_string().rsplit('.').next().unwrap().parse::<usize>().unwrap();
            let is_down = own.state == State::Down;
            prop_assert!(sick[host] || !is_down && !own.spared);
            prop_assert!(!(is_down && own.spared));
            *by.entry((is_down, own.spared)).or_default() += 1;
        }
        let ill = sick.iter().take(backends.into()).filter(|own| **own).count();
        let may = usize::from(backends) * usize::from(most) / 100;
        let get = |down, spared| by.get(&(down, spared)).copied().unwrap_or(0);
        prop_assert_eq!(get(true, false), ill.min(may));
        prop_assert_eq!(get(false, true), ill.saturating_sub(may));
    }
}

/// A lost next hop takes a backend down even if it is the last one.
#[test]
fn a_lost_next_hop_spares_nobody() {
    let settings = PassiveSettings {
        resets: 1,
        timeouts: 1,
        timeout_ms: 400,
        next_hop: true,
        hold_ms: 10_000,
        most: 0,
        slow_start_ms: 0,
    };
    let mut watches = Watches::default();
    watches.set(vec![Watched { key: key("web", 1), settings }], |_| None);
    let state = |own: &Watches| own.standings().next().unwrap().1.state;
    for (now_ms, known, expected) in [
        (0, false, State::Up),
        (200, false, State::Up),
        (400, false, State::Down),
        (600, false, State::Down),
        (800, true, State::Up),
    ] {
        watches.look(now_ms, |_| Some(Seen { has_next_hop: known, ..Seen::default() }));
        assert_eq!(state(&watches), expected, "{now_ms}");
    }
}

/// A reload keeps what is known, and says which backends that were down are let go.
#[test]
fn a_backend_that_is_not_watched_any_more_is_let_go() {
    let settings = PassiveSettings {
        resets: 1,
        timeouts: 0,
        timeout_ms: 400,
        next_hop: false,
        hold_ms: 10_000,
        most: 100,
        slow_start_ms: 0,
    };
    let watched = |host| Watched { key: key("web", host), settings };
    let mut watches = Watches::default();
    watches.set(vec![watched(1), watched(2)], |_| None);
    watches.look(0, |_| Some(Seen { refused: 1, has_next_hop: true, ..Seen::default() }));
    assert!(watches.standings().all(|(_, own)| own.state == State::Down));
    assert_eq!(watches.set(vec![watched(2), watched(3)], |_| None), vec![key("web", 1)]);
    let states: Vec<State> = watches.standings().map(|(_, own)| own.state).collect();
    assert_eq!(states, [State::Down, State::Up]);
}
