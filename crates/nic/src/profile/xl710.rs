//! Intel X710, XL710 and XXV710: the checks of i40e's Flow Director parser
//! (DPDK 22.11, `drivers/net/i40e/i40e_flow.c`: `i40e_flow_parse_fdir_pattern`,
//! `i40e_flow_parse_fdir_action`, `i40e_flow_parse_attr`; `i40e_fdir.c`:
//! `i40e_flow_add_del_fdir_filter`).
use dpdk::flow::{Action, FlowError, FlowErrorKind, Rule};
use flow::CardProfile;

use super::full_masks::{self, PatternWords};
use super::{Filter, Parsed, Profile, Rates, Target, Words, ingress_root, refuse};

pub(crate) static PROFILE: Profile = Profile {
    profile: CardProfile::Xl710,
    // RTE_LIBRTE_I40E_QUEUE_NUM_PER_PF.
    max_queues: 64,
    // The hash lookup table of a physical function.
    reta_sizes: &[512],
    one_mask: false,
    counts: false,
    highest_group: 0,
    rules_by_index: false,
    rates: Rates::UNKNOWN,
    rx_buffer_kib: |_| None,
    parse: |rule, port| parse(rule, port.queues).map(Parsed::Director),
    program: |_| Ok(()),
    // The driver logs these and answers "Failed to create flow.".
    words: Words {
        full: "Failed to create flow: the Flow Director table is full",
        duplicate: "Failed to create flow: Conflict with existing flow director rules!",
        mask: "Conflict with the first rule's input set.",
        soft_id: "",
    },
};

/// A field whose mask is not all ones the driver silently leaves out of the
/// input set, so that the rule matches more than it says. The emulated NIC
/// refuses such a rule instead, in words of its own.
const WORDS: PatternWords = PatternWords {
    range: "Not support range",
    eth: "Invalid MAC_addr mask.",
    unsupported: "Unsupported pattern",
    ipv4: "Invalid IPv4 mask.",
    ipv6: "Invalid IPv6 mask",
    tcp: "Invalid TCP mask",
    udp: "Invalid UDP mask",
    partial: "Invalid pattern mask: a mask must be all ones or zero",
    other_fields: "Invalid pattern mask: of IP headers only addresses are modelled",
    nothing: "Invalid pattern mask: no field is matched",
};

fn parse(rule: &Rule, queues: u16) -> Result<Filter, FlowError> {
    let (kind, key, mask) = full_masks::pattern(&rule.pattern, &WORDS)?;
    let (target, mark) = actions(&rule.actions, queues)?;
    ingress_root(rule, "Not support transfer.")?;
    Ok(Filter { kind, key, mask, target, mark, soft_id: None, count: false })
}

/// QUEUE, DROP, PASSTHRU or MARK, and behind one of the first three at most one
/// MARK: behind MARK, which passes packets on to RSS, there is nothing more.
fn actions(actions: &[Action], queues: u16) -> Result<(Target, Option<u32>), FlowError> {
    let no = |message: &str| refuse(FlowErrorKind::Action, FlowError::INVALID, message);
    let (first, behind) = actions.split_first().ok_or_else(|| no("Invalid action."))?;
    let (target, mark) = match first {
        Action::Queue(queue) if *queue >= queues => {
            return Err(no("Invalid queue ID for FDIR."));
        }
        Action::Queue(queue) => (Target::Queue(*queue), None),
        Action::Drop => (Target::Drop, None),
        Action::Passthru => (Target::Rss, None),
        Action::Mark(mark) => (Target::Rss, Some(*mark)),
        _ => return Err(no("Invalid action.")),
    };
    match behind {
        [] => Ok((target, mark)),
        [Action::Mark(mark)] if !matches!(first, Action::Mark(_)) => Ok((target, Some(*mark))),
        _ => Err(no("Invalid action.")),
    }
}
