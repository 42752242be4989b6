//! A rule's actions as the C array that `rte_flow_create` takes.
use dpdk_sys as sys;

use super::{Action, HopField, Modify, NumberField, SetField};

/// Longest timeout of AGE in seconds: 24 bits.
pub(super) const LONGEST_AGE: u32 = 0x00ff_ffff;

/// The actions, END-terminated, with all that they point to. Their addresses
/// stay when this value moves.
#[derive(Debug)]
pub(super) struct RawActions {
    actions: Vec<sys::rte_flow_action>,
    /// What `actions` points to; never touched again.
    _confs: Vec<Conf>,
    /// What `_confs` points to: queues and headers; never touched again.
    _lists: Vec<List>,
}

/// Every configuration an action can have.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Conf {
    queue: sys::rte_flow_action_queue,
    mark: sys::rte_flow_action_mark,
    count: sys::rte_flow_action_count,
    jump: sys::rte_flow_action_jump,
    age: sys::rte_flow_action_age,
    rss: sys::rte_flow_action_rss,
    port: sys::rte_flow_action_port_id,
    represented: sys::rte_flow_action_ethdev,
    encap: sys::rte_flow_action_raw_encap,
    decap: sys::rte_flow_action_raw_decap,
    modify: sys::rte_flow_action_modify_field,
    /// The value of a SET_*, in network byte order (the shim asserts the sizes).
    value: [u8; 16],
}

impl std::fmt::Debug for Conf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Conf")
    }
}

/// What a configuration points to.
#[derive(Debug)]
enum List {
    Nothing,
    Queues(Box<[u16]>),
    Bytes(Box<[u8]>),
}

impl RawActions {
    /// The C form of `actions`; `context` is AGE's, see `RawRule::lower_for`.
    pub(super) fn lower(actions: &[Action], context: usize) -> Self {
        let lists: Vec<List> = actions.iter().map(list).collect();
        let confs: Vec<Conf> =
            actions.iter().zip(&lists).map(|(action, list)| conf(action, list, context)).collect();
        Self::end(actions, confs, lists)
    }

    /// The mask of an actions template: of a MODIFY_FIELD all but the value is
    /// the template's, of other actions nothing is.
    pub(super) fn template_mask(actions: &[Action]) -> Self {
        let masks = actions.iter().map(|action| {
            let mut mask = Conf { value: [0; 16] };
            if matches!(action, Action::ModifyField(_)) {
                // SAFETY: writes the whole of the union's member.
                unsafe { sys::hnlb_modify_mask(&raw mut mask.modify) };
            }
            mask
        });
        let mut raw = Self::end(actions, masks.collect(), Vec::new());
        for action in &mut raw.actions {
            if action.type_ != sys::RTE_FLOW_ACTION_TYPE_MODIFY_FIELD {
                action.conf = std::ptr::null();
            }
        }
        raw
    }

    fn end(actions: &[Action], confs: Vec<Conf>, lists: Vec<List>) -> Self {
        let mut raw: Vec<_> =
            actions.iter().zip(&confs).map(|(action, conf)| lower_action(action, conf)).collect();
        raw.push(sys::rte_flow_action {
            type_: sys::RTE_FLOW_ACTION_TYPE_END,
            conf: std::ptr::null(),
        });
        Self { actions: raw, _confs: confs, _lists: lists }
    }

    pub(super) fn as_ptr(&self) -> *const sys::rte_flow_action {
        self.actions.as_ptr()
    }
}

fn list(action: &Action) -> List {
    match action {
        Action::Rss(queues) => List::Queues(queues.as_slice().into()),
        Action::RawEncap(bytes) | Action::RawDecap(bytes) => List::Bytes(bytes.as_slice().into()),
        _ => List::Nothing,
    }
}

fn conf(action: &Action, list: &List, context: usize) -> Conf {
    match action {
        Action::Queue(index) => Conf { queue: sys::rte_flow_action_queue { index: *index } },
        Action::Mark(id) => Conf { mark: sys::rte_flow_action_mark { id: *id } },
        Action::Jump(group) => Conf { jump: sys::rte_flow_action_jump { group: *group } },
        Action::Age { timeout_s } => age(*timeout_s, context),
        Action::Rss(_) | Action::RawEncap(_) | Action::RawDecap(_) => pointing(action, list),
        Action::PortId(port) => port_id(*port),
        Action::RepresentedPort(port) => {
            Conf { represented: sys::rte_flow_action_ethdev { port_id: *port } }
        }
        Action::ModifyField(modify) => modify_field(modify),
        Action::SetMacSrc(mac) | Action::SetMacDst(mac) => value(&mac.0),
        Action::SetIpv4Src(addr) | Action::SetIpv4Dst(addr) => value(&addr.octets()),
        Action::SetIpv6Src(addr) | Action::SetIpv6Dst(addr) => value(&addr.octets()),
        Action::SetTpSrc(port) | Action::SetTpDst(port) => value(&port.to_be_bytes()),
        _ => Conf { count: sys::rte_flow_action_count { id: 0 } },
    }
}

fn pointing(action: &Action, list: &List) -> Conf {
    match (action, list) {
        (Action::RawDecap(_), List::Bytes(bytes)) => Conf {
            decap: sys::rte_flow_action_raw_decap {
                data: bytes.as_ptr().cast_mut(),
                size: bytes.len(),
            },
        },
        (_, List::Bytes(bytes)) => Conf {
            encap: sys::rte_flow_action_raw_encap {
                data: bytes.as_ptr().cast_mut(),
                preserve: std::ptr::null_mut(),
                size: bytes.len(),
            },
        },
        (_, List::Queues(queues)) => rss(queues),
        (_, List::Nothing) => rss(&[]),
    }
}

fn rss(queues: &[u16]) -> Conf {
    // SAFETY: numbers and pointers that may be null: zero is valid, and says
    // the default function, level and key.
    let mut rss: sys::rte_flow_action_rss = unsafe { std::mem::zeroed() };
    // SAFETY: gives a number.
    rss.types = unsafe { sys::hnlb_rss_five_tuple() };
    rss.queue_num = u32::try_from(queues.len()).unwrap_or(u32::MAX);
    rss.queue = queues.as_ptr();
    Conf { rss }
}

fn age(timeout_s: u32, context: usize) -> Conf {
    // SAFETY: numbers and a pointer that may be null: zero is valid.
    let mut age: sys::rte_flow_action_age = unsafe { std::mem::zeroed() };
    age.set_timeout(timeout_s.min(LONGEST_AGE));
    age.context = std::ptr::without_provenance_mut(context);
    Conf { age }
}

fn port_id(port: u16) -> Conf {
    // SAFETY: numbers only: zero is valid.
    let mut conf: sys::rte_flow_action_port_id = unsafe { std::mem::zeroed() };
    conf.id = u32::from(port);
    Conf { port: conf }
}

fn value(bytes: &[u8]) -> Conf {
    Conf { value: immediate(bytes) }
}

fn immediate(bytes: &[u8]) -> [u8; 16] {
    let mut value = [0; 16];
    for (to, from) in value.iter_mut().zip(bytes) {
        *to = *from;
    }
    value
}

fn modify_field(modify: &Modify) -> Conf {
    let (operation, field, width, value) = match modify {
        Modify::Set(set) => set_field(set),
        Modify::Add(field, by) => (sys::RTE_FLOW_MODIFY_ADD, hop_field(*field), 8, vec![*by]),
        Modify::Sub(field, by) => (sys::RTE_FLOW_MODIFY_SUB, hop_field(*field), 8, vec![*by]),
        Modify::AddNumber(field, by) => {
            (sys::RTE_FLOW_MODIFY_ADD, number_field(*field), 32, by.to_be_bytes().to_vec())
        }
        // Of no width, which no driver takes.
        Modify::Unsupported => (sys::RTE_FLOW_MODIFY_SET, sys::RTE_FLOW_FIELD_START, 0, Vec::new()),
    };
    let from = sys::hnlb_modify {
        operation,
        field,
        level: 0,
        offset: 0,
        src_field: sys::RTE_FLOW_FIELD_VALUE,
        width,
        value: immediate(&value),
    };
    let mut conf = Conf { value: [0; 16] };
    // SAFETY: writes the whole of the union's member.
    unsafe { sys::hnlb_modify_write(&raw mut conf.modify, &raw const from) };
    conf
}

/// Operation, field, its width in bits and the value in network byte order.
fn set_field(set: &SetField) -> (u32, u32, u32, Vec<u8>) {
    let (field, value) = match set {
        SetField::MacSrc(mac) => (sys::RTE_FLOW_FIELD_MAC_SRC, mac.0.to_vec()),
        SetField::MacDst(mac) => (sys::RTE_FLOW_FIELD_MAC_DST, mac.0.to_vec()),
        SetField::Ipv4Src(addr) => (sys::RTE_FLOW_FIELD_IPV4_SRC, addr.octets().to_vec()),
        SetField::Ipv4Dst(addr) => (sys::RTE_FLOW_FIELD_IPV4_DST, addr.octets().to_vec()),
        SetField::Ipv6Src(addr) => (sys::RTE_FLOW_FIELD_IPV6_SRC, addr.octets().to_vec()),
        SetField::Ipv6Dst(addr) => (sys::RTE_FLOW_FIELD_IPV6_DST, addr.octets().to_vec()),
        SetField::TcpSport(port) => (sys::RTE_FLOW_FIELD_TCP_PORT_SRC, port.to_be_bytes().to_vec()),
        SetField::TcpDport(port) => (sys::RTE_FLOW_FIELD_TCP_PORT_DST, port.to_be_bytes().to_vec()),
        SetField::UdpSport(port) => (sys::RTE_FLOW_FIELD_UDP_PORT_SRC, port.to_be_bytes().to_vec()),
        SetField::UdpDport(port) => (sys::RTE_FLOW_FIELD_UDP_PORT_DST, port.to_be_bytes().to_vec()),
    };
    (sys::RTE_FLOW_MODIFY_SET, field, value.len() as u32 * 8, value)
}

fn number_field(field: NumberField) -> u32 {
    match field {
        NumberField::TcpSequence => sys::RTE_FLOW_FIELD_TCP_SEQ_NUM,
        NumberField::TcpAcknowledgement => sys::RTE_FLOW_FIELD_TCP_ACK_NUM,
    }
}

fn hop_field(field: HopField) -> u32 {
    match field {
        HopField::Ipv4Ttl => sys::RTE_FLOW_FIELD_IPV4_TTL,
        HopField::Ipv6HopLimit => sys::RTE_FLOW_FIELD_IPV6_HOPLIMIT,
    }
}

fn lower_action(action: &Action, conf: &Conf) -> sys::rte_flow_action {
    let given = std::ptr::from_ref(conf).cast();
    let type_ = number(action);
    let bare =
        matches!(action, Action::Drop | Action::Passthru | Action::DecTtl | Action::Other(_));
    sys::rte_flow_action { type_, conf: if bare { std::ptr::null() } else { given } }
}

/// `RTE_FLOW_ACTION_TYPE_*`.
fn number(action: &Action) -> u32 {
    match action {
        Action::Queue(_) => sys::RTE_FLOW_ACTION_TYPE_QUEUE,
        Action::Mark(_) => sys::RTE_FLOW_ACTION_TYPE_MARK,
        Action::Drop => sys::RTE_FLOW_ACTION_TYPE_DROP,
        Action::Count => sys::RTE_FLOW_ACTION_TYPE_COUNT,
        Action::Passthru => sys::RTE_FLOW_ACTION_TYPE_PASSTHRU,
        Action::Jump(_) => sys::RTE_FLOW_ACTION_TYPE_JUMP,
        Action::Age { .. } => sys::RTE_FLOW_ACTION_TYPE_AGE,
        Action::Rss(_) => sys::RTE_FLOW_ACTION_TYPE_RSS,
        Action::PortId(_) => sys::RTE_FLOW_ACTION_TYPE_PORT_ID,
        Action::RepresentedPort(_) => sys::RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT,
        Action::ModifyField(_) => sys::RTE_FLOW_ACTION_TYPE_MODIFY_FIELD,
        Action::SetMacSrc(_) => sys::RTE_FLOW_ACTION_TYPE_SET_MAC_SRC,
        Action::SetMacDst(_) => sys::RTE_FLOW_ACTION_TYPE_SET_MAC_DST,
        Action::SetIpv4Src(_) => sys::RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC,
        Action::SetIpv4Dst(_) => sys::RTE_FLOW_ACTION_TYPE_SET_IPV4_DST,
        Action::SetIpv6Src(_) => sys::RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC,
        Action::SetIpv6Dst(_) => sys::RTE_FLOW_ACTION_TYPE_SET_IPV6_DST,
        Action::SetTpSrc(_) => sys::RTE_FLOW_ACTION_TYPE_SET_TP_SRC,
        Action::SetTpDst(_) => sys::RTE_FLOW_ACTION_TYPE_SET_TP_DST,
        Action::DecTtl => sys::RTE_FLOW_ACTION_TYPE_DEC_TTL,
        Action::RawEncap(_) => sys::RTE_FLOW_ACTION_TYPE_RAW_ENCAP,
        Action::RawDecap(_) => sys::RTE_FLOW_ACTION_TYPE_RAW_DECAP,
        Action::Other(number) => *number,
    }
}
