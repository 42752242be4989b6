//! What a connection's rule does to packets.
use std::net::{IpAddr, SocketAddr};

use dpdk::flow::{Action, FlowError, FlowErrorKind, HopField, Modify, SetField};
use wire::{Encap, FlowKey, Mac, Rewrite, Side, Transport};

use super::tunnel::{ETHERNET, Entrance, entrance};
use super::{Class, Connection, refuse};
use crate::Change;

/// What the actions of a connection's rule say, gathered.
#[derive(Debug, Default)]
struct Gathered {
    macs: [Option<Mac>; 2],
    addresses: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
    hops: bool,
    output: Option<u16>,
    timeout_s: Option<u32>,
    /// The Ethernet header goes.
    bare: bool,
    tunnel: Option<Encap>,
}

/// The connection of `key` whose rule matches packets of the traffic classes `class`.
pub(super) fn connection(
    key: FlowKey,
    class: Class,
    actions: &[Action],
) -> Result<Connection, FlowError> {
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
    let change = gathered.change(&key)?;
    let fits = match change {
        Change::Tunnel { .. } => class == Class::Zero,
        Change::None | Change::Rewrite(_) => class == Class::Any,
    };
    if !fits {
        let words =
            "of tunnels' packets the traffic class must be zero, of others' it must not be matched";
        return refuse(FlowErrorKind::Item, words);
    }
    Ok(Connection { key, change, source, destination, output, timeout_s })
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
                if *field == own_hops && !self.hops && !self.bare =>
            {
                self.hops = true;
            }
            Action::ModifyField(Modify::Set(set)) if !self.bare => self.set(set, key)?,
            // The packet's TTL is changed before it gets another header in front.
            Action::RawDecap(header)
                if header.len() == ETHERNET && self.hops && self.macs == [None; 2] =>
            {
                self.bare = true;
            }
            Action::RawEncap(headers) if self.bare && self.tunnel.is_none() => {
                let Some(Entrance { source, destination, encap }) = entrance(headers, key) else {
                    let words = "the program puts packets into ipip, gre, gue and geneve only";
                    return refuse(FlowErrorKind::Action, words);
                };
                (self.macs, self.tunnel) = ([Some(source), Some(destination)], Some(encap));
            }
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

    /// What becomes of packets of `key`.
    fn change(&self, key: &FlowKey) -> Result<Change, FlowError> {
        let untouched = self.addresses == [None; 2] && self.ports == [None; 2];
        match (self.tunnel, self.bare, untouched) {
            (Some(encap), true, true) => {
                Ok(Change::Tunnel { encap, ipv6: matches!(key, FlowKey::V6(_)) })
            }
            (None, false, true) => Ok(Change::None),
            (None, false, false) => self.rewrite(key).map(Change::Rewrite),
            _ => refuse(FlowErrorKind::Action, "packets in a tunnel are not rewritten"),
        }
    }

    /// The rewrite of packets of `key`.
    fn rewrite(&self, key: &FlowKey) -> Result<Rewrite, FlowError> {
        let ([source, destination], [sport, dport]) = (self.addresses, self.ports);
        let port_side = side(sport.is_some(), dport.is_some());
        let Some(address_side) = side(source.is_some(), destination.is_some()) else {
            return refuse(FlowErrorKind::Action, "ports are written with an address only");
        };
        let (old_source, old_destination) = (key.src(), key.dst());
        let new = |address: Option<IpAddr>, port: Option<u16>, old: SocketAddr| {
            SocketAddr::new(address.unwrap_or(old.ip()), port.unwrap_or(old.port()))
        };
        let new = (new(source, sport, old_source), new(destination, dport, old_destination));
        match Rewrite::compile(address_side, port_side, (old_source, old_destination), new) {
            Some(rewrite) => Ok(rewrite),
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
