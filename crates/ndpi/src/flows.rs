//! The flows of one instance, bounded.
use std::collections::HashMap;
use std::net::IpAddr;

use wire::{FlowKey, Headers};

use crate::library::Flow;

/// A flow in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    low: (IpAddr, u16),
    high: (IpAddr, u16),
    protocol: u8,
}

impl Key {
    /// The flow of a frame; `None`: it is no TCP or UDP.
    pub(crate) fn of(headers: &Headers, frame: &[u8]) -> Option<Self> {
        let (source, destination) = match headers.flow(frame)? {
            FlowKey::V4(flow) => ((flow.src.into(), flow.sport), (flow.dst.into(), flow.dport)),
            FlowKey::V6(flow) => ((flow.src.into(), flow.sport), (flow.dst.into(), flow.dport)),
        };
        let (low, high) = (source.min(destination), source.max(destination));
        Some(Self { low, high, protocol: headers.proto })
    }
}

/// A flow's state and when it was last seen.
#[derive(Debug)]
struct Seen {
    flow: Flow,
    at_ms: u64,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Flows(HashMap<Key, Seen>);

impl Flows {
    /// Flows at a time.
    const MOST: usize = 65_536;
    /// A flow that is idle for so long makes room for another, in milliseconds.
    const IDLE_MS: u64 = 10_000;

    /// The flow of `key`, and whether it is new; `None`: there is no room for it.
    pub(crate) fn find(&mut self, key: Key, now_ms: u64) -> Option<(&mut Flow, bool)> {
        if self.0.len() >= Self::MOST && !self.0.contains_key(&key) {
            self.0.retain(|_, seen| now_ms.saturating_sub(seen.at_ms) < Self::IDLE_MS);
            if self.0.len() >= Self::MOST {
                return None;
            }
        }
        let mut new = false;
        let seen = match self.0.entry(key) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                new = true;
                entry.insert(Seen { flow: Flow::new()?, at_ms: now_ms })
            }
        };
        seen.at_ms = now_ms;
        Some((&mut seen.flow, new))
    }
}
