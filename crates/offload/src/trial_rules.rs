//! Rules as HNLB makes them, for connections that nobody has: with them a card is
//! measured.
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use dpdk::flow::{Action, Rule};
use flow::Encoding;
use wire::{FlowKey, Mac, Transport};

use crate::encode::rewrite::{entry, guards, rewrite_of};
use crate::{RewriteCapabilities, Style};

/// Networks for benchmarks (RFC 2544, RFC 6890): no client and no backend is there.
const CLIENTS: u32 = 0xc612_0000;
const VIP: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 1);
const BACKEND: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 2);
const PORT: u16 = 9;

/// What a trial rule does with its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mark { queue: u16 },
    Queue { queue: u16 },
    Rewrite { style: Style, output: u16, station: Mac, next_hop: Mac },
}

/// Rules of one encoding, one for each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialRules {
    kind: Kind,
}

impl TrialRules {
    /// Rules of encoding `mark`, whose packets come to receive queue `queue`. The mark
    /// is the rule's number.
    #[must_use]
    pub const fn mark(queue: u16) -> Self {
        Self { kind: Kind::Mark { queue } }
    }

    /// Rules of encoding `queue`, whose packets come to receive queue `queue`.
    #[must_use]
    pub const fn queue(queue: u16) -> Self {
        Self { kind: Kind::Queue { queue } }
    }

    /// Rules of encoding `rewrite` for frames to `station`, in the words that `card`
    /// takes; their packets leave for `next_hop`. `None`: the card sends packets out of
    /// no port.
    #[must_use]
    pub fn rewrite(card: &RewriteCapabilities, station: Mac, next_hop: Mac) -> Option<Self> {
        let output = card.outputs.iter().flatten().next().copied()?;
        Some(Self { kind: Kind::Rewrite { style: card.style, output, station, next_hop } })
    }

    /// The encoding that makes such rules.
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        match self.kind {
            Kind::Mark { .. } => Encoding::Mark,
            Kind::Queue { .. } => Encoding::Queue,
            Kind::Rewrite { .. } => Encoding::Rewrite,
        }
    }

    /// The rules that lead packets to the others; they come first and go last.
    #[must_use]
    pub fn leading(&self) -> Vec<Rule> {
        match self.kind {
            Kind::Rewrite { station, .. } => guards().into_iter().chain([entry(station)]).collect(),
            _ => Vec::new(),
        }
    }

    /// What packets of rule `number` have in their headers: each number has other
    /// addresses and ports.
    #[must_use]
    pub fn flow(number: u32) -> Option<FlowKey> {
        let client = Ipv4Addr::from_bits(CLIENTS | number >> 16);
        let client = SocketAddr::new(IpAddr::V4(client), number as u16);
        FlowKey::new(Transport::Tcp, client, SocketAddr::new(IpAddr::V4(VIP), PORT))
    }

    /// What the packets of rule `number` have when they leave the card rewritten.
    #[must_use]
    pub fn rewritten(number: u32) -> Option<FlowKey> {
        let to = SocketAddr::new(IpAddr::V4(BACKEND), PORT);
        FlowKey::new(Transport::Tcp, Self::flow(number)?.src(), to)
    }

    /// Rule `number`.
    #[must_use]
    pub fn rule(&self, number: u32) -> Option<Rule> {
        let flow = Self::flow(number)?;
        match self.kind {
            Kind::Mark { queue } => {
                let actions = vec![Action::Queue(queue), Action::Mark(number)];
                Some(Rule::five_tuple(&flow, actions))
            }
            Kind::Queue { queue } => Some(Rule::five_tuple(&flow, vec![Action::Queue(queue)])),
            Kind::Rewrite { style, output, next_hop, .. } => {
                rewrite_of(&flow, Self::rewritten(number)?.dst(), style, (output, next_hop))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_numbers_have_one_flow() {
        let numbers = (0..4096).chain(65_000..70_000).chain([131_071, 131_072, 4_194_303]);
        let numbers: HashSet<u32> = numbers.collect();
        let flows: HashSet<_> = numbers.iter().map(|n| TrialRules::flow(*n).unwrap()).collect();
        assert_eq!(flows.len(), numbers.len());
    }
}
