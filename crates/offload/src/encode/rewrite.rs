//! Encoding `rewrite`: the rule rewrites the packets and sends them out of the
//! right port; no worker sees them.
//!
//! The rules are in a group of the switch of our own. The root's one rule, the
//! entry, sends frames for our Ethernet address there; guards send those back
//! that only software may handle; what no rule matches falls back to the host.
mod entry;
mod example;
mod rule;

use dpdk::flow::Rule;
use flow::Direction;
use service::Delivery;
use wire::Encap;

pub(crate) use self::entry::{entry, guards};
pub(crate) use self::example::{rewrite_example, rewrite_of, spliced_example, tunnel_example};
use self::rule::{RewriteRule, connection};
use super::{Encoded, Encoder, NotRewritten, RuleInput, Visibility, Why};
use crate::environment::PortTables;
use crate::stats::PortStats;
use crate::{FlowType, TunnelType};

/// In which words a driver takes such rules; the [probe](crate::probe_card) finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Style {
    /// SET_* and DEC_TTL instead of MODIFY_FIELD.
    pub legacy: bool,
    /// PORT_ID instead of REPRESENTED_PORT.
    pub port_id: bool,
    /// Rules have AGE; else idleness is learnt from counters alone.
    pub age: bool,
    /// SYN, RST and FIN can be left to software; else an end of a connection is
    /// learnt by ageing.
    pub flags: bool,
    /// Fragments of IPv4 can be left to software.
    pub fragments: bool,
}

impl Style {
    /// The best.
    pub(crate) const BEST: Self =
        Self { legacy: false, port_id: false, age: true, flags: true, fragments: true };

    /// The words of older drivers.
    pub(crate) const LEGACY: Self = Self { legacy: true, port_id: true, ..Self::BEST };

    /// All that there are, the best first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..32u8).map(|bits| {
            let lacks = |bit: u8| bits & bit != 0;
            Self {
                fragments: !lacks(1),
                age: !lacks(2),
                port_id: lacks(4),
                legacy: lacks(8),
                flags: !lacks(16),
            }
        })
    }
}

/// How one port's card rewrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteCapabilities {
    /// Its driver's words.
    pub style: Style,
    /// By `PortId`: the number by which rules of this port name that port, if
    /// packets can be sent out of it.
    pub outputs: Vec<Option<u16>>,
    /// Flow types that it takes, by [`FlowType::index`].
    pub types: [bool; 4],
    /// Tunnels that it puts packets into, by [`TunnelType::index`], with rules
    /// made one by one. Where rules go through a queue the port is asked again.
    ///
    /// [`TunnelType::index`]: crate::TunnelType::index
    pub tunnels: [bool; TunnelType::COUNT],
    /// Whether it adds to the numbers of TCP, as spliced connections need it.
    pub numbers: bool,
}

/// Makes rules that rewrite. They have no tag, since no worker sees their packets.
#[derive(Debug)]
pub(super) struct RewriteEncoder {
    card: Option<RewriteCapabilities>,
    /// Tunnel types that the card takes by the way in which the port's rules are
    /// made.
    tunnels: [bool; TunnelType::COUNT],
}

impl RewriteEncoder {
    /// For a card that can do what `card` says.
    pub(super) fn new(card: Option<RewriteCapabilities>) -> Self {
        Self {
            tunnels: card.as_ref().map_or([false; TunnelType::COUNT], |card| card.tunnels),
            card,
        }
    }

    /// Whether the card puts packets into the tunnel.
    fn enters(&self, tunnel: Option<&Encap>) -> bool {
        let index = tunnel.map(|encap| TunnelType::of(encap).index());
        index.and_then(|index| self.tunnels.get(index)) == Some(&true)
    }
}

impl Encoder for RewriteEncoder {
    fn visibility(&self) -> Visibility {
        Visibility::None
    }

    fn encode(&mut self, input: &RuleInput, _: PortTables<'_>) -> Result<Encoded, Why> {
        let no = |why| Err(Why::NotRewritten(why));
        let Some(card) = &self.card else { return no(NotRewritten::NotEncodable) };
        let (Some(next_hop), Some(from)) = (input.next_hop, input.from) else {
            return Err(Why::Unresolved);
        };
        if next_hop.vlan.is_some() || from.vlan.is_some() {
            return no(NotRewritten::Tagged);
        }
        let Some(delivery) = input.binding.delivery(input.direction) else {
            return no(NotRewritten::NotEncodable);
        };
        let tunnel = input.tunnel.as_ref();
        if matches!(delivery, Delivery::Tunnel(_)) && !self.enters(tunnel) {
            return no(NotRewritten::NotEncodable);
        }
        if next_hop.mtu.saturating_sub(tunnel.map_or(0, Encap::overhead)) < input.longest {
            return no(NotRewritten::Mtu);
        }
        let output = card.outputs.get(usize::from(next_hop.port.0)).copied().flatten();
        let Some(output) = output else { return no(NotRewritten::NoOutput) };
        let mac = next_hop.mac.ok_or(Why::Unresolved)?;
        let key = &input.key;
        if card.types.get(FlowType::of(key).index()) != Some(&true) {
            return no(NotRewritten::Unsupported);
        }
        if input.added.is_some() && (!card.numbers || input.direction == Direction::Forward) {
            return no(NotRewritten::NotEncodable);
        }
        let made_of = RewriteRule {
            key,
            delivery: &delivery,
            tunnel,
            next_hop: &next_hop,
            mac,
            output,
            timeout_ms: input.timeout_ms,
            added: input.added,
        };
        match connection(&made_of, card.style) {
            Some((rule, shape)) => Ok(Encoded { rule, shape, tag: 0 }),
            None => no(NotRewritten::NotEncodable),
        }
    }

    fn take_back(&mut self, _: u32, _: PortTables<'_>) {}

    fn quarantine(&mut self, _: u32) {}

    fn release(&mut self, _: u32, _: PortTables<'_>) {}

    fn silence(&self, _: u32, _: PortTables<'_>) {}

    /// Through a queue a card may take other tunnels than one by one.
    fn ask_again(&mut self, takes: &mut dyn FnMut(&Rule) -> bool) {
        let Some(card) = &self.card else { return };
        for (taken, kind) in self.tunnels.iter_mut().zip(TunnelType::ALL) {
            let rule = tunnel_example(card.style, &card.outputs, kind);
            *taken = rule.is_some_and(|rule| takes(&rule));
        }
    }

    fn describe(&self, stats: &mut PortStats) {
        let all = TunnelType::ALL.into_iter().zip(self.tunnels);
        stats.tunnels = all.filter(|(_, taken)| *taken).map(|(kind, _)| kind).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_style_is_the_first_and_none_comes_twice() {
        let all: Vec<Style> = Style::all().collect();
        assert_eq!(all.first(), Some(&Style::BEST));
        for (at, style) in all.iter().enumerate() {
            assert!(!all.iter().skip(at + 1).any(|other| other == style));
        }
    }
}
