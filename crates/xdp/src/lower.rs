//! rte_flow rules as entries of the match table.
//!
//! The program does one thing to packets, so a rule is taken only if it says just that:
//! exact 5-tuple without fragments, SYN, FIN and RST; new addresses, ports and Ethernet
//! addresses; one off the TTL; out of a port.
use std::net::{IpAddr, SocketAddr};

use dpdk::flow::{
    Action, EthFields, FlowError, FlowErrorKind, HopField, Ipv4Fields, Ipv6Fields, Item, Match,
    Modify, PortFields, Rule, SetField,
};
use wire::{FlowKey, Mac, Rewrite, Side, Transport};

/// The group that has the connections' rules. Other groups stay empty: a jump to one
/// leaves the packet to software.
const CONNECTIONS: u32 = 1;

/// SYN, RST and FIN.
const EVENTS: u8 = 0x07;
/// MF and the fragment offset.
const FRAGMENT: u16 = 0x3fff;
/// Packets with a TTL of 0 or 1 have none of these bits.
const BEYOND_LAST_HOP: u8 = 0xfe;

/// A rule in the program's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lowered {
    /// Frames for an address are looked up: the program does so for the port's own, and
    /// lets frames for all others up.
    Entry,
    /// Packets that go up whatever matches them: the program does so by itself.
    Guard,
    /// A direction of a connection is rewritten and sent on.
    Connection(Connection),
}

/// A direction of a connection and what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) key: FlowKey,
    pub(crate) rewrite: Option<Rewrite>,
    pub(crate) source: Mac,
    pub(crate) destination: Mac,
    /// The number of the port that packets leave by.
    pub(crate) output: u16,
    /// After how long without a packet it is idle.
    pub(crate) timeout_s: Option<u32>,
}

/// `rule` in the program's terms.
///
/// # Errors
/// The program can't do that.
pub(crate) fn lower(rule: &Rule) -> Result<Lowered, FlowError> {
    if !rule.attributes.transfer {
        return refuse(FlowErrorKind::Attribute, "the kernel takes rules of the switch only");
    }
    match (rule.attributes.group, &rule.actions[..]) {
        (0, [Action::Count, Action::Jump(CONNECTIONS)]) => entry(&rule.pattern),
        (CONNECTIONS, [Action::Jump(group)]) if *group > CONNECTIONS => guard(&rule.pattern),
        (CONNECTIONS, actions) => {
            let key = key(&rule.pattern)?;
            connection(key, actions).map(Lowered::Connection)
        }
        _ => refuse(FlowErrorKind::Attribute, "the kernel has one group of rules, group 1"),
    }
}

/// What isn't supported, and why.
pub(crate) fn refuse<T>(kind: FlowErrorKind, message: &str) -> Result<T, FlowError> {
    Err(FlowError { kind, errno: FlowError::NOT_SUPPORTED, message: message.to_owned() })
}

fn entry(pattern: &[Item]) -> Result<Lowered, FlowError> {
    match pattern {
        [Item::Eth(Match::Fields(EthFields { dst, src, ethertype }))]
            if dst.mask == Mac::BROADCAST && src.mask == Mac::default() && ethertype.mask == 0 =>
        {
            Ok(Lowered::Entry)
        }
        _ => refuse(FlowErrorKind::Item, "rules are reached by the Ethernet destination only"),
    }
}

fn guard(pattern: &[Item]) -> Result<Lowered, FlowError> {
    let is_done = match pattern {
        [Item::Eth(Match::Present), Item::Vlan(Match::Present)] => true,
        [Item::Eth(Match::Present), Item::Ipv4(Match::Fields(fields))] => {
            let Ipv4Fields { ttl, .. } = *fields;
            let only = *fields == Ipv4Fields { ttl, ..Ipv4Fields::default() };
            only && (ttl.spec, ttl.mask) == (0, BEYOND_LAST_HOP)
        }
        [Item::Eth(Match::Present), Item::Ipv6(Match::Fields(fields))] => {
            let Ipv6Fields { hop_limit, .. } = *fields;
            let only = *fields == Ipv6Fields { hop_limit, ..Ipv6Fields::default() };
            only && (hop_limit.spec, hop_limit.mask) == (0, BEYOND_LAST_HOP)
        }
        _ => false,
    };
    if is_done {
        return Ok(Lowered::Guard);
    }
    refuse(FlowErrorKind::Item, "the program leaves no such packets to software")
}

/// The 5-tuple that `pattern` matches, if it matches nothing else.
fn key(pattern: &[Item]) -> Result<FlowKey, FlowError> {
    let [Item::Eth(Match::Present), net, transport] = pattern else {
        return refuse(FlowErrorKind::Item, "the program matches 5-tuples only");
    };
    let (src, dst) = addresses(net)?;
    let (proto, ports) = match transport {
        Item::Tcp(Match::Fields(ports)) if ports.tcp_flags.mask == EVENTS => {
            (Transport::Tcp, ports)
        }
        Item::Udp(Match::Fields(ports)) => (Transport::Udp, ports),
        _ => {
            let words = "TCP without SYN, FIN and RST, and UDP are matched, nothing else";
            return refuse(FlowErrorKind::Item, words);
        }
    };
    let PortFields { sport, dport, tcp_flags } = ports;
    if (sport.mask, dport.mask, tcp_flags.spec) != (u16::MAX, u16::MAX, 0) {
        return refuse(FlowErrorKind::Item, "both ports must be matched, and no TCP flag be set");
    }
    let (src, dst) = (SocketAddr::new(src, sport.spec), SocketAddr::new(dst, dport.spec));
    match FlowKey::new(proto, src, dst) {
        Some(key) => Ok(key),
        None => refuse(FlowErrorKind::Item, "the addresses are of different families"),
    }
}

/// Source and destination, if all bits of them are matched, and nothing else that the
/// program doesn't do by itself.
fn addresses(net: &Item) -> Result<(IpAddr, IpAddr), FlowError> {
    match net {
        Item::Ipv4(Match::Fields(fields)) => {
            let Ipv4Fields { src, dst, fragment, .. } = *fields;
            let whole = (fragment.spec, fragment.mask) == (0, FRAGMENT);
            let exact = (src.mask, dst.mask) == (u32::MAX, u32::MAX);
            if whole
                && exact
                && *fields == (Ipv4Fields { src, dst, fragment, ..Ipv4Fields::default() })
            {
                return Ok((IpAddr::V4(src.spec.into()), IpAddr::V4(dst.spec.into())));
            }
        }
        Item::Ipv6(Match::Fields(fields)) => {
            let Ipv6Fields { src, dst, .. } = *fields;
            let exact = (src.mask, dst.mask) == (u128::MAX, u128::MAX);
            if exact && *fields == (Ipv6Fields { src, dst, ..Ipv6Fields::default() }) {
                return Ok((IpAddr::V6(src.spec.into()), IpAddr::V6(dst.spec.into())));
            }
        }
        _ => {}
    }
    refuse(FlowErrorKind::Item, "both addresses must be matched, and whole packets only")
}

/// What the actions of a connection's rule say, gathered.
#[derive(Debug, Default)]
struct Gathered {
    macs: [Option<Mac>; 2],
    addresses: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
    hops: bool,
    output: Option<u16>,
    timeout_s: Option<u32>,
}

fn connection(key: FlowKey, actions: &[Action]) -> Result<Connection, FlowError> {
    let mut gathered = Gathered::default();
    for action in actions {
        gathered.take(action, &key)?;
    }
    let Gathered { macs: [source, destination], hops, output, timeout_s, .. } = gathered;
    let (Some(source), Some(destination), Some(output), true) = (source, destination, output, hops)
    else {
        let words = "packets leave by a port, with new Ethernet addresses and one off their TTL";
        return refuse(FlowErrorKind::Action, words);
    };
    let rewrite = gathered.rewrite(&key)?;
    Ok(Connection { key, rewrite, source, destination, output, timeout_s })
}

impl Gathered {
    fn take(&mut self, action: &Action, key: &FlowKey) -> Result<(), FlowError> {
        let ipv6 = matches!(key, FlowKey::V6(_));
        let own_hops = if ipv6 { HopField::Ipv6HopLimit } else { HopField::Ipv4Ttl };
        match action {
            Action::Count => {}
            Action::Age { timeout_s } => self.timeout_s = Some(*timeout_s),
            Action::RepresentedPort(port) => self.output = Some(*port),
            Action::ModifyField(Modify::Add(field, u8::MAX) | Modify::Sub(field, 1))
                if *field == own_hops && !self.hops =>
            {
                self.hops = true;
            }
            Action::ModifyField(Modify::Set(set)) => self.set(set, key)?,
            _ => return refuse(FlowErrorKind::Action, "the program has no such action"),
        }
        Ok(())
    }

    fn set(&mut self, set: &SetField, key: &FlowKey) -> Result<(), FlowError> {
        let tcp = key.proto() == Transport::Tcp;
        let ipv6 = matches!(key, FlowKey::V6(_));
        let ([source, destination], [sport, dport]) = (&mut self.addresses, &mut self.ports);
        let [mac_source, mac_destination] = &mut self.macs;
        match *set {
            SetField::MacSrc(mac) => *mac_source = Some(mac),
            SetField::MacDst(mac) => *mac_destination = Some(mac),
            SetField::Ipv4Src(address) if !ipv6 => *source = Some(address.into()),
            SetField::Ipv4Dst(address) if !ipv6 => *destination = Some(address.into()),
            SetField::Ipv6Src(address) if ipv6 => *source = Some(address.into()),
            SetField::Ipv6Dst(address) if ipv6 => *destination = Some(address.into()),
            SetField::TcpSport(port) if tcp => *sport = Some(port),
            SetField::TcpDport(port) if tcp => *dport = Some(port),
            SetField::UdpSport(port) if !tcp => *sport = Some(port),
            SetField::UdpDport(port) if !tcp => *dport = Some(port),
            _ => return refuse(FlowErrorKind::Action, "the packets have no such field"),
        }
        Ok(())
    }

    /// The rewrite of packets of `key`; `None`: addresses and ports stay.
    fn rewrite(&self, key: &FlowKey) -> Result<Option<Rewrite>, FlowError> {
        let ([source, destination], [sport, dport]) = (self.addresses, self.ports);
        let port_side = side(sport.is_some(), dport.is_some());
        let Some(address_side) = side(source.is_some(), destination.is_some()) else {
            if port_side.is_none() {
                return Ok(None);
            }
            return refuse(FlowErrorKind::Action, "ports are written with an address only");
        };
        let (old_source, old_destination) = (key.src(), key.dst());
        let new = |address: Option<IpAddr>, port: Option<u16>, old: SocketAddr| {
            SocketAddr::new(address.unwrap_or(old.ip()), port.unwrap_or(old.port()))
        };
        let new = (new(source, sport, old_source), new(destination, dport, old_destination));
        match Rewrite::compile(address_side, port_side, (old_source, old_destination), new) {
            Some(rewrite) => Ok(Some(rewrite)),
            None => refuse(FlowErrorKind::Action, "the addresses are of different families"),
        }
    }
}

fn side(source: bool, destination: bool) -> Option<Side> {
    match (source, destination) {
        (true, true) => Some(Side::Both),
        (true, false) => Some(Side::Source),
        (false, true) => Some(Side::Destination),
        (false, false) => None,
    }
}
