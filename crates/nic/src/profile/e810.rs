//! Intel E810: the checks of ice's Flow Director parser (DPDK,
//! `drivers/net/ice/ice_fdir_filter.c`: `ice_fdir_parse_pattern`,
//! `ice_fdir_parse_action`; `ice_generic_flow.c`).
use dpdk::flow::{Action, FlowError, FlowErrorKind, Rule};
use flow::CardProfile;

use super::full_masks::{self, PatternWords};
use super::{Filter, Parsed, Profile, Rates, Target, Words, ingress_root, refuse};
use crate::key::{FlowType, Key, KeyV4};

pub(crate) static PROFILE: Profile = Profile {
    profile: CardProfile::E810,
    max_queues: 256,
    reta_sizes: &[128, 512, 2048],
    one_mask: false,
    counts: true,
    highest_group: 0,
    rules_by_index: false,
    rates: Rates::UNKNOWN,
    rx_buffer_kib: |_| None,
    parse: |rule, port| parse(rule, port.queues).map(Parsed::Director),
    program: |_| Ok(()),
    words: Words {
        full: "Add filter rule failed: the Flow Director table is full",
        duplicate: "Rule already exists!",
        mask: "Profile configure failed: rules of the flow type have another input set",
        soft_id: "",
    },
};

const WORDS: PatternWords = PatternWords {
    range: "Not support range",
    eth: "Invalid input set: ETH fields aren't modelled",
    unsupported: "Not supported pattern: it must be ETH / IPV4 or IPV6 / TCP or UDP",
    ipv4: "Invalid IPv4 mask.",
    ipv6: "Invalid IPv6 mask",
    tcp: "Invalid TCP mask",
    udp: "Invalid UDP mask",
    partial: "Invalid input set: a mask must be all ones or zero",
    other_fields: "Invalid input set: of IP headers only addresses are modelled",
    nothing: "Invalid input set: no field is matched",
};

fn parse(rule: &Rule, queues: u16) -> Result<Filter, FlowError> {
    ingress_root(rule, "Not support transfer.")?;
    let (kind, key, mask) = full_masks::pattern(&rule.pattern, &WORDS)?;
    let actions = actions(&rule.actions, queues)?;
    Ok(Filter { kind, key, mask, soft_id: None, ..actions })
}

/// At most one of QUEUE, DROP and PASSTHRU, at most one MARK and one COUNT;
/// MARK or COUNT alone continue to RSS. Key and mask are the caller's.
fn actions(actions: &[Action], queues: u16) -> Result<Filter, FlowError> {
    let no = |message: &str| refuse(FlowErrorKind::Action, FlowError::INVALID, message);
    let (mut targets, mut marks, mut counts) = (0, 0, 0);
    let nothing = Key::V4(KeyV4::default());
    let mut filter = Filter {
        kind: FlowType::Other,
        key: nothing,
        mask: nothing,
        target: Target::Rss,
        mark: None,
        soft_id: None,
        count: false,
    };
    for action in actions {
        match action {
            Action::Queue(queue) if *queue >= queues => return Err(no("Invalid queue for FDIR.")),
            Action::Queue(queue) => {
                (targets, filter.target) = (targets + 1, Target::Queue(*queue));
            }
            Action::Drop => (targets, filter.target) = (targets + 1, Target::Drop),
            Action::Passthru => (targets, filter.target) = (targets + 1, Target::Rss),
            Action::Mark(mark) => (marks, filter.mark) = (marks + 1, Some(*mark)),
            Action::Count => (counts, filter.count) = (counts + 1, true),
            _ => return Err(no("Invalid action.")),
        }
    }
    if targets > 1 {
        return Err(no("Unsupported action combination"));
    }
    if marks > 1 {
        return Err(no("Too many mark actions"));
    }
    if counts > 1 {
        return Err(no("Too many count actions"));
    }
    if targets + marks + counts == 0 {
        return Err(no("Empty action"));
    }
    Ok(filter)
}
