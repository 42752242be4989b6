//! The state machine against what its settings say in words, and its times.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use health::{Change, Monitor, Outcome, Settings, State};
use proptest::prelude::*;

fn settings() -> impl Strategy<Value = Settings> {
    (1_u64..5000, 1_u64..2000, 1_u32..5, 1_u32..5, 0_u8..=100, prop_oneof![Just(0), 1_u64..60_000])
        .prop_map(|(interval_ms, timeout_ms, rise, fall, jitter, slow_start_ms)| Settings {
            interval_ms,
            timeout_ms,
            rise,
            fall,
            jitter,
            slow_start_ms,
        })
}

fn outcome(passed: bool) -> Outcome {
    if passed { Outcome::Passed } else { Outcome::Failed("refused".to_owned()) }
}

/// What the documentation says: the first probe decides alone, then `fall` failures or
/// `rise` passes in a row.
fn expected(settings: &Settings, history: &[bool]) -> State {
    let mut state = State::Unknown;
    for end in 1..=history.len() {
        let last = |count: u32, passed: bool| {
            let count = count as usize;
            count <= end && history[end - count..end].iter().all(|own| *own == passed)
        };
        state = match state {
            State::Unknown if history[0] => State::Up,
            State::Unknown => State::Down,
            State::Up if last(settings.fall, false) => State::Down,
            State::Down if last(settings.rise, true) => State::Up,
            same => same,
        };
    }
    state
}

proptest! {
    #[test]
    fn the_state_follows_from_the_outcomes(
        settings in settings(), seed: u64, history in prop::collection::vec(any::<bool>(), 0..40),
    ) {
        let mut monitor = Monitor::new(settings, seed, 0);
        let mut now_ms = 0;
        for count in 1..=history.len() {
            // Slow starts have steps of their own between the probes.
            loop {
                let due_ms = monitor.due_ms().unwrap();
                prop_assert!(due_ms >= now_ms, "time does not go back");
                now_ms = due_ms;
                if monitor.tick(now_ms).0 {
                    break;
                }
            }
            let before = monitor.state();
            let passed = history[count - 1];
            let change = monitor.finish(outcome(passed), now_ms);
            prop_assert_eq!(monitor.state(), expected(&settings, &history[..count]));
            prop_assert_eq!(change.is_some(), before != monitor.state());
            prop_assert_eq!(monitor.percent() == 0, monitor.state() == State::Down);
            if let Some(Change { why, .. }) = change {
                prop_assert_eq!(why.is_empty(), passed, "a backend that is down says why");
            }
        }
    }

    /// A backend that answers nothing from any moment on is down within the time that
    /// the settings promise.
    #[test]
    fn a_dead_backend_is_down_within_the_fall_time(
        settings in settings(), seed: u64, alive in 0_usize..10, died_after: prop::sample::Index,
    ) {
        let mut monitor = Monitor::new(settings, seed, 0);
        let mut now_ms = 0;
        for _ in 0..=alive {
            while !monitor.tick(now_ms).0 {
                now_ms = monitor.due_ms().unwrap();
            }
            monitor.finish(Outcome::Passed, now_ms);
        }
        // It dies at any time before the next probe.
        let pause = monitor.due_ms().unwrap() - now_ms;
        let died_ms = now_ms + died_after.index(pause as usize) as u64;
        while monitor.state() != State::Down {
            while !monitor.tick(now_ms).0 {
                now_ms = monitor.due_ms().unwrap();
            }
            now_ms += settings.timeout_ms;
            monitor.finish(outcome(false), now_ms);
        }
        // Milliseconds are whole, and two probes are at least one apart.
        let most = settings.fall_time_ms() + u64::from(settings.fall);
        prop_assert!(now_ms - died_ms <= most, "{} ms of {most}", now_ms - died_ms);
    }

    #[test]
    fn intervals_stay_within_their_jitter(settings in settings(), seed: u64) {
        let mut monitor = Monitor::new(settings, seed, 1000);
        let first = monitor.due_ms().unwrap();
        prop_assert!((1000..1000 + settings.interval_ms).contains(&first));
        let most = settings.interval_ms * u64::from(settings.jitter) / 100;
        let mut now_ms = first;
        for _ in 0..20 {
            prop_assert!(monitor.tick(now_ms).0);
            prop_assert_eq!(monitor.due_ms(), None, "one probe at a time");
            monitor.finish(Outcome::Passed, now_ms);
            let pause = monitor.due_ms().unwrap() - now_ms;
            let shortest = (settings.interval_ms - most).max(1);
            prop_assert!((shortest..=settings.interval_ms + most).contains(&pause), "{pause}");
            now_ms += pause;
        }
    }

    /// The weight rises in steps, never falls, never lags more than a step behind the
    /// straight line, and is whole at the end.
    #[test]
    fn a_slow_start_rises_to_the_whole_weight(
        start_ms in 100_u64..100_000, seed: u64, mut looks in prop::collection::vec(0_u64..120_000, 0..30),
    ) {
        let settings = Settings {
            interval_ms: 1_000_000, timeout_ms: 10, rise: 1, fall: 1, jitter: 0,
            slow_start_ms: start_ms,
        };
        let mut monitor = Monitor::new(settings, seed, 0);
        monitor.finish(outcome(false), 0);
        let change = monitor.finish(Outcome::Passed, 0).unwrap();
        prop_assert_eq!((change.state, change.percent), (State::Up, 10));
        looks.sort_unstable();
        looks.push(start_ms);
        let mut percent = 10;
        looks.retain(|look| *look <= start_ms);
        for look in looks {
            let change = monitor.tick(look).1;
            prop_assert_eq!(change.is_some(), monitor.percent() != percent);
            prop_assert!(monitor.percent() >= percent);
            percent = monitor.percent();
            let line = look * 100 / start_ms;
            let far = u64::from(percent).abs_diff(line);
            prop_assert!(far <= 10, "{percent} % at {look} of {start_ms} ms");
        }
        prop_assert_eq!(percent, 100);
    }
}

#[test]
fn a_backend_that_is_up_at_the_start_has_its_whole_weight_at_once() {
    let settings = Settings {
        interval_ms: 100,
        timeout_ms: 10,
        rise: 1,
        fall: 1,
        jitter: 0,
        slow_start_ms: 10_000,
    };
    let mut monitor = Monitor::new(settings, 1, 0);
    let change = monitor.finish(Outcome::Passed, 0).unwrap();
    assert_eq!((change.state, change.percent), (State::Up, 100));
}
