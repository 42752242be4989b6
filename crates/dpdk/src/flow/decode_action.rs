//! Actions from the C array back to typed values.
use std::net::{Ipv4Addr, Ipv6Addr};

use dpdk_sys as sys;
use wire::Mac;

use super::decode::{MOST, invalid};
use super::{Action, FlowError, FlowErrorKind, HopField, Modify, NumberField, SetField};

/// # Safety
/// `actions` is null or leads to actions ended by END, and what these point to
/// is valid for their types.
pub(super) unsafe fn decode_actions(
    actions: *const sys::rte_flow_action,
) -> Result<Vec<Action>, FlowError> {
    if actions.is_null() {
        return Err(invalid(FlowErrorKind::Action, "the actions are missing"));
    }
    let mut list = Vec::new();
    for at in 0..MOST {
        // SAFETY: all entries up to END exist, and END was not met yet.
        let action = unsafe { &*actions.add(at) };
        match action.type_ {
            sys::RTE_FLOW_ACTION_TYPE_END => return Ok(list),
            sys::RTE_FLOW_ACTION_TYPE_VOID => {}
            // SAFETY: the caller's promise for this action.
            _ => list.push(unsafe { decode_action(action)? }),
        }
    }
    Err(invalid(FlowErrorKind::Action, "the actions have no END"))
}

/// # Safety
/// The configuration is null or valid for the action's type.
unsafe fn decode_action(action: &sys::rte_flow_action) -> Result<Action, FlowError> {
    // SAFETY, for all of these: the caller's promise.
    Ok(match action.type_ {
        sys::RTE_FLOW_ACTION_TYPE_DROP => Action::Drop,
        sys::RTE_FLOW_ACTION_TYPE_COUNT => Action::Count,
        sys::RTE_FLOW_ACTION_TYPE_PASSTHRU => Action::Passthru,
        sys::RTE_FLOW_ACTION_TYPE_DEC_TTL => Action::DecTtl,
        sys::RTE_FLOW_ACTION_TYPE_QUEUE => {
            // SAFETY: see above.
            Action::Queue(unsafe { conf::<sys::rte_flow_action_queue>(action)? }.index)
        }
        sys::RTE_FLOW_ACTION_TYPE_MARK => {
            // SAFETY: see above.
            Action::Mark(unsafe { conf::<sys::rte_flow_action_mark>(action)? }.id)
        }
        sys::RTE_FLOW_ACTION_TYPE_JUMP => {
            // SAFETY: see above.
            Action::Jump(unsafe { conf::<sys::rte_flow_action_jump>(action)? }.group)
        }
        sys::RTE_FLOW_ACTION_TYPE_AGE => {
            // SAFETY: see above.
            let age = unsafe { conf::<sys::rte_flow_action_age>(action)? };
            Action::Age { timeout_s: age.timeout() }
        }
        sys::RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT => {
            // SAFETY: see above.
            Action::RepresentedPort(unsafe { conf::<sys::rte_flow_action_ethdev>(action)? }.port_id)
        }
        // SAFETY: see above.
        sys::RTE_FLOW_ACTION_TYPE_PORT_ID => port_id(unsafe { conf(action)? })?,
        // SAFETY: see above.
        sys::RTE_FLOW_ACTION_TYPE_RSS => unsafe { rss(conf(action)?)? },
        sys::RTE_FLOW_ACTION_TYPE_MODIFY_FIELD => {
            // SAFETY: see above.
            Action::ModifyField(modify(unsafe { conf(action)? }))
        }
        sys::RTE_FLOW_ACTION_TYPE_RAW_ENCAP => {
            // SAFETY: see above.
            let encap = unsafe { conf::<sys::rte_flow_action_raw_encap>(action)? };
            // SAFETY: `size` bytes, as the caller promised.
            Action::RawEncap(unsafe { list(encap.data, encap.size) })
        }
        sys::RTE_FLOW_ACTION_TYPE_RAW_DECAP => {
            // SAFETY: see above.
            let decap = unsafe { conf::<sys::rte_flow_action_raw_decap>(action)? };
            // SAFETY: `size` bytes, as the caller promised.
            Action::RawDecap(unsafe { list(decap.data, decap.size) })
        }
        // SAFETY: see above.
        _ => unsafe { decode_set(action)? },
    })
}

/// # Safety
/// The configuration is null or valid for the action's type.
unsafe fn decode_set(action: &sys::rte_flow_action) -> Result<Action, FlowError> {
    // SAFETY, for all of these: the caller's promise; a configuration of SET_*
    // is its value's bytes.
    Ok(match action.type_ {
        // SAFETY: see above.
        sys::RTE_FLOW_ACTION_TYPE_SET_MAC_SRC => Action::SetMacSrc(Mac(unsafe { *conf(action)? })),
        // SAFETY: see above.
        sys::RTE_FLOW_ACTION_TYPE_SET_MAC_DST => Action::SetMacDst(Mac(unsafe { *conf(action)? })),
        sys::RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC => {
            // SAFETY: see above.
            Action::SetIpv4Src(Ipv4Addr::from(unsafe { *conf::<[u8; 4]>(action)? }))
        }
        sys::RTE_FLOW_ACTION_TYPE_SET_IPV4_DST => {
            // SAFETY: see above.
            Action::SetIpv4Dst(Ipv4Addr::from(unsafe { *conf::<[u8; 4]>(action)? }))
        }
        sys::RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC => {
            // SAFETY: see above.
            Action::SetIpv6Src(Ipv6Addr::from(unsafe { *conf::<[u8; 16]>(action)? }))
        }
        sys::RTE_FLOW_ACTION_TYPE_SET_IPV6_DST => {
            // SAFETY: see above.
            Action::SetIpv6Dst(Ipv6Addr::from(unsafe { *conf::<[u8; 16]>(action)? }))
        }
        sys::RTE_FLOW_ACTION_TYPE_SET_TP_SRC => {
            // SAFETY: see above.
            Action::SetTpSrc(u16::from_be_bytes(unsafe { *conf(action)? }))
        }
        sys::RTE_FLOW_ACTION_TYPE_SET_TP_DST => {
            // SAFETY: see above.
            Action::SetTpDst(u16::from_be_bytes(unsafe { *conf(action)? }))
        }
        other => Action::Other(other),
    })
}

/// # Safety
/// The configuration is null or a valid `T`.
unsafe fn conf<T>(action: &sys::rte_flow_action) -> Result<&T, FlowError> {
    // SAFETY: the caller's promise.
    unsafe { action.conf.cast::<T>().as_ref() }
        .ok_or_else(|| invalid(FlowErrorKind::Action, "an action lacks its configuration"))
}

/// # Safety
/// `from` is null or leads to `len` values.
unsafe fn list<T: Copy>(from: *const T, len: usize) -> Vec<T> {
    if from.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(from, len) }.to_vec()
}

fn port_id(conf: &sys::rte_flow_action_port_id) -> Result<Action, FlowError> {
    match u16::try_from(conf.id) {
        Ok(port) if conf.original() == 0 => Ok(Action::PortId(port)),
        _ => Err(unsupported("a PORT_ID of the original port or beyond 65535 is not known here")),
    }
}

/// # Safety
/// `conf.queue` is null or leads to `queue_num` queues.
unsafe fn rss(conf: &sys::rte_flow_action_rss) -> Result<Action, FlowError> {
    // SAFETY: gives a number.
    let types = unsafe { sys::hnlb_rss_five_tuple() };
    if conf.func != 0 || conf.level > 1 || conf.key_len != 0 || ![0, types].contains(&conf.types) {
        return Err(unsupported(
            "of RSS only the default function and key over addresses and ports are known here",
        ));
    }
    // SAFETY: the caller's promise.
    Ok(Action::Rss(unsafe { list(conf.queue, conf.queue_num as usize) }))
}

fn unsupported(message: &str) -> FlowError {
    FlowError { errno: FlowError::NOT_SUPPORTED, ..invalid(FlowErrorKind::Action, message) }
}

fn modify(conf: &sys::rte_flow_action_modify_field) -> Modify {
    let mut read = sys::hnlb_modify {
        operation: 0,
        field: 0,
        level: 0,
        offset: 0,
        src_field: 0,
        width: 0,
        value: [0; 16],
    };
    // SAFETY: both are whole structures.
    unsafe { sys::hnlb_modify_read(&raw mut read, conf) };
    if read.src_field != sys::RTE_FLOW_FIELD_VALUE || read.offset != 0 || read.level != 0 {
        return Modify::Unsupported;
    }
    match read.operation {
        sys::RTE_FLOW_MODIFY_SET => set_field(&read).map_or(Modify::Unsupported, Modify::Set),
        sys::RTE_FLOW_MODIFY_ADD => {
            let number = || number_field(&read).map(|(field, by)| Modify::AddNumber(field, by));
            let hops = hop_field(&read).map(|(field, by)| Modify::Add(field, by));
            hops.or_else(number).unwrap_or(Modify::Unsupported)
        }
        sys::RTE_FLOW_MODIFY_SUB => {
            hop_field(&read).map_or(Modify::Unsupported, |(field, by)| Modify::Sub(field, by))
        }
        _ => Modify::Unsupported,
    }
}

/// The first `N` bytes of the value, if the field is modified in full.
fn whole<const N: usize>(read: &sys::hnlb_modify) -> Option<[u8; N]> {
    if read.width as usize != N * 8 {
        return None;
    }
    read.value.first_chunk().copied()
}

fn set_field(read: &sys::hnlb_modify) -> Option<SetField> {
    let port = || whole(read).map(u16::from_be_bytes);
    match read.field {
        sys::RTE_FLOW_FIELD_MAC_SRC => whole(read).map(|bytes| SetField::MacSrc(Mac(bytes))),
        sys::RTE_FLOW_FIELD_MAC_DST => whole(read).map(|bytes| SetField::MacDst(Mac(bytes))),
        sys::RTE_FLOW_FIELD_IPV4_SRC => {
            whole::<4>(read).map(|bytes| SetField::Ipv4Src(bytes.into()))
        }
        sys::RTE_FLOW_FIELD_IPV4_DST => {
            whole::<4>(read).map(|bytes| SetField::Ipv4Dst(bytes.into()))
        }
        sys::RTE_FLOW_FIELD_IPV6_SRC => {
            whole::<16>(read).map(|bytes| SetField::Ipv6Src(bytes.into()))
        }
        sys::RTE_FLOW_FIELD_IPV6_DST => {
            whole::<16>(read).map(|bytes| SetField::Ipv6Dst(bytes.into()))
        }
        sys::RTE_FLOW_FIELD_TCP_PORT_SRC => port().map(SetField::TcpSport),
        sys::RTE_FLOW_FIELD_TCP_PORT_DST => port().map(SetField::TcpDport),
        sys::RTE_FLOW_FIELD_UDP_PORT_SRC => port().map(SetField::UdpSport),
        sys::RTE_FLOW_FIELD_UDP_PORT_DST => port().map(SetField::UdpDport),
        _ => None,
    }
}

fn number_field(read: &sys::hnlb_modify) -> Option<(NumberField, u32)> {
    let by = u32::from_be_bytes(whole(read)?);
    match read.field {
        sys::RTE_FLOW_FIELD_TCP_SEQ_NUM => Some((NumberField::TcpSequence, by)),
        sys::RTE_FLOW_FIELD_TCP_ACK_NUM => Some((NumberField::TcpAcknowledgement, by)),
        _ => None,
    }
}

fn hop_field(read: &sys::hnlb_modify) -> Option<(HopField, u8)> {
    let [by] = whole(read)?;
    match read.field {
        sys::RTE_FLOW_FIELD_IPV4_TTL => Some((HopField::Ipv4Ttl, by)),
        sys::RTE_FLOW_FIELD_IPV6_HOPLIMIT => Some((HopField::Ipv6HopLimit, by)),
        _ => None,
    }
}
