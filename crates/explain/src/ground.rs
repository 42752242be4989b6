//! What is known of a packet's connection before the packet is served, and the story
//! that follows from it afterwards.
use conntrack::{ConnId, ConnState, OffloadState};
use flow::Direction;
use service::Binding;
use state::{Metric, Shared};
use status::{CounterStory, DepartureStory, FieldChange, PacketStory, TableEntry};
use wire::quoted::Quoted;
use wire::{FlowKey, Headers};

use crate::reason::{Reason, reason};
use crate::trace::Trace;

/// A packet, and what is known of its connection before it is served.
#[derive(Clone, Debug)]
pub struct Ground {
    pub(crate) frame: Vec<u8>,
    pub(crate) flow: Option<FlowKey>,
    /// The 5-tuple of its connection's packets in the same direction: the packet's own,
    /// or that of the answers to the packet that an ICMP error quotes.
    pub(crate) about: Option<FlowKey>,
    pub(crate) known: Option<Known>,
}

/// A connection in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) conn: ConnId,
    pub(crate) direction: Direction,
    pub(crate) binding: Binding,
    pub(crate) state: ConnState,
    pub(crate) offload: OffloadState,
    pub(crate) idle_ms: u64,
}

impl Known {
    /// The connection with `flow`.
    pub(crate) fn of(shared: &Shared, flow: &FlowKey, now_ms: u64) -> Option<Self> {
        let table = shared.table();
        let hit = table.lookup(flow)?;
        let binding = table.binding(hit.conn)?;
        // The record may have got another connection meanwhile.
        (binding.key(hit.direction) == Some(*flow)).then_some(())?;
        Some(Self {
            conn: hit.conn,
            direction: hit.direction,
            binding,
            state: table.state(hit.conn)?,
            offload: table.offloaded(hit.conn)?,
            idle_ms: table.idle_ms(hit.conn, now_ms)?,
        })
    }
}

impl Ground {
    /// What `shared` knows of the connection of `frame`.
    #[must_use]
    pub fn of(shared: &Shared, frame: &[u8], now_ms: u64) -> Self {
        let headers = Headers::parse(frame).ok();
        let flow = headers.as_ref().and_then(|headers| headers.flow(frame));
        let quoted = || Quoted::parse(frame, headers.as_ref()?);
        let about = flow.or_else(|| quoted().map(|quoted| quoted.flow.reversed()));
        let known = about.and_then(|about| Known::of(shared, &about, now_ms));
        Self { frame: frame.to_vec(), flow, about, known }
    }

    /// The connection that the packet belongs to, if the table has it.
    #[must_use]
    pub fn connection(&self) -> Option<ConnId> {
        self.known.map(|known| known.conn)
    }

    /// The story of the packet, which `shared` has served since: `trace` says what
    /// became of it, and `raised` which counters it raised. `names` are those of the
    /// ports.
    #[must_use]
    pub fn story(
        &self,
        shared: &Shared,
        (trace, raised): (&Trace, &[Metric]),
        names: &[&str],
        now_ms: u64,
    ) -> PacketStory {
        let opened = match (&self.known, &self.flow) {
            (None, Some(flow)) => Known::of(shared, flow, now_ms),
            _ => None,
        };
        let Reason { why, service, backend } = reason(self, opened.as_ref(), shared, raised);
        let name = |port: u16| (*names.get(usize::from(port)).unwrap_or(&"?")).to_owned();
        let flow = self.flow;
        PacketStory {
            number: trace.frame,
            port: name(trace.port),
            protocol: flow.map(|flow| flow.proto().to_string()),
            source: flow.map(|flow| flow.src().to_string()),
            destination: flow.map(|flow| flow.dst().to_string()),
            verdict: trace.verdict.to_string(),
            why,
            service,
            backend,
            entry: self.known.or(opened).map(|known| entry(&known, self.known.is_none())),
            rules: None,
            counters: counters(raised),
            frame: hex::encode(&self.frame),
            sent: trace
                .sent
                .iter()
                .map(|sent| DepartureStory {
                    port: name(sent.port),
                    changes: sent
                        .changes
                        .iter()
                        .map(|change| FieldChange {
                            field: change.field.to_owned(),
                            from: change.from.clone(),
                            to: change.to.clone(),
                        })
                        .collect(),
                    frame: hex::encode(&sent.frame),
                })
                .collect(),
        }
    }
}

fn entry(known: &Known, new: bool) -> TableEntry {
    let Binding { client, vip, server, local, .. } = known.binding;
    TableEntry {
        new,
        state: format!("{:?}", known.state),
        idle_ms: known.idle_ms,
        from: match known.direction {
            Direction::Forward => "client",
            Direction::Reply => "backend",
        }
        .to_owned(),
        client: client.to_string(),
        vip: vip.to_string(),
        server: server.to_string(),
        local: local.to_string(),
        in_nic: format!("{:?}", known.offload).to_lowercase(),
    }
}

fn counters(raised: &[Metric]) -> Vec<CounterStory> {
    let story = |metric: &Metric| CounterStory {
        name: metric.name.to_owned(),
        help: metric.help.to_owned(),
    };
    raised.iter().map(story).collect()
}
