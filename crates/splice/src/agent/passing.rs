//! Packets that pass without the machine.
use super::Agent;
use crate::ends::Ends;
use crate::passage::{Passage, Place};
use crate::table::Paths;

/// The agent's connections of one family, for a fast path.
pub trait Passing<const K: usize> {
    /// The connection of a packet from the first of `ends` to the second.
    fn find(&self, ends: &Ends<K>) -> Option<Place>;

    /// What packets of a connection need to pass.
    fn passage(&self, place: Place) -> Option<&Passage<K>>;

    /// As [`Self::passage`], to let a packet pass.
    fn passage_mut(&mut self, place: Place) -> Option<&mut Passage<K>>;
}

trait Of<const K: usize> {
    fn of(&self) -> &Paths<K>;
    fn of_mut(&mut self) -> &mut Paths<K>;
}

impl Of<1> for Agent {
    fn of(&self) -> &Paths<1> {
        &self.table.v4
    }

    fn of_mut(&mut self) -> &mut Paths<1> {
        &mut self.table.v4
    }
}

impl Of<4> for Agent {
    fn of(&self) -> &Paths<4> {
        &self.table.v6
    }

    fn of_mut(&mut self) -> &mut Paths<4> {
        &mut self.table.v6
    }
}

impl<const K: usize> Passing<K> for Agent
where
    Self: Of<K>,
{
    #[inline]
    fn find(&self, ends: &Ends<K>) -> Option<Place> {
        self.of().find(ends)
    }

    #[inline(always)]
    fn passage(&self, place: Place) -> Option<&Passage<K>> {
        self.of().passage(place)
    }

    #[inline(always)]
    fn passage_mut(&mut self, place: Place) -> Option<&mut Passage<K>> {
        self.of_mut().passage_mut(place)
    }
}
