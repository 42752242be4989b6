//! The policy at work: it takes samples, decides, and explains its decisions.
use admission::{CardRefusal, Cause, Key, Reason, Room, Standing};
use conntrack::ConnId;
use dpdk::flow::Counters;
use flow::{AdmissionPolicy, Direction};

use super::Offloader;
use crate::connection::{Event, Stage};
use crate::encode::NotRewritten;
use crate::environment::Environment;

/// Where one direction of a connection is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In software.
    Software,
    /// In software; in line for a rule.
    InLine,
    /// The card matches its packets.
    Hardware,
    /// The card marks its packets, since it can't rewrite them (`rewrite`).
    Marked,
    /// Its rule is being destroyed, or packets may still carry its tag.
    Leaving,
}

/// Why one connection is, or is not, in hardware.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explained {
    /// What the policy says.
    pub standing: Standing,
    /// Where packets of clients are served.
    pub forward: Place,
    /// Where packets of backends are served.
    pub reply: Place,
    /// What its rules have counted, as far as they count (`rewrite`).
    pub hardware: Counters,
    /// Why the card took no rule for one of them; `None`: it was not asked, or
    /// has taken all.
    pub refusal: Option<admission::CardRefusal>,
    /// Why packets of clients, and those of backends, are not rewritten, though
    /// the encoding is `rewrite`.
    pub not_rewritten: [Option<NotRewritten>; 2],
}

/// Where a connection's packets are served, or why not in the NIC, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OffloadCause {
    /// The NIC matches its packets.
    Hardware,
    /// The NIC matches one direction, and took no rule for the other.
    OneDirection(CardRefusal),
    /// The NIC marks its packets, and can't rewrite them.
    NotRewritten(NotRewritten),
    /// In line for its rules.
    InLine,
    /// Its rules are being taken back.
    Leaving,
    /// In software.
    Software(Cause),
}

impl<E: Environment> Offloader<E> {
    /// Why `conn` is, or is not, in hardware, and since when, in the time that
    /// [`tick`](Self::tick) is given; `None` if there is no such connection.
    #[must_use]
    pub fn explain(&self, conn: ConnId) -> Option<Explained> {
        let mut standing = self.admission.standing(self.key(conn)?, self.now_ms);
        let connection = self.connections.get(&conn);
        if let Standing::Software { reason, .. } = &mut standing {
            if self.ports.iter().all(|rules| rules.is_off()) {
                *reason = Reason::Off;
            } else if !self.environment.is_established(conn) && *reason != Reason::Off {
                *reason = Reason::NotEstablished;
            }
        }
        let [forward, reply] = self.places(conn);
        Some(Explained {
            standing,
            forward,
            reply,
            hardware: connection.map_or_else(Counters::default, |connection| connection.hardware()),
            refusal: connection.and_then(|connection| connection.refusal()),
            not_rewritten: Direction::BOTH
                .map(|direction| connection.and_then(|own| own.not_rewritten(direction))),
        })
    }

    /// Where both directions of `conn` are served.
    fn places(&self, conn: ConnId) -> [Place; 2] {
        let connection = self.connections.get(&conn);
        Direction::BOTH.map(|direction| {
            connection.map_or(Place::Software, |connection| match connection.stage(direction) {
                Stage::Software => Place::Software,
                Stage::Waiting(_) => Place::InLine,
                Stage::Installed(_) if connection.not_rewritten(direction).is_some() => {
                    Place::Marked
                }
                Stage::Installed(_) => Place::Hardware,
                Stage::Destroying | Stage::Settling => Place::Leaving,
            })
        })
    }

    /// [`Self::explain`] in a word, for totals over many connections; `None` if there is
    /// no such connection.
    #[must_use]
    pub fn cause(&self, conn: ConnId) -> Option<OffloadCause> {
        let policy = self.admission.cause(self.key(conn)?, self.now_ms);
        let connection = self.connections.get(&conn);
        let places = self.places(conn);
        let any = |place| places.contains(&place);
        let not_rewritten = connection.and_then(|own| {
            Direction::BOTH.into_iter().find_map(|direction| own.not_rewritten(direction))
        });
        let refusal = connection.and_then(|own| own.refusal());
        Some(if self.ports.iter().all(|rules| rules.is_off()) {
            OffloadCause::Software(Cause::Off)
        } else if any(Place::InLine) {
            OffloadCause::InLine
        } else if any(Place::Leaving) {
            OffloadCause::Leaving
        } else if any(Place::Hardware) || any(Place::Marked) {
            match (refusal, not_rewritten) {
                (Some(why), _) => OffloadCause::OneDirection(why),
                (None, Some(why)) => OffloadCause::NotRewritten(why),
                (None, None) => OffloadCause::Hardware,
            }
        } else if let Some(why) = refusal {
            OffloadCause::Software(Cause::Refused(why))
        } else if !self.environment.is_established(conn) && policy != Some(Cause::Off) {
            OffloadCause::Software(Cause::NotEstablished)
        } else {
            policy.map_or(OffloadCause::InLine, OffloadCause::Software)
        })
    }

    /// The packets per second of every connection whose rate is measured, in no order;
    /// `None`: rates are not measured, since nothing is offloaded by them.
    #[must_use]
    pub fn rates(&self) -> Option<Vec<(ConnId, f64)>> {
        let by_rate = self.config.admission.policy == AdmissionPolicy::Heavy;
        if !by_rate || self.ports.iter().all(|rules| rules.is_off()) {
            return None;
        }
        let conn = |(key, rate): (Key, f64)| {
            let conn = ConnId::from_raw(key.conn);
            (self.key(conn) == Some(key)).then_some((conn, rate))
        };
        Some(self.admission.rates(self.now_ms).filter_map(conn).collect())
    }

    /// The packets per second of `conn`, if they are measured.
    #[must_use]
    pub fn rate(&self, conn: ConnId) -> Option<f64> {
        self.admission.rate(self.key(conn)?, self.now_ms)
    }

    /// The policy's key for `conn`.
    pub(super) fn key(&self, conn: ConnId) -> Option<Key> {
        let generation = self.environment.generation(conn)?;
        Some(Key { conn: conn.raw(), generation })
    }

    pub(super) fn seen(&mut self, conn: ConnId, packets: u32) {
        if let Some(key) = self.key(conn) {
            self.admission.seen(key, packets, self.now_ms);
        }
    }

    /// Puts connections in line that have come to deserve rules, and takes back the
    /// rules of those that don't any more, as if they were idle: the connections stay
    /// as they are.
    pub(super) fn decide(&mut self) {
        if self.config.admission.policy == AdmissionPolicy::Off {
            return;
        }
        let room = self.room();
        let decisions = self.admission.decide(self.now_ms, room);
        for key in decisions.evict {
            let conn = ConnId::from_raw(key.conn);
            if self.admission_key(conn) == Some(key) {
                self.step(conn, Event::Withdrawn);
            } else {
                self.admission.left(key, self.now_ms);
            }
        }
        for key in decisions.admit {
            self.line_up_chosen(key);
        }
    }

    /// `key` was chosen by its rate. A connection that is not established (any more),
    /// or is another one by now, gets nothing.
    fn line_up_chosen(&mut self, key: Key) {
        let conn = ConnId::from_raw(key.conn);
        if self.connections.contains_key(&conn) {
            return self.admission.left(key, self.now_ms);
        }
        let good = self.environment.is_established(conn) && self.environment.claim(conn);
        if !good || self.key(conn) != Some(key) {
            return self.admission.ended(key);
        }
        self.want(conn);
    }

    /// What all ports together allow: a connection needs its rules on each.
    fn room(&mut self) -> Room {
        let held = self.admission.counters().held;
        let mut room = Room { entries: None, budget: self.config.creations_per_tick };
        let mut any = false;
        let now_ms = self.now_ms;
        for rules in self.ports.iter_mut().filter(|rules| !rules.is_off()) {
            any = true;
            room.budget = room.budget.min(rules.free_budget(now_ms));
            if let Some(limit) = rules.connections_at_most(held, now_ms) {
                room.entries = Some(room.entries.map_or(limit, |least| least.min(limit)));
            }
        }
        if !any || self.shut {
            room.budget = 0;
        }
        room
    }
}
