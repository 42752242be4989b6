//! Where connections are served, or why not in the NIC, in words.
use std::collections::BTreeMap;

use admission::{CardRefusal, Cause};
use conntrack::ConnState;
use offload::OffloadCause;
use status::{CauseCount, OffloadCauses};

/// The cause of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CauseOf {
    /// One side has not spoken yet.
    Unanswered,
    /// One side has finished.
    Ending,
    /// What the offload side says.
    Rules(OffloadCause),
}

impl CauseOf {
    /// The cause of a connection in `state`, of which the offload side says `cause`.
    pub(crate) const fn new(cause: OffloadCause, state: ConnState) -> Self {
        match (cause, state) {
            (
                OffloadCause::Software(Cause::NotEstablished),
                ConnState::HalfClosed(_)
                | ConnState::Closing
                | ConnState::Reset
                | ConnState::Revoked,
            ) => Self::Ending,
            (OffloadCause::Software(Cause::NotEstablished), _) => Self::Unanswered,
            _ => Self::Rules(cause),
        }
    }

    /// Its word.
    pub(crate) const fn name(self) -> &'static str {
        self.words().0
    }

    /// Its word, and a sentence about it.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Unanswered => {
                ("unanswered", "Its handshake is not complete, or its backend has not answered.")
            }
            Self::Ending => {
                ("ending", "A FIN or RST has come, so that rules are not worth making.")
            }
            Self::Rules(OffloadCause::Hardware) => ("hardware", "The NIC matches its packets."),
            Self::Rules(OffloadCause::OneDirection(_)) => (
                "one_direction",
                "The NIC matches one direction and took no rule for the other; `hnlb status` names the refusals.",
            ),
            Self::Rules(OffloadCause::NotRewritten(_)) => (
                "marked",
                "The NIC marks its packets and a worker rewrites them, since the card can't rewrite them.",
            ),
            Self::Rules(OffloadCause::InLine) => {
                ("in_line", "It was chosen, and its rules are being made.")
            }
            Self::Rules(OffloadCause::Leaving) => ("leaving", "Its rules are being taken back."),
            Self::Rules(OffloadCause::Software(cause)) => of_policy(cause),
        }
    }
}

/// Why admission gives a connection no entry.
const fn of_policy(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::Off => (
            "off",
            "Nothing is offloaded: no port has a card that matches flows, or [offload] says so.",
        ),
        Cause::NotEstablished => ("not_established", "Its handshake is not complete."),
        Cause::NotAsked => (
            "not_asked",
            "No worker has asked for rules since the last ones went, or the line was too long.",
        ),
        Cause::Unseen => (
            "unseen",
            "Too few of its packets were sampled lately for a rate: it is light, or young.",
        ),
        Cause::TooYoung => ("too_young", "It has not been measured for long enough."),
        Cause::Silent => {
            ("silent", "None of its packets was sampled lately: it has probably ended.")
        }
        Cause::TooLight => {
            ("too_light", "The NIC's entries are taken by connections with more packets a second.")
        }
        Cause::InTurn => (
            "in_turn",
            "It is worth an entry, and its turn comes: [offload] insertions bounds how many begin in a second.",
        ),
        Cause::Refused(CardRefusal::Unsupported) => (
            "card_unsupported",
            "The card can't match this flow type, or the encoding can't express the connection.",
        ),
        Cause::Refused(CardRefusal::Failed) => {
            ("card_failed", "The card would not take its rules, after several tries.")
        }
        Cause::Refused(CardRefusal::Crowded) => {
            ("card_crowded", "Too many rules were in line at the card.")
        }
    }
}

/// The counts as a report, the most frequent cause first.
pub(crate) fn report(counts: &BTreeMap<CauseOf, u64>) -> OffloadCauses {
    // Causes that differ in details have one word.
    let mut by_word: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for (cause, connections) in counts {
        *by_word.entry(cause.words()).or_default() += connections;
    }
    let mut causes: Vec<CauseCount> = by_word
        .into_iter()
        .map(|((cause, help), connections)| CauseCount {
            cause: cause.to_owned(),
            connections,
            help: help.to_owned(),
        })
        .collect();
    causes.sort_by_key(|own| std::cmp::Reverse(own.connections));
    OffloadCauses { connections: counts.values().sum(), causes }
}
