//! NVIDIA ConnectX and BlueField-3: the checks of the mlx5 driver of DPDK 22.11
//! (`drivers/net/mlx5/mlx5_flow_dv.c`: `flow_dv_validate`;
//! `mlx5_flow_hw.c`: `mlx5_flow_hw_actions_validate`; `mlx5_flow.c`).
mod actions;
mod pattern;
mod reformat;

use dpdk::flow::{FlowError, FlowErrorKind, Rule, TableHash, Template};
use flow::CardProfile;

use super::{Parsed, PortFacts, Profile, Rates, Words, refuse};
use crate::steering::{Domain, Flow, Place};

/// Rules of the receive side's root group at most.
pub(crate) const ROOT_RULES: usize = 65_536;
/// `MLX5_NON_ROOT_FLOW_MAX_PRIO` - 1.
const LOWEST_PRIORITY: u32 = 21_842;
/// `flow_max_priority` - 2, on a kernel with 16 priorities.
const LOWEST_ROOT_PRIORITY: u32 = 3;
/// `MLX5_FLOW_LOWEST_PRIO_INDICATOR`: the lowest that there is.
const LOWEST: u32 = u32::MAX;

/// `MLX5_MAX_TABLES_EXTERNAL` tables (65,531), of which a group takes
/// `MLX5_FLOW_TABLE_FACTOR` (10) where the driver splits its rules.
const HIGHEST_GROUP: u32 = 65_531 / 10;
/// The groups that the offload of Open vSwitch finds (XenoFlow, section 3.1).
const BLUEFIELD3_HIGHEST_GROUP: u32 = 15;

/// Insertion of one rule: 305 µs on a BlueField-2 (Cui et al., Laconic, quoted
/// by XenoFlow, section 6); about a million a second through queues.
const RATES: Rates =
    Rates { insert_ns: 305_000, queued_insert_ns: 1_000, packets_per_second: None };

/// XenoFlow, section 5.2: 96.7 million packets a second at most.
const BLUEFIELD3_RATES: Rates = Rates { packets_per_second: Some(96_700_000), ..RATES };

const PROFILE: Profile = Profile {
    profile: CardProfile::ConnectX,
    max_queues: 1024,
    reta_sizes: &[128, 256, 512],
    one_mask: false,
    counts: true,
    highest_group: HIGHEST_GROUP,
    rules_by_index: false,
    rates: RATES,
    rx_buffer_kib: |_| None,
    parse,
    program: |_| Ok(()),
    words: Words {
        full: "hardware refuses to create flow: the table is full",
        duplicate: "hardware refuses to create flow: the pattern exists (allow_duplicate_pattern=0)",
        mask: "cannot create matcher",
        soft_id: "",
    },
};

/// ConnectX-6 Dx and later.
pub(crate) static CONNECTX: Profile = PROFILE;

/// The steering of BlueField-3 is that of a ConnectX-7, by a later driver.
pub(crate) static BLUEFIELD3: Profile = Profile {
    profile: CardProfile::BlueField3,
    rates: BLUEFIELD3_RATES,
    highest_group: BLUEFIELD3_HIGHEST_GROUP,
    rules_by_index: true,
    ..PROFILE
};

fn parse(rule: &Rule, port: &PortFacts<'_>) -> Result<Parsed, FlowError> {
    let domain = attributes(rule, port)?;
    let mut pattern = pattern::parse(&rule.pattern)?;
    pattern.place.domain = domain;
    pattern.place.group = rule.attributes.group;
    pattern.place.priority = rule.attributes.priority;
    let (program, fate) = actions::parse(rule, &pattern, domain, port)?;
    Ok(Parsed::Steering(Box::new(Flow {
        place: pattern.place,
        edits: program.edits,
        encap: program.encap,
        mark: program.mark,
        fate,
        count: program.count,
        age_s: program.age_s,
    })))
}

/// `flow_dv_validate_attributes`.
fn attributes(rule: &Rule, port: &PortFacts<'_>) -> Result<Domain, FlowError> {
    let attr = &rule.attributes;
    let no = |kind, errno, message: &str| Err(refuse(kind, errno, message));
    let (attribute, unsupported) = (FlowErrorKind::Attribute, FlowError::NOT_SUPPORTED);
    // Group 0 of the switch is a table behind the driver's own root.
    let root = attr.group == 0 && !attr.transfer;
    let lowest = if root { LOWEST_ROOT_PRIORITY } else { LOWEST_PRIORITY };
    check_group(attr.group, port)?;
    if attr.priority != LOWEST && attr.priority > lowest {
        return no(attribute, unsupported, "priority out of range");
    }
    if attr.transfer && port.switch.is_empty() {
        return no(FlowErrorKind::Unspecified, unsupported, "E-Switch dr is not supported");
    }
    if [attr.ingress, attr.egress, attr.transfer].iter().filter(|is| **is).count() != 1 {
        let message = "must specify exactly one of ingress, egress or transfer";
        return no(attribute, FlowError::INVALID, message);
    }
    if attr.egress {
        return no(attribute, unsupported, "egress rules are not modelled");
    }
    Ok(if attr.transfer { Domain::Switch } else { Domain::Receive })
}

/// The driver's words for `UINT32_MAX`; what a real one says of a table that it
/// can't make is not known.
fn check_group(group: u32, port: &PortFacts<'_>) -> Result<(), FlowError> {
    if group <= port.highest_group {
        return Ok(());
    }
    Err(refuse(FlowErrorKind::Attribute, FlowError::INVALID, "group index not supported"))
}

/// What a table's template may say: with hardware steering the legacy SET_*,
/// DEC_TTL and PORT_ID are unknown (`mlx5_flow_hw_actions_validate`). A table of
/// rules by index hashes by CRC-32 and is not in the root (`flow_hw_table_create`,
/// `mlx5dr_matcher` of DPDK 24.11); a linear one is not modelled.
pub(crate) fn check_template(template: &Template, profile: &Profile) -> Result<(), FlowError> {
    let no = |kind, message| Err(refuse(kind, FlowError::NOT_SUPPORTED, message));
    if template.actions.iter().any(actions::is_legacy) {
        return no(FlowErrorKind::Action, "action not supported in template API");
    }
    let root = template.attributes.group == 0 && !template.attributes.transfer;
    let message = match template.hash {
        None => return Ok(()),
        Some(_) if !profile.rules_by_index => "rules by index need DPDK 23.03",
        Some(TableHash::Crc16) => "16-bit checksum hash type is not supported",
        Some(TableHash::Linear) => "linear distribution is not modelled",
        Some(TableHash::Crc32) if root => "the root table has no rules by index",
        Some(TableHash::Crc32) => return Ok(()),
    };
    no(FlowErrorKind::Unspecified, message)
}

/// A place that a pattern and the attributes fill.
fn nowhere() -> Place {
    Place {
        domain: Domain::Receive,
        group: 0,
        priority: 0,
        rows: None,
        mask: Default::default(),
        value: Default::default(),
    }
}
