//! Patterns: `mlx5_flow_validate_item_*` and `flow_dv_validate_item_*`.
use dpdk::flow::{
    EthFields, Field, FlowError, FlowErrorKind, Ipv4Fields, Ipv6Fields, Item, Match, PortFields,
    VlanFields,
};

use super::{nowhere, refuse};
use crate::steering::{HeaderKey, Place, kind, mac_bits};

const ETHERTYPE_VLAN: u16 = 0x8100;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// IPv6 extension headers that an item can't name as the next header.
const EXTENSIONS: [u8; 6] = [0, 43, 44, 50, 51, 60];
/// The traffic class in an IPv6 header's first four bytes.
const TRAFFIC_CLASS: u32 = 0x0ff0_0000;
/// `MLX5_IPV4_FRAG_OFFSET_MASK`: more fragments and the offset.
const FRAGMENT_MASK: u16 = 0x3fff;

/// A pattern as values and masks.
pub(super) struct Pattern {
    /// Value and mask; the rest is the attributes'.
    pub(super) place: Place,
    ethertype: Option<u16>,
    proto: Option<u8>,
    seen: u16,
    ethernet: bool,
}

impl Pattern {
    /// Whether there is an item of one of these [`kind`]s.
    pub(super) fn has(&self, kinds: u16) -> bool {
        self.seen & kinds != 0
    }

    pub(super) fn has_ethernet(&self) -> bool {
        self.ethernet
    }

    /// The packet must be of `kind`.
    fn require(&mut self, kind: u16) {
        self.seen |= kind;
        self.place.mask.mac_src |= u64::from(kind);
        self.place.value.mac_src |= u64::from(kind);
    }

    fn put(&mut self, set: impl Fn(&mut HeaderKey, bool)) {
        set(&mut self.place.value, false);
        set(&mut self.place.mask, true);
    }
}

fn item(message: &str) -> FlowError {
    refuse(FlowErrorKind::Item, FlowError::INVALID, message)
}

fn unsupported(message: &str) -> FlowError {
    refuse(FlowErrorKind::Item, FlowError::NOT_SUPPORTED, message)
}

pub(super) fn parse(items: &[Item]) -> Result<Pattern, FlowError> {
    let mut pattern =
        Pattern { place: nowhere(), ethertype: None, proto: None, seen: 0, ethernet: false };
    for item in items {
        match item {
            Item::Eth(fields) => ethernet(&mut pattern, fields)?,
            Item::Vlan(fields) => vlan(&mut pattern, fields)?,
            Item::Ipv4(fields) => ipv4(&mut pattern, fields)?,
            Item::Ipv6(fields) => ipv6(&mut pattern, fields)?,
            Item::Tcp(fields) => transport(&mut pattern, fields, kind::TCP)?,
            Item::Udp(fields) => transport(&mut pattern, fields, kind::UDP)?,
            Item::Other(_) => return Err(unsupported("item not supported")),
        }
    }
    let mask = pattern.place.mask;
    pattern.place.value = pattern.place.value.masked(&mask);
    Ok(pattern)
}

/// `mlx5_flow_item_acceptable`.
fn fields<T: Copy + Default>(item: &Match<T>) -> Result<T, FlowError> {
    match item {
        Match::Present => Ok(T::default()),
        Match::Fields(fields) => Ok(*fields),
        Match::Unsupported => Err(unsupported("mask enables non supported bits")),
        Match::Range => Err(self::item("range is not valid")),
    }
}

const NET: u16 = kind::V4 | kind::V6;
const TRANSPORT: u16 = kind::TCP | kind::UDP;

fn ethernet(pattern: &mut Pattern, item: &Match<EthFields>) -> Result<(), FlowError> {
    if pattern.ethernet {
        return Err(unsupported("multiple L2 layers not supported"));
    }
    if pattern.has(NET) {
        return Err(self::item("L2 layer should not follow L3 layers"));
    }
    if pattern.has(kind::VLAN) {
        return Err(self::item("L2 layer should not follow VLAN"));
    }
    let fields = fields(item)?;
    pattern.ethernet = true;
    pattern.put(|key, mask| {
        key.mac_dst |= mac_bits(pick(fields.dst, mask));
        key.mac_src |= mac_bits(pick(fields.src, mask));
    });
    ethertype(pattern, fields.ethertype);
    Ok(())
}

/// The card matches the type behind all tags; the tag's own says that there is one.
fn ethertype(pattern: &mut Pattern, field: Field<u16>) {
    if field.mask == 0 {
        return;
    }
    if field.mask == u16::MAX {
        if field.spec == ETHERTYPE_VLAN {
            pattern.place.mask.mac_src |= u64::from(kind::VLAN);
            pattern.place.value.mac_src |= u64::from(kind::VLAN);
            return;
        }
        pattern.ethertype = Some(field.spec);
    }
    pattern.place.mask.mac_dst |= u64::from(field.mask);
    pattern.place.value.mac_dst |= u64::from(field.spec & field.mask);
}

fn vlan(pattern: &mut Pattern, item: &Match<VlanFields>) -> Result<(), FlowError> {
    if pattern.has(kind::VLAN) {
        return Err(self::item("multiple VLAN layers not supported"));
    }
    if pattern.has(NET | TRANSPORT) {
        return Err(self::item("VLAN cannot follow L3/L4 layer"));
    }
    let fields = fields(item)?;
    pattern.require(kind::VLAN);
    pattern.put(|key, mask| key.set_vlan(pick(fields.tci, mask)));
    ethertype(pattern, fields.inner_type);
    Ok(())
}

/// What both families check.
fn net(pattern: &mut Pattern, kind: u16, type_: u16, words: &str) -> Result<(), FlowError> {
    if pattern.ethertype.is_some_and(|found| found != type_) {
        return Err(item(words));
    }
    if pattern.has(NET) {
        return Err(unsupported("multiple L3 layers not supported"));
    }
    if pattern.has(TRANSPORT) {
        return Err(item("L3 cannot follow an L4 layer."));
    }
    pattern.require(kind);
    Ok(())
}

fn ipv4(pattern: &mut Pattern, item: &Match<Ipv4Fields>) -> Result<(), FlowError> {
    let words = "IPv4 cannot follow L2/VLAN layer which ether type is not IPv4";
    net(pattern, kind::V4, 0x0800, words)?;
    let fields = fields(item)?;
    if !matches!(fields.proto.mask, 0 | u8::MAX) {
        return Err(self::item("partial mask is not supported for protocol"));
    }
    fragment(fields.fragment)?;
    proto(pattern, fields.proto);
    pattern.put(|key, mask| {
        key.src = u128::from(pick(fields.src, mask));
        key.dst = u128::from(pick(fields.dst, mask));
        key.ports |= u64::from(pick(fields.tos, mask));
        key.net |= u64::from(pick(fields.ttl, mask)) << 24
            | u64::from(pick(fields.proto, mask)) << 16
            | u64::from(pick(fields.fragment, mask));
    });
    Ok(())
}

/// `flow_dv_validate_item_ipv4`: of fragments only "it is none" can be matched.
fn fragment(field: Field<u16>) -> Result<(), FlowError> {
    if field.mask == 0 {
        return Ok(());
    }
    if field.mask & FRAGMENT_MASK != FRAGMENT_MASK {
        return Err(item("must use full mask for fragment_offset"));
    }
    if field.mask != FRAGMENT_MASK {
        return Err(unsupported("mask enables non supported bits"));
    }
    match field.spec & FRAGMENT_MASK {
        0 => Ok(()),
        0x2000 => Err(unsupported("match on first fragment not supported")),
        _ => Err(unsupported("specified value not supported")),
    }
}

fn ipv6(pattern: &mut Pattern, item: &Match<Ipv6Fields>) -> Result<(), FlowError> {
    let words = "IPv6 cannot follow L2/VLAN layer which ether type is not IPv6";
    net(pattern, kind::V6, 0x86dd, words)?;
    let fields = fields(item)?;
    if fields.proto.mask == u8::MAX && EXTENSIONS.contains(&fields.proto.spec) {
        let message = "IPv6 proto (next header) should not be set as extension header";
        return Err(self::item(message));
    }
    if fields.vtc_flow.mask & !TRAFFIC_CLASS != 0 {
        return Err(unsupported(
            "of version, traffic class and flow label only the class is modelled",
        ));
    }
    proto(pattern, fields.proto);
    pattern.put(|key, mask| {
        key.ports |= u64::from(pick(fields.vtc_flow, mask) >> 20 & 0xff);
        key.src = pick(fields.src, mask);
        key.dst = pick(fields.dst, mask);
        key.net |= u64::from(pick(fields.hop_limit, mask)) << 24
            | u64::from(pick(fields.proto, mask)) << 16;
    });
    Ok(())
}

fn proto(pattern: &mut Pattern, field: Field<u8>) {
    if field.mask == u8::MAX {
        pattern.proto = Some(field.spec);
    }
}

fn transport(pattern: &mut Pattern, item: &Match<PortFields>, kind: u16) -> Result<(), FlowError> {
    let (number, name) = if kind == kind::TCP { (TCP, "TCP") } else { (UDP, "UDP") };
    if pattern.proto.is_some_and(|proto| proto != number) {
        let message = format!("protocol filtering not compatible with {name} layer");
        return Err(self::item(&message));
    }
    if !pattern.has(NET) {
        return Err(self::item("L3 is mandatory to filter on L4"));
    }
    if pattern.has(TRANSPORT) {
        return Err(self::item("multiple L4 layers not supported"));
    }
    let fields = fields(item)?;
    pattern.require(kind);
    pattern.put(|key, mask| {
        key.set_ports(pick(fields.sport, mask), pick(fields.dport, mask));
        key.ports |= u64::from(pick(fields.tcp_flags, mask)) << 8;
    });
    Ok(())
}

fn pick<T>(field: Field<T>, mask: bool) -> T {
    if mask { field.mask } else { field.spec }
}
