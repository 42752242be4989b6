//! The card's match tables, of either kind.
use dpdk::flow::Counters;

use crate::director::Director;
use crate::profile::{Parsed, Profile, ROOT_RULES};
use crate::steering::{Domain, Steering};

/// What matches packets.
pub(crate) enum Tables {
    /// Flow Director.
    Director(Box<Director>),
    /// Steering tables.
    Steering(Steering),
}

impl Tables {
    pub(crate) fn new(card: &Profile, capacity: usize) -> Self {
        if card.profile.rewrites() {
            Self::Steering(Steering::default())
        } else {
            Self::Director(Box::new(Director::new(card, capacity)))
        }
    }

    /// Whether the mask that `rule` needs is set, or can be.
    pub(crate) fn agrees_with_mask(&mut self, rule: &Parsed) -> bool {
        match (self, rule) {
            (Self::Director(tables), Parsed::Director(filter)) => tables.agrees_with_mask(filter),
            (Self::Steering(tables), Parsed::Steering(flow)) => {
                tables.has_room_for_mask(&flow.place)
            }
            _ => false,
        }
    }

    /// Whether `rule` sets a new mask, so that all lingering filters go.
    pub(crate) fn is_first_of_mask(&mut self, rule: &Parsed) -> bool {
        match (self, rule) {
            (Self::Director(tables), Parsed::Director(filter)) => tables.is_first_of_mask(filter),
            _ => false,
        }
    }

    /// Whether the root group has no room for `rule`.
    pub(crate) fn root_is_full(&self, rule: &Parsed) -> bool {
        match self {
            Self::Steering(tables) => {
                rule.in_root() && tables.held(Domain::Receive, 0) >= ROOT_RULES
            }
            Self::Director(_) => false,
        }
    }

    /// Counts `rule` among the users of its mask.
    pub(crate) fn hold_mask(&mut self, rule: &Parsed) {
        match (self, rule) {
            (Self::Director(tables), Parsed::Director(filter)) => tables.hold_mask(filter),
            (Self::Steering(tables), Parsed::Steering(flow)) => tables.hold(&flow.place),
            _ => {}
        }
    }

    /// Counts `rule` out.
    pub(crate) fn release_mask(&mut self, rule: &Parsed) {
        match (self, rule) {
            (Self::Director(tables), Parsed::Director(filter)) => tables.release_mask(filter),
            (Self::Steering(tables), Parsed::Steering(flow)) => tables.release(&flow.place),
            _ => {}
        }
    }

    /// Puts rule `id` into the hardware, in the place of an older one with the
    /// same identity.
    pub(crate) fn activate(&mut self, id: u64, rule: &Parsed, now_ns: u64) {
        match (self, rule) {
            (Self::Director(tables), Parsed::Director(filter)) => {
                tables.activate(id, filter);
            }
            (Self::Steering(tables), Parsed::Steering(flow)) => tables.activate(id, flow, now_ns),
            _ => {}
        }
    }

    /// Takes rule `id` out of the hardware, if it is there.
    pub(crate) fn deactivate(&mut self, id: u64, rule: &Parsed) {
        match (self, rule) {
            (Self::Director(tables), Parsed::Director(filter)) => {
                tables.deactivate(id, filter.key);
            }
            (Self::Steering(tables), Parsed::Steering(flow)) => tables.deactivate(id, &flow.place),
            _ => {}
        }
    }

    /// What rule `id` has seen.
    pub(crate) fn counters(&self, id: u64, rule: &Parsed) -> Counters {
        match (self, rule) {
            (Self::Director(tables), Parsed::Director(filter)) => tables.counters(id, filter.key),
            (Self::Steering(tables), Parsed::Steering(flow)) => tables.counters(id, &flow.place),
            _ => Counters::default(),
        }
    }

    /// When a packet last matched rule `id`, if it is in the hardware.
    pub(crate) fn last_hit_ns(&self, id: u64, rule: &Parsed) -> Option<u64> {
        match (self, rule) {
            (Self::Steering(tables), Parsed::Steering(flow)) => tables.last_hit_ns(id, &flow.place),
            _ => None,
        }
    }

    /// Forgets all rules and masks.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Director(tables) => tables.clear(),
            Self::Steering(tables) => tables.clear(),
        }
    }
}
