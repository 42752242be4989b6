//! Insertion into a table in which packets of one direction are looked up.
use service::Direction;

use crate::bucket::Reference;
use crate::family::{ATTEMPTS, FamilyTable, Refusal};
use crate::index::{Place, Probe};
use crate::key::{Family, Key};
use crate::path::Room;
use crate::record::Content;

impl<const K: usize> FamilyTable<K>
where
    Key<K>: Family,
{
    /// Inserts the forward key of a connection; its record's number.
    pub(crate) fn insert_one_way(&self, content: &Content<K>, seen: u32) -> Result<u32, Refusal> {
        let [key, _] = &content.keys;
        let probe = self.probe(key);
        for _ in 0..ATTEMPTS {
            let held = self.index().lock(&[probe, probe]);
            let found = self.index().find_locked(&probe, |reference| self.is(reference, key));
            if let Some(found) = found {
                return Err(Refusal::Exists(found));
            }
            if let Some(place) = self.either_vacancy(&probe) {
                let put = self.put_one_way(content, &probe, place, seen);
                return put.ok_or_else(|| self.refuse());
            }
            drop(held);
            if self.index().make_room(&probe, None) == Room::None {
                break;
            }
        }
        Err(self.refuse())
    }

    fn either_vacancy(&self, probe: &Probe) -> Option<Place> {
        let first = self.index().vacancy(probe.first(), None);
        first.or_else(|| self.index().vacancy(probe.second(), None))
    }

    /// Writes a record and its entry; `None` if no record is free.
    fn put_one_way(
        &self,
        content: &Content<K>,
        probe: &Probe,
        place: Place,
        seen: u32,
    ) -> Option<u32> {
        let number = self.write_record(content, seen)?;
        self.index().put(place, probe.sought, Reference::new(number, Direction::Forward));
        Some(number)
    }
}
