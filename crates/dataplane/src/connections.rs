//! Answers to questions about connections in the table.
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use admission::Standing;
use conntrack::{ConnId, ConnState, ConnTable, ConnView, IterPlace, OffloadState};
use control::{Filter, Refusal, Top};
use flow::{BackendId, ServiceId};
use offload::{Explained, Place};
use service::{Binding, Service, ServiceTable};
use state::Shared;

use crate::causes::{self, CauseOf};
use crate::offload_thread::{Known, RulesDesk};
use status::{ClientConnections, Connection, ConnectionList, Explanation, OffloadCauses};

/// Records that a search visits in one turn: 1 to 5 ms, since each may be a cache miss.
pub(crate) const SLICE: usize = 1 << 14;
/// Records of which the causes are asked in one turn: the thread that knows them answers
/// within a millisecond.
const CAUSES_SLICE: usize = 1 << 11;
/// Connections that a search by rate looks up in one turn: each is several cache misses.
const RANKED_SLICE: usize = 1 << 12;

/// A search for the connections of a client. It goes over the whole table, slice by
/// slice, so that the control thread does its other work in between.
#[derive(Debug, Default)]
pub(crate) struct Search {
    place: IterPlace,
    found: Vec<(ConnId, ConnView)>,
    /// Those still to be looked at by their rates, the heaviest last.
    ranked: Option<Vec<(ConnId, f64)>>,
    /// How many were asked for and seen, those that are not shown included.
    matches: u64,
    /// How many have each cause.
    causes: BTreeMap<CauseOf, u64>,
}

impl Search {
    /// Looks at the next slice. Why each connection of `client` is, or is not, in
    /// hardware, once all have been looked at.
    pub(crate) fn advance(
        &mut self,
        client: SocketAddr,
        shared: &Shared,
        desk: &RulesDesk,
        now_ms: u64,
    ) -> Option<Result<ClientConnections, Refusal>> {
        let Self { place, found, .. } = self;
        let is_more = shared.table().iter_slice(now_ms, place, SLICE, &mut |conn, view| {
            if view.binding.client == client {
                found.push((conn, view));
            }
        });
        if is_more {
            return None;
        }
        Some(explain_all(found, desk, now_ms))
    }

    /// Looks at the next slice. The connections that `filter` lets through, once all
    /// have been looked at.
    pub(crate) fn list(
        &mut self,
        filter: &Filter,
        shared: &Shared,
        desk: &RulesDesk,
        now_ms: u64,
    ) -> Option<Result<ConnectionList, Refusal>> {
        let snapshot = shared.snapshot();
        let wanted = match Wanted::new(filter, &snapshot.services) {
            Ok(wanted) => wanted,
            Err(refusal) => return Some(Err(refusal)),
        };
        let is_more = match filter.top {
            None => self.look(&wanted, shared.table(), now_ms),
            Some(Top::Rate) => match self.look_by_rate(&wanted, shared.table(), desk, now_ms) {
                Ok(is_more) => is_more,
                Err(refusal) => return Some(Err(refusal)),
            },
        };
        if is_more {
            return None;
        }
        let known = desk.known(self.found.iter().map(|(conn, _)| *conn).collect());
        let known = known.unwrap_or_default().into_iter();
        let known = known.chain(std::iter::repeat(Known::default()));
        let mut connections: Vec<Connection> = Vec::with_capacity(self.found.len());
        for ((_, view), known) in self.found.iter().zip(known) {
            connections.push(connection(view, known, &snapshot.services));
        }
        // Rates have changed a little since they were put in order.
        if filter.top == Some(Top::Rate) {
            let rate = |own: &Connection| own.rate.unwrap_or_default();
            connections.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
        }
        Some(Ok(ConnectionList { connections, found: self.matches }))
    }

    /// Looks at the next slice of the table; whether there is more.
    fn look(&mut self, wanted: &Wanted, table: &ConnTable, now_ms: u64) -> bool {
        let Self { place, found, matches, .. } = self;
        table.iter_slice(now_ms, place, SLICE, &mut |conn, view| {
            wanted.take((conn, view), found, matches);
        })
    }

    /// Looks at the next ones among those whose rates are known; whether there is more.
    fn look_by_rate(
        &mut self,
        wanted: &Wanted,
        table: &ConnTable,
        desk: &RulesDesk,
        now_ms: u64,
    ) -> Result<bool, Refusal> {
        let Self { ranked, found, matches, .. } = self;
        let ranked = match ranked {
            Some(ranked) => ranked,
            None => {
                let rates = desk.rates().ok_or_else(|| busy(desk, now_ms))?;
                let mut rates = rates.ok_or(Refusal::NotMeasured)?;
                // The heaviest is the last.
                rates.sort_unstable_by(|(_, one), (_, other)| one.total_cmp(other));
                ranked.insert(rates)
            }
        };
        let slice = ranked.split_off(ranked.len().saturating_sub(RANKED_SLICE));
        for (conn, _) in slice.into_iter().rev() {
            if let Some(view) = table.view(conn, now_ms) {
                wanted.take((conn, view), found, matches);
            }
        }
        Ok(!ranked.is_empty())
    }
}

/// A filter whose names have been looked up.
struct Wanted {
    client: Option<IpAddr>,
    service: Option<ServiceId>,
    /// `None`: those of all backends.
    backends: Option<BTreeSet<BackendId>>,
    skip: u64,
    limit: usize,
}

impl Wanted {
    fn new(filter: &Filter, table: &ServiceTable) -> Result<Self, Refusal> {
        let by_name = |name: &String| {
            let found = all_services(table).find(|own| own.name() == *name);
            found.map(Service::id).ok_or_else(|| Refusal::NoService(name.clone()))
        };
        let service = filter.service.as_ref().map(by_name).transpose()?;
        let present = || table.backends().iter().chain(table.departed());
        let backends = filter.backend.map(|wanted| {
            present().filter(|own| own.address == wanted).map(|own| own.id).collect()
        });
        let limit = usize::from(filter.limit.min(Filter::MOST));
        Ok(Self { client: filter.client, service, backends, skip: filter.skip, limit })
    }

    /// Counts the connection if it is wanted, and keeps it if it is on the page.
    fn take(
        &self,
        (conn, view): (ConnId, ConnView),
        found: &mut Vec<(ConnId, ConnView)>,
        matches: &mut u64,
    ) {
        let Binding { client, backend, service, .. } = view.binding;
        let is_wanted = self.client.is_none_or(|wanted| client.ip() == wanted)
            && self.backends.as_ref().is_none_or(|wanted| wanted.contains(&backend))
            && self.service.is_none_or(|wanted| service == wanted);
        if is_wanted {
            if *matches >= self.skip && found.len() < self.limit {
                found.push((conn, view));
            }
            *matches += 1;
        }
    }
}

/// The services, and those that have left the configuration and still carry connections.
fn all_services(table: &ServiceTable) -> impl Iterator<Item = &Service> {
    table.services().iter().chain(table.departed_services())
}

fn connection(view: &ConnView, known: Known, table: &ServiceTable) -> Connection {
    let service = all_services(table).find(|own| own.id() == view.binding.service);
    let cause = known.cause.map_or("unknown", |own| CauseOf::new(own, view.state).name());
    Connection {
        protocol: view.binding.proto.to_string(),
        client: view.binding.client.to_string(),
        service: service.map_or("", Service::name).to_owned(),
        vip: view.binding.vip.to_string(),
        server: view.binding.server.to_string(),
        state: format!("{:?}", view.state),
        idle_ms: view.idle_ms,
        in_nic: view.offload == OffloadState::Installed,
        cause: cause.to_owned(),
        rate: known.rate,
    }
}

impl Search {
    /// Looks at the next slice. How many connections have which cause, once all have
    /// been looked at.
    pub(crate) fn count_causes(
        &mut self,
        shared: &Shared,
        desk: &RulesDesk,
        now_ms: u64,
    ) -> Option<Result<OffloadCauses, Refusal>> {
        let Self { place, found, causes, .. } = self;
        found.clear();
        let is_more = shared.table().iter_slice(now_ms, place, CAUSES_SLICE, &mut |conn, view| {
            found.push((conn, view));
        });
        let Some(known) = desk.causes(found.iter().map(|(conn, _)| *conn).collect()) else {
            return Some(Err(busy(desk, now_ms)));
        };
        for ((_, view), cause) in found.iter().zip(known) {
            // A connection that has ended meanwhile has no cause.
            if let Some(cause) = cause {
                *causes.entry(CauseOf::new(cause, view.state)).or_default() += 1;
            }
        }
        (!is_more).then(|| Ok(causes::report(causes)))
    }
}

fn busy(desk: &RulesDesk, now_ms: u64) -> Refusal {
    let busy_ms = desk.busy_ms(now_ms);
    Refusal::Busy(format!(
        "the thread that makes rules has been busy with a driver for {busy_ms} ms"
    ))
}

fn explain_all(
    found: &[(ConnId, ConnView)],
    desk: &RulesDesk,
    now_ms: u64,
) -> Result<ClientConnections, Refusal> {
    let Some(explained) = desk.explain(found.iter().map(|(conn, _)| *conn).collect()) else {
        return Err(busy(desk, now_ms));
    };
    let all = found.iter().zip(&explained).filter_map(|((_, view), explained)| {
        let ConnView { binding, state, idle_ms, .. } = *view;
        let entry = Entry { binding, state, idle_ms };
        explained.as_ref().map(|explained| entry.explain(explained, now_ms))
    });
    Ok(ClientConnections { connections: all.collect() })
}

/// A connection's entry in the table.
pub(crate) struct Entry {
    binding: Binding,
    state: ConnState,
    idle_ms: u64,
}

impl Entry {
    /// The entry of `conn`, if it still has one.
    pub(crate) fn of(table: &ConnTable, conn: ConnId, now_ms: u64) -> Option<Self> {
        let (binding, state) = (table.binding(conn)?, table.state(conn)?);
        Some(Self { binding, state, idle_ms: table.idle_ms(conn, now_ms)? })
    }

    /// Why its packets are matched by the NIC, or are not.
    pub(crate) fn explain(&self, explained: &Explained, now_ms: u64) -> Explanation {
        let Self { binding, state, idle_ms } = self;
        let (why, since_ms, rate) = words(explained);
        Explanation {
            protocol: binding.proto.to_string(),
            client: binding.client.to_string(),
            vip: binding.vip.to_string(),
            server: binding.server.to_string(),
            state: format!("{state:?}"),
            idle_ms: *idle_ms,
            forward: place(explained.forward).to_owned(),
            reply: place(explained.reply).to_owned(),
            why,
            since_seconds: since_ms.map(|since| now_ms.saturating_sub(since) as f64 / 1000.0),
            rate,
            hardware_packets: explained.hardware.packets,
            hardware_bytes: explained.hardware.bytes,
        }
    }
}

const fn place(place: Place) -> &'static str {
    match place {
        Place::Software => "software",
        Place::InLine => "in line",
        Place::Hardware => "hardware",
        Place::Marked => "hardware (mark)",
        Place::Leaving => "leaving",
    }
}

/// Why, since when, and at which rate.
fn words(explained: &Explained) -> (String, Option<u64>, Option<f64>) {
    let (why, since_ms, rate) = match explained.standing {
        Standing::Software { reason, since_ms, rate } => (reason.to_string(), since_ms, rate),
        Standing::InLine { since_ms, rate } => {
            ("chosen, and in line for its rules".to_owned(), Some(since_ms), Some(rate))
        }
        Standing::Hardware { since_ms, rate, rank, threshold } => {
            let why =
                format!("number {rank} in the NIC; a newcomer needs {threshold:.0} packets/s");
            (why, Some(since_ms), Some(rate))
        }
        Standing::Leaving { since_ms, rate } => {
            let why = "its rules are being taken back: it is ending, idle, or another is heavier";
            (why.to_owned(), Some(since_ms), Some(rate))
        }
    };
    let why = match explained.refusal {
        Some(refusal) => format!("{why}; the card took no rule for a direction: {refusal}"),
        None => why,
    };
    let [forward, reply] = explained.not_rewritten;
    let not = |direction: &str, reason| format!("; {direction} not rewritten: {reason}");
    let forward = forward.map_or_else(String::new, |reason| not("requests are", reason));
    let reply = reply.map_or_else(String::new, |reason| not("answers are", reason));
    (why + &forward + &reply, since_ms, rate)
}
