//! The network function: every frame to libndpi, every frame back.
use std::collections::BTreeMap;
use std::time::Instant;

use middlebox::Inspect;
use wire::{Fragment, Headers, TcpFlags, numbers::protocol};

use crate::flows::{Flows, Key};
use crate::library::Module;

/// One instance.
#[derive(Debug)]
pub struct Inspector {
    module: Module,
    flows: Flows,
    started: Instant,
    protocols: BTreeMap<u16, u64>,
    /// TCP flows whose beginning another instance has seen.
    mid_stream: u64,
    /// Packets of flows that there was no room for.
    untracked: u64,
}

impl Inspector {
    /// An instance that knows all protocols; `None`: libndpi has no memory.
    #[must_use]
    pub fn new() -> Option<Self> {
        Some(Self {
            module: Module::new()?,
            flows: Flows::default(),
            started: Instant::now(),
            protocols: BTreeMap::new(),
            mid_stream: 0,
            untracked: 0,
        })
    }

    fn look(&mut self, frame: &[u8]) -> Option<()> {
        let headers = Headers::parse(frame).ok()?;
        if headers.fragment != Fragment::Whole {
            return None;
        }
        let key = Key::of(&headers, frame)?;
        let now_ms = self.started.elapsed().as_millis() as u64;
        let Some((flow, new)) = self.flows.find(key, now_ms) else {
            self.untracked += 1;
            return None;
        };
        if new && headers.proto == protocol::TCP && !headers.tcp_flags.any(TcpFlags::SYN) {
            self.mid_stream += 1;
        }
        let packet = frame.get(usize::from(headers.l3)..usize::from(headers.end))?;
        let decided = self.module.look(flow, packet, now_ms)?;
        *self.protocols.entry(decided).or_insert(0) += 1;
        Some(())
    }
}

impl Inspect for Inspector {
    fn inspect(&mut self, frame: &mut [u8]) -> bool {
        self.look(frame);
        true
    }

    fn summary(&self) -> Option<String> {
        let named = self
            .protocols
            .iter()
            .map(|(protocol, flows)| format!("{} {flows}", self.module.name(*protocol)));
        let named: Vec<String> = named.collect();
        Some(format!(
            "flows by protocol: {}; begun elsewhere {}; packets without room {}",
            named.join(", "),
            self.mid_stream,
            self.untracked
        ))
    }
}
