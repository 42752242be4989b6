//! The turn of a direction to get a rule, and the creation of the rule.
use dpdk::flow::FlowPort;
use service::Binding;

use super::Offloader;
use crate::connection::Event;
use crate::encode::{RuleInput, Visibility};
use crate::environment::Environment;
use crate::port::{Attempt, Owner, PortRule};

/// Items of the line looked at in one tick for each rule that may be created:
/// the others cost no call of the card, but are not free.
const LOOKS_PER_CREATION: usize = 16;

/// The turn of a port to create rules.
pub(super) struct Turn<'a> {
    /// Which port.
    at: usize,
    flows: &'a mut dyn FlowPort,
    /// Calls of the card.
    asked: usize,
    /// The card, or its port's marks, have no more room.
    is_full: bool,
}

impl<E: Environment> Offloader<E> {
    /// Creates rules of port `at` for those first in line.
    pub(super) fn create(&mut self, at: usize, flows: &mut dyn FlowPort) {
        let budget = self.config.creations_per_tick;
        // A direction that goes to the end of the line waits for the next tick.
        let in_line = self.ports.get(at).map_or(0, |rules| rules.in_line());
        let mut turn = Turn { at, flows, asked: 0, is_full: false };
        for _ in 0..budget.saturating_mul(LOOKS_PER_CREATION).min(in_line) {
            let Some(rules) = self.ports.get_mut(at) else { return };
            if turn.asked >= budget || turn.is_full {
                return;
            }
            let Some((conn, direction)) = rules.next_in_line(self.now_ms) else { return };
            // Where workers see no packets, they must have seen all of a handshake.
            let ready = !rules.rewrites() || self.environment.is_established(conn);
            let event = Event::Turn { direction, port: rules.id(), ready };
            self.step_at(conn, event, Some(&mut turn));
        }
    }

    /// Makes the rule of `owner`, if it still belongs here. The connection is
    /// held.
    pub(super) fn try_to_create(
        &mut self,
        owner: Owner,
        binding: Binding,
        fallback: bool,
        turn: &mut Turn<'_>,
    ) -> Event<PortRule> {
        let (conn, direction) = owner;
        let Some(here) = self.ports.get(turn.at).map(|rules| rules.id()) else {
            return Event::Gone(direction);
        };
        let Some(path) = self.environment.path(conn, direction) else {
            return Event::Gone(direction);
        };
        if path.arrives != here {
            // The route has changed while it was waiting.
            return Event::PathChanged(direction, self.placement(owner, None));
        }
        let worker = self.worker_of(conn);
        let Self { environment, ports, now_ms, .. } = self;
        let (Some(rules), Some(tables)) = (ports.get_mut(turn.at), environment.tables(here)) else {
            return Event::Gone(direction);
        };
        let Some(input) = RuleInput::gather(environment, owner, worker, binding, &path) else {
            rules.count_not_encodable();
            return Event::Refused { direction, fallback: None };
        };
        // What can't be rewritten and is spliced is software's.
        let other = !input.is_spliced();
        match rules.create(&input, fallback, tables, turn.flows, *now_ms) {
            Attempt::Created(rule, visibility) => {
                turn.asked += 1;
                self.created(&input, visibility);
                Event::Created { direction, rule, visibility }
            }
            Attempt::NoRoom => {
                turn.is_full = true;
                Event::Full(direction)
            }
            Attempt::Failed { asked } => {
                turn.asked += 1;
                let fallback = asked && other && rules.has_fallback();
                Event::Failed { direction, fallback }
            }
            Attempt::Refused { asked, fallback } => {
                turn.asked += usize::from(asked);
                Event::Refused { direction, fallback: fallback.filter(|_| other) }
            }
        }
    }

    fn created(&mut self, input: &RuleInput, visibility: Visibility) {
        let (conn, _) = input.owner();
        if visibility == Visibility::None {
            self.routes.add(input.destination(), conn, input.resolved());
        }
        if let Some(key) = self.admission_key(conn) {
            self.admission.installed(key, self.now_ms);
        }
    }
}
