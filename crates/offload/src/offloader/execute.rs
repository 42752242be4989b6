//! Carries out the commands of connections' state machines.
use admission::Key;
use conntrack::ConnId;
use flow::{Direction, PortId};

use super::Offloader;
use super::create::Turn;
use crate::connection::{Command, Event, Fact, Parting};
use crate::environment::Environment;
use crate::port::PortRule;

/// See [`Connection::footprint`](crate::connection::Connection::footprint).
type Footprint = [Option<(PortId, bool)>; 2];

impl<E: Environment> Offloader<E> {
    /// Tells `conn` of `event` and carries out the commands that follow.
    pub(super) fn step(&mut self, conn: ConnId, event: Event<PortRule>) {
        self.step_at(conn, event, None);
    }

    /// As [`step`](Self::step); a connection that has no rules and waits for none may
    /// be removed.
    pub(super) fn step_or_let_go(&mut self, conn: ConnId, event: Event<PortRule>) {
        if self.connections.contains_key(&conn) {
            self.step(conn, event);
        } else {
            self.environment.let_go(conn, true);
        }
    }

    /// As [`step`](Self::step), while it is the `turn` of a port to create
    /// rules.
    pub(super) fn step_at(
        &mut self,
        conn: ConnId,
        event: Event<PortRule>,
        mut turn: Option<&mut Turn<'_>>,
    ) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let Some(connection) = self.connections.get_mut(&conn) else { return };
            let mut commands = std::mem::take(&mut self.commands);
            let before = connection.footprint();
            connection.step(event, &mut commands);
            let after = connection.footprint();
            self.count_footprint(conn, before, after);
            for command in commands.drain(..) {
                // Only the last command of a step has an answer.
                next = self.execute(conn, command, turn.as_deref_mut());
            }
            self.commands = commands;
        }
    }

    /// Keeps the ports' counts of rules and waiting directions.
    fn count_footprint(&mut self, conn: ConnId, before: Footprint, after: Footprint) {
        let spliced = conn.lent_number().is_some();
        for ((direction, old), new) in Direction::BOTH.into_iter().zip(before).zip(after) {
            if old == new {
                continue;
            }
            for (place, delta) in [(old, -1), (new, 1)] {
                let Some((port, installed)) = place else { continue };
                if let Some(rules) = self.port_mut(port) {
                    rules.count_direction(direction, installed, delta);
                    rules.count_spliced(if spliced && installed { delta } else { 0 });
                }
            }
        }
    }

    /// Carries out `command` for `conn`; the answer, if it has one.
    fn execute(
        &mut self,
        conn: ConnId,
        command: Command<PortRule>,
        turn: Option<&mut Turn<'_>>,
    ) -> Option<Event<PortRule>> {
        match command {
            Command::Hold(direction) => {
                // The order matters: values read from then on stay true.
                let held = self.environment.hold(conn);
                let binding = if held { self.environment.binding(conn) } else { None };
                return Some(Event::Held(direction, binding));
            }
            Command::Create { direction, binding, fallback } => {
                return Some(match turn {
                    Some(turn) => self.try_to_create((conn, direction), binding, fallback, turn),
                    None => Event::Full(direction),
                });
            }
            Command::LineUp { direction, port, end } => {
                if let Some(rules) = self.port_mut(port) {
                    rules.line_up((conn, direction), end);
                }
            }
            Command::Destroy(direction, installed) => {
                let port = installed.port();
                if installed.is_unseen() {
                    self.routes.remove(installed.rule().destination(), conn);
                }
                if let Some(rules) = self.port_mut(port) {
                    rules.doom((conn, direction), installed.into_rule());
                }
            }
            Command::Withdrawing => {
                if let Some(key) = self.admission_key(conn) {
                    self.admission.leaving(key, self.now_ms);
                }
                self.environment.withdrawing(conn);
            }
            Command::Linger { due_ms } => self.lingering.push_back((due_ms, conn)),
            Command::Examine => {
                self.suspects.insert(conn);
            }
            Command::Rearm => self.environment.rearm(conn, self.now_ms),
            Command::LetGo { ask_again } => self.environment.let_go(conn, ask_again),
            Command::Forget(parting) => self.forget(conn, parting),
            Command::Measured { packets } => {
                if let Some(key) = self.admission_key(conn) {
                    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
                    self.admission.seen(key, packets, self.now_ms);
                }
            }
            Command::Unmatched => {
                if let Some(key) = self.admission_key(conn) {
                    self.unmatched.note(conn, key.generation);
                }
            }
            Command::Count(fact) => self.note(fact),
        }
        None
    }

    /// The admission's key for `conn` when it asked for rules.
    pub(super) fn admission_key(&self, conn: ConnId) -> Option<Key> {
        self.connections.get(&conn)?.key()
    }

    fn forget(&mut self, conn: ConnId, parting: Parting) {
        let key = self.connections.remove(&conn).and_then(|connection| connection.key());
        let Some(key) = key else { return };
        match parting {
            Parting::Idle => self.admission.forget(key),
            Parting::Refused(why) => self.admission.refused(key, why, self.now_ms),
            Parting::Left => self.admission.left(key, self.now_ms),
        }
    }

    fn note(&mut self, fact: Fact) {
        let port = match fact {
            Fact::Withdrawn => return self.withdrawn += 1,
            Fact::Orphaned => return self.orphaned += 1,
            Fact::Late(port) | Fact::Aged(port) | Fact::Astray(port) | Fact::Rerouted(port) => port,
        };
        if let Some(rules) = self.port_mut(port) {
            rules.count(fact);
        }
    }
}
