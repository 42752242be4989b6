//! What the probe makes of cards that can much, little and nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::card::Card;
use dpdk::flow::RuleHandle;
use flow::{Encoding, EncodingChoice};
use offload::{Probe, probe};

fn ask(card: &mut Card, queues: u16, wanted: EncodingChoice, mark_arrives: Option<bool>) -> Probe {
    let probe = probe(card, queues, wanted, mark_arrives);
    assert_eq!(card.rules(), probe.left.len(), "the probe's rules are destroyed");
    probe
}

#[test]
fn each_card_gets_the_best_encoding_it_can() {
    use Encoding::{Mark, Off, Queue};
    use EncodingChoice::{Auto, Fixed};
    // can mark, takes anything, queues, wanted, marks arrive, encoding
    let table = [
        (true, true, 4, Auto, None, Mark),
        (true, true, 4, Auto, Some(true), Mark),
        (true, true, 4, Auto, Some(false), Queue),
        (true, true, 1, Auto, Some(false), Off),
        (true, true, 1, Auto, None, Mark),
        (true, true, 0, Auto, None, Off),
        (false, true, 4, Auto, None, Queue),
        (false, true, 4, Fixed(Mark), None, Off),
        (false, true, 4, Fixed(Queue), None, Queue),
        (true, true, 4, Fixed(Queue), None, Queue),
        (true, true, 4, Fixed(Off), None, Off),
        (true, false, 4, Auto, None, Off),
        (true, false, 4, Fixed(Queue), None, Off),
    ];
    for (mark, anything, queues, wanted, arrives, encoding) in table {
        let mut card = Card::new(8);
        (card.no_mark, card.nothing) = (!mark, !anything);
        let probe = ask(&mut card, queues, wanted, arrives);
        let case = (mark, anything, queues, wanted, arrives);
        assert_eq!(probe.encoding, encoding, "{case:?}: {:#?}", probe.reasons);
        assert_eq!(probe.ipv6, encoding != Off, "{case:?}");
        let said = probe.reasons.iter().any(|line| line.contains(&format!("encoding {encoding}")));
        assert!(said, "{case:?}: {:#?}", probe.reasons);
    }
}

#[test]
fn a_card_without_ipv6_says_who_stays_in_software() {
    let mut card = Card::new(8);
    card.ipv6 = false;
    let probe = ask(&mut card, 4, EncodingChoice::Auto, None);
    assert_eq!((probe.encoding, probe.ipv6), (Encoding::Mark, false));
    assert_eq!(probe.mark, [true, true, false, false]);
    let last = probe.reasons.last().unwrap();
    assert!(last.contains("tcp over IPv6") && !last.contains("IPv4"), "{last}");
}

#[test]
fn a_card_that_will_not_destroy_leaves_the_probes_rules_to_the_caller() {
    let mut card = Card::new(8);
    card.refuse_destroys = 3;
    assert_eq!(
        ask(&mut card, 4, EncodingChoice::Auto, None).left.len(),
        0,
        "a few refusals are got over"
    );
    card.refuse_destroys = 8;
    let left: Vec<RuleHandle> = ask(&mut card, 4, EncodingChoice::Auto, None).left;
    assert_eq!(left.len(), 1);
}

#[test]
fn with_off_the_card_is_not_asked() {
    let mut card = Card::new(8);
    ask(&mut card, 4, EncodingChoice::Fixed(Encoding::Off), None);
    assert_eq!(card.creates, 0);
}
