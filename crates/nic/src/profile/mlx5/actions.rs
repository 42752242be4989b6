//! Actions: `flow_dv_validate` and the checks it calls.
use dpdk::flow::{Action, FlowError, FlowErrorKind, HopField, Modify, Rule, SetField};

use super::pattern::Pattern;
use super::{PortFacts, check_group, reformat, refuse};
use crate::edits::Edits;
use crate::encap::Encap;
use crate::steering::{Domain, Fate, kind};

/// `MLX5_DV_MAX_NUMBER_OF_ACTIONS`; all modifications count as one.
const MOST: usize = 8;
/// `MLX5_MAX_MODIFY_NUM` and `MLX5_ROOT_TBL_MODIFY_NUM`.
const MODIFICATIONS: u32 = 32;
const ROOT_MODIFICATIONS: u32 = 16;
/// `MLX5_FLOW_MARK_MAX`.
const MARK_LIMIT: u32 = 0x00ff_fff0;

/// What a rule does besides its fate.
#[derive(Default)]
pub(super) struct Program {
    pub(super) edits: Edits,
    pub(super) encap: Option<Encap>,
    pub(super) mark: Option<u32>,
    pub(super) count: bool,
    pub(super) age_s: u32,
    /// 32-bit parts of fields that are modified.
    modifications: u32,
    fate: Option<Fate>,
    actions: usize,
}

pub(super) fn no(message: &str) -> FlowError {
    refuse(FlowErrorKind::Action, FlowError::INVALID, message)
}

pub(super) fn unsupported(message: &str) -> FlowError {
    refuse(FlowErrorKind::Action, FlowError::NOT_SUPPORTED, message)
}

/// Whether templates don't know the action.
pub(super) fn is_legacy(action: &Action) -> bool {
    matches!(
        action,
        Action::SetMacSrc(_)
            | Action::SetMacDst(_)
            | Action::SetIpv4Src(_)
            | Action::SetIpv4Dst(_)
            | Action::SetIpv6Src(_)
            | Action::SetIpv6Dst(_)
            | Action::SetTpSrc(_)
            | Action::SetTpDst(_)
            | Action::DecTtl
            | Action::PortId(_)
            | Action::Passthru
            | Action::Other(_)
    )
}

pub(super) fn parse(
    rule: &Rule,
    pattern: &Pattern,
    domain: Domain,
    port: &PortFacts<'_>,
) -> Result<(Program, Fate), FlowError> {
    let mut program = Program::default();
    let mut actions = rule.actions.iter().peekable();
    while let Some(action) = actions.next() {
        if program.actions >= MOST {
            return Err(unsupported("too many actions"));
        }
        match action {
            Action::ModifyField(modify) => modify_field(&mut program, modify)?,
            Action::Count if program.count => return Err(no("duplicate count actions set")),
            Action::Count => program.count = true,
            Action::Age { timeout_s } => age(&mut program, *timeout_s)?,
            Action::Mark(mark) => program.mark = Some(check_mark(&program, *mark)?),
            Action::Queue(_)
            | Action::Rss(_)
            | Action::Drop
            | Action::Jump(_)
            | Action::PortId(_)
            | Action::RepresentedPort(_) => {
                let new = fate(&program, rule, domain, port, action)?;
                program.fate = Some(new);
            }
            Action::RawEncap(_) | Action::RawDecap(_) => {
                let off = reformat::off(action);
                // Only what stands right behind RAW_DECAP belongs to it.
                let on = match off {
                    None => Some(action),
                    Some(_) => actions.next_if(|next| reformat::on(next).is_some()),
                };
                let encap = reformat::parse(off, on.and_then(reformat::on), port.queued)?;
                if program.encap.replace(encap).is_some() {
                    return Err(no("more than one encap action"));
                }
            }
            Action::Passthru | Action::Other(_) => return Err(unsupported("action not supported")),
            legacy => set(&mut program, pattern, legacy)?,
        }
        if !matches!(action, Action::ModifyField(_)) && !is_set(action) {
            program.actions += 1;
        }
    }
    let fate = whole(&mut program, rule, domain)?;
    Ok((program, fate))
}

fn is_set(action: &Action) -> bool {
    is_legacy(action) && !matches!(action, Action::PortId(_))
}

fn age(program: &mut Program, timeout_s: u32) -> Result<(), FlowError> {
    if timeout_s == 0 {
        return Err(no("invalid timeout value 0"));
    }
    if program.age_s != 0 {
        return Err(no("duplicate age actions set"));
    }
    program.age_s = timeout_s;
    Ok(())
}

fn check_mark(program: &Program, mark: u32) -> Result<u32, FlowError> {
    if mark >= MARK_LIMIT {
        return Err(no("mark id must in 0 <= id < 0xfffff0"));
    }
    if program.mark.is_some() {
        return Err(no("can't have 2 mark actions in same flow"));
    }
    Ok(mark)
}

fn fate(
    program: &Program,
    rule: &Rule,
    domain: Domain,
    port: &PortFacts<'_>,
    action: &Action,
) -> Result<Fate, FlowError> {
    let port_action = matches!(action, Action::PortId(_) | Action::RepresentedPort(_));
    if port_action && domain != Domain::Switch {
        let message = "port action is valid in transfer mode only";
        return Err(refuse(FlowErrorKind::Unspecified, FlowError::NOT_SUPPORTED, message));
    }
    // DROP beside another fate is refused with all else that stands beside it.
    if program.fate.is_some() && !matches!(action, Action::Drop) {
        return Err(no(if port_action {
            "can have only one fate actions in a flow"
        } else {
            "can't have 2 fate actions in same flow"
        }));
    }
    match action {
        Action::Queue(queue) if *queue >= port.queues => Err(no("queue index out of range")),
        Action::Queue(queue) => Ok(Fate::Queue(*queue)),
        Action::Rss(queues) if queues.is_empty() => Err(no("No queues configured")),
        Action::Rss(queues) if queues.iter().any(|queue| *queue >= port.queues) => {
            Err(no("queue index out of range"))
        }
        Action::Rss(queues) => Ok(Fate::Rss(queues.as_slice().into())),
        Action::Jump(group) => jump(rule, domain, *group, port),
        Action::PortId(to) | Action::RepresentedPort(to) => {
            if !port.switch.contains(to) {
                return Err(no("failed to obtain E-Switch port id for port"));
            }
            Ok(Fate::Port(*to))
        }
        _ if program.fate.is_some() => Err(no(DROP_ALONE)),
        _ => Ok(Fate::Drop),
    }
}

const DROP_ALONE: &str =
    "Drop action is mutually-exclusive with any other action, except for Count/Sample/Age action";

fn jump(rule: &Rule, domain: Domain, group: u32, port: &PortFacts<'_>) -> Result<Fate, FlowError> {
    check_group(group, port)?;
    if rule.attributes.group == group {
        return Err(no("target group must be other than the current flow group"));
    }
    if domain == Domain::Receive && group == 0 {
        return Err(no("root table shouldn't be destination"));
    }
    Ok(Fate::Jump(group))
}

/// `flow_dv_validate_action_modify_field`.
fn modify_field(program: &mut Program, modify: &Modify) -> Result<(), FlowError> {
    may_modify(program)?;
    match modify {
        Modify::Set(set) => program.modifications += parts(set),
        Modify::Add(..) | Modify::AddNumber(..) => program.modifications += 1,
        Modify::Sub(..) => return Err(unsupported("sub operations are not supported")),
        Modify::Unsupported => {
            return Err(unsupported("only whole fields and immediate values are modelled"));
        }
    }
    first_modification(program);
    program.edits.modify(modify);
    Ok(())
}

/// `flow_dv_validate_action_modify_hdr`.
fn may_modify(program: &Program) -> Result<(), FlowError> {
    if program.encap.is_some() {
        return Err(no("can't have encap action before modify action"));
    }
    Ok(())
}

/// All modifications count as one action.
fn first_modification(program: &mut Program) {
    program.actions += usize::from(program.edits.is_empty());
}

/// A field's 32-bit parts.
fn parts(set: &SetField) -> u32 {
    match set {
        SetField::MacSrc(_) | SetField::MacDst(_) => 2,
        SetField::Ipv6Src(_) | SetField::Ipv6Dst(_) => 4,
        _ => 1,
    }
}

/// SET_* and DEC_TTL: the header must be in the pattern.
fn set(program: &mut Program, pattern: &Pattern, action: &Action) -> Result<(), FlowError> {
    may_modify(program)?;
    let need = |there: bool, message: &str| if there { Ok(()) } else { Err(no(message)) };
    let ipv4 = || need(pattern.has(kind::V4), "no ipv4 item in pattern");
    let ipv6 = || need(pattern.has(kind::V6), "no ipv6 item in pattern");
    let ethernet = || need(pattern.has_ethernet(), "no L2 item in pattern");
    let set = match *action {
        Action::SetMacSrc(mac) => ethernet().map(|()| SetField::MacSrc(mac))?,
        Action::SetMacDst(mac) => ethernet().map(|()| SetField::MacDst(mac))?,
        Action::SetIpv4Src(addr) => ipv4().map(|()| SetField::Ipv4Src(addr))?,
        Action::SetIpv4Dst(addr) => ipv4().map(|()| SetField::Ipv4Dst(addr))?,
        Action::SetIpv6Src(addr) => ipv6().map(|()| SetField::Ipv6Src(addr))?,
        Action::SetIpv6Dst(addr) => ipv6().map(|()| SetField::Ipv6Dst(addr))?,
        Action::SetTpSrc(port) => {
            need(pattern.has(kind::TCP | kind::UDP), "no transport layer in pattern")?;
            if pattern.has(kind::TCP) { SetField::TcpSport(port) } else { SetField::UdpSport(port) }
        }
        Action::SetTpDst(port) => {
            need(pattern.has(kind::TCP | kind::UDP), "no transport layer in pattern")?;
            if pattern.has(kind::TCP) { SetField::TcpDport(port) } else { SetField::UdpDport(port) }
        }
        _ => {
            need(pattern.has(kind::V4 | kind::V6), "no IP protocol in pattern")?;
            let field =
                if pattern.has(kind::V4) { HopField::Ipv4Ttl } else { HopField::Ipv6HopLimit };
            first_modification(program);
            program.modifications += 1;
            program.edits.modify(&Modify::Add(field, u8::MAX));
            return Ok(());
        }
    };
    program.modifications += parts(&set);
    first_modification(program);
    program.edits.set(&set);
    Ok(())
}

/// What is checked once all actions are known.
fn whole(program: &mut Program, rule: &Rule, domain: Domain) -> Result<Fate, FlowError> {
    let fate = program.fate.take().ok_or_else(|| no("no fate action is found"));
    let changed = program.modifications > 0 || program.encap.is_some();
    if matches!(fate, Ok(Fate::Drop)) && (program.mark.is_some() || changed) {
        return Err(no(DROP_ALONE));
    }
    if domain == Domain::Switch {
        if program.mark.is_some() {
            return Err(unsupported("unsupported action MARK"));
        }
        match fate {
            Ok(Fate::Queue(_)) => return Err(unsupported("unsupported action QUEUE")),
            Ok(Fate::Rss(_)) => return Err(unsupported("unsupported action RSS")),
            _ => {}
        }
    }
    let fate = fate?;
    if program.encap.is_some() {
        if domain == Domain::Receive {
            return Err(unsupported("encap is not supported for ingress traffic"));
        }
        if matches!(fate, Fate::Jump(_)) {
            return Err(unsupported(
                "what becomes of a tunnel's packets in later groups is not modelled",
            ));
        }
    }
    let root = domain == Domain::Receive && rule.attributes.group == 0;
    let most = if root { ROOT_MODIFICATIONS } else { MODIFICATIONS };
    if program.modifications > most {
        return Err(unsupported("too many header modify actions to support"));
    }
    Ok(fate)
}
