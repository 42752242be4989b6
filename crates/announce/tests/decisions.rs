//! Random histories of VIPs against a plain reading of the rules.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use announce::{Announcer, Standing, Verdict};
use proptest::prelude::*;

const SETTLE_MS: u64 = 1000;

/// A moment: how much later, what is known of each of two VIPs (`None`: it is not there),
/// and whether all are withdrawn.
type Moment = (u64, [Option<(bool, bool)>; 2], bool);

fn vip(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 73, 0, number))
}

fn moment() -> impl Strategy<Value = Moment> {
    let standing =
        prop::option::weighted(0.9, (prop::bool::weighted(0.8), prop::bool::weighted(0.8)));
    (0..700u64, [standing.clone(), standing], prop::bool::weighted(0.15))
}

/// Whether the VIP `at` is to be announced at the end of `history`, said from its beginning:
/// it is if it was and can serve, or if at each moment of the last second at least it could
/// serve and was probed.
fn expected(history: &[Moment], at: usize) -> bool {
    let (mut now, mut fine_since, mut announced) = (0, None, false);
    for (later, standings, withdrawn) in history {
        now += later;
        let (serves, probed) = standings[at].unwrap_or((false, false));
        let fine = serves && (probed || announced);
        fine_since = if fine { fine_since.or(Some(now)) } else { None };
        let settled = fine_since.is_some_and(|since| now - since >= SETTLE_MS);
        announced = fine && !withdrawn && (announced || settled);
    }
    announced
}

proptest! {
    #[test]
    fn a_vip_is_announced_when_the_rules_say_so(history in prop::collection::vec(moment(), 1..60)) {
        let mut announcer = Announcer::new(SETTLE_MS);
        let mut now_ms = 0;
        for (count, (later, standings, withdrawn)) in history.iter().enumerate() {
            now_ms += later;
            announcer.withdraw(*withdrawn);
            let known = standings.iter().zip(0u8..).filter_map(|(own, number)| {
                own.map(|(serves, probed)| (vip(number), Standing { serves, probed }))
            });
            announcer.decide(&known.collect::<BTreeMap<_, _>>(), now_ms);
            for (at, number) in [(0, 0u8), (1, 1)] {
                let announced = announcer.announced().contains(&vip(number));
                prop_assert_eq!(announced, expected(&history[..=count], at), "moment {}", count);
                let verdict = announcer.verdicts().get(&vip(number)).copied();
                prop_assert_eq!(verdict == Some(Verdict::Announced), announced);
                prop_assert_eq!(verdict.is_some(), standings[at].is_some());
            }
        }
    }
}

#[test]
fn each_reason_has_its_word() {
    let mut announcer = Announcer::new(SETTLE_MS);
    let mut word = |serves, probed, withdrawn, now_ms| {
        announcer.withdraw(withdrawn);
        announcer.decide(&BTreeMap::from([(vip(1), Standing { serves, probed })]), now_ms);
        announcer.verdicts()[&vip(1)].word()
    };
    assert_eq!(word(false, true, false, 0), "no backend");
    assert_eq!(word(true, false, false, 10), "not probed");
    assert_eq!(word(true, true, false, 20), "settling");
    assert_eq!(word(true, true, false, 1019), "settling");
    assert_eq!(word(true, true, false, 1020), "announced");
    // A backend that joins, and has not been probed.
    assert_eq!(word(true, false, false, 1030), "announced");
    assert_eq!(word(true, true, true, 1040), "withdrawn");
    assert_eq!(word(true, true, false, 1050), "announced", "it has long settled");
}
