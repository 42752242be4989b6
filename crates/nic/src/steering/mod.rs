//! Steering: groups of prioritised rules with any masks, one hash table for
//! each (group, priority, mask): tuple space search (Srinivasan, Suri and
//! Varghese, SIGCOMM 1999).

mod flow;
mod header_key;

use std::collections::HashMap;

use dpdk::flow::Counters;

pub(crate) use flow::{Domain, Fate, Flow, Place};
pub(crate) use header_key::{HeaderKey, kind, mac_bits};

use crate::edits::Edits;
use crate::encap::Encap;

/// Masks a group holds at most. A card has no such number, but every one costs
/// a look-up.
pub(crate) const MASKS: usize = 64;
/// Jumps a packet makes at most: a card that is sent round in circles drops.
const JUMPS: usize = 32;

/// One rule in the hardware.
#[derive(Debug)]
struct Entry {
    id: u64,
    flow: Flow,
    counters: Counters,
    last_hit_ns: u64,
}

/// The rules of one group with one priority and mask, found by the masked
/// header or, in a table of so many rows, by its hash.
#[derive(Debug)]
struct Tuple {
    priority: u32,
    rows: Option<u32>,
    mask: HeaderKey,
    by_value: HashMap<HeaderKey, usize, fold::Fold>,
    /// Accepted rules, those not yet or no more in the hardware included.
    held: usize,
}

/// Where a packet goes: the fate of the last rule on its way, a JUMP being none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// To a receive queue.
    Queue(u16),
    /// To one of these receive queues, by the hash.
    Rss(&'a [u16]),
    /// No rule of the root matched: to the default queues.
    Default,
    /// A rule dropped it.
    Drop,
    /// No rule of a group behind the root matched, or the jumps went round.
    Unmatched,
    /// Out of this port.
    Port(u16),
}

/// What the tables decide for one packet.
pub(crate) struct Decision<'a> {
    /// Where it goes.
    pub(crate) verdict: Verdict<'a>,
    /// The last mark on its way.
    pub(crate) mark: Option<u32>,
    /// What is changed in it.
    pub(crate) edits: Edits,
    /// What is then put in front of it.
    pub(crate) encap: Option<Encap>,
    /// What it is then.
    pub(crate) key: HeaderKey,
}

/// What has been collected on a packet's way.
#[derive(Default)]
struct Way {
    edits: Edits,
    encap: Option<Encap>,
    mark: Option<u32>,
}

/// The end of a packet's way through one domain.
enum End {
    /// At this rule.
    At(usize),
    /// No rule of the root, or of the first group, matched.
    Missed,
    /// No rule of this group matched, or the jumps went round.
    Lost,
}

/// The rules that are in the hardware.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    /// The tuples of each group, the highest priority first.
    groups: HashMap<(Domain, u32), Vec<Tuple>>,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
}

impl Steering {
    fn tuples(&mut self, place: &Place) -> &mut Vec<Tuple> {
        self.groups.entry((place.domain, place.group)).or_default()
    }

    fn tuple(&self, place: &Place) -> Option<&Tuple> {
        let tuples = self.groups.get(&(place.domain, place.group))?;
        tuples.iter().find(|tuple| tuple.is(place))
    }

    /// Whether the group has room for the rule's mask.
    pub(crate) fn has_room_for_mask(&self, place: &Place) -> bool {
        let Some(tuples) = self.groups.get(&(place.domain, place.group)) else { return true };
        tuples.len() < MASKS || tuples.iter().any(|tuple| tuple.is(place))
    }

    /// Accepted rules of a group.
    pub(crate) fn held(&self, domain: Domain, group: u32) -> usize {
        let tuples = self.groups.get(&(domain, group));
        tuples.map_or(0, |tuples| tuples.iter().map(|tuple| tuple.held).sum())
    }

    /// Counts a rule among those of its priority and mask.
    pub(crate) fn hold(&mut self, place: &Place) {
        let tuples = self.tuples(place);
        if let Some(tuple) = tuples.iter_mut().find(|tuple| tuple.is(place)) {
            tuple.held += 1;
            return;
        }
        let at = tuples.partition_point(|tuple| tuple.priority <= place.priority);
        let by_value = HashMap::default();
        let Place { priority, rows, mask, .. } = *place;
        tuples.insert(at, Tuple { priority, rows, mask, by_value, held: 1 });
    }

    /// Counts a rule out.
    pub(crate) fn release(&mut self, place: &Place) {
        let tuples = self.tuples(place);
        if let Some(tuple) = tuples.iter_mut().find(|tuple| tuple.is(place)) {
            tuple.held = tuple.held.saturating_sub(1);
        }
        self.tidy(place);
    }

    fn tidy(&mut self, place: &Place) {
        let tuples = self.tuples(place);
        tuples.retain(|tuple| tuple.held > 0 || !tuple.by_value.is_empty());
        if tuples.is_empty() {
            self.groups.remove(&(place.domain, place.group));
        }
    }

    /// Puts rule `id` into the hardware, in the place of an older one that
    /// lingers there.
    pub(crate) fn activate(&mut self, id: u64, flow: &Flow, now_ns: u64) {
        let entry = Some(Entry {
            id,
            flow: flow.clone(),
            counters: Counters::default(),
            last_hit_ns: now_ns,
        });
        let place = flow.place;
        let old = self.tuple(&place).and_then(|tuple| tuple.by_value.get(&place.value)).copied();
        let index = old.or_else(|| self.free.pop()).unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        if let Some(slot) = self.entries.get_mut(index) {
            *slot = entry;
        }
        let tuples = self.tuples(&place);
        if let Some(tuple) = tuples.iter_mut().find(|tuple| tuple.is(&place)) {
            tuple.by_value.insert(place.value, index);
        }
    }

    fn entry(&self, id: u64, place: &Place) -> Option<(usize, &Entry)> {
        let index = *self.tuple(place)?.by_value.get(&place.value)?;
        let entry = self.entries.get(index)?.as_ref()?;
        (entry.id == id).then_some((index, entry))
    }

    /// Takes rule `id` out of the hardware, if it is there.
    pub(crate) fn deactivate(&mut self, id: u64, place: &Place) {
        if let Some((index, _)) = self.entry(id, place) {
            if let Some(slot) = self.entries.get_mut(index) {
                *slot = None;
            }
            self.free.push(index);
            for tuple in self.tuples(place).iter_mut().filter(|tuple| tuple.is(place)) {
                tuple.by_value.remove(&place.value);
            }
        }
        self.tidy(place);
    }

    /// What rule `id` has seen; nothing while it isn't there.
    pub(crate) fn counters(&self, id: u64, place: &Place) -> Counters {
        self.entry(id, place).map_or_else(Counters::default, |(_, entry)| entry.counters)
    }

    /// When a packet last matched rule `id`, or when it came; `None` if it
    /// isn't there.
    pub(crate) fn last_hit_ns(&self, id: u64, place: &Place) -> Option<u64> {
        self.entry(id, place).map(|(_, entry)| entry.last_hit_ns)
    }

    /// What happens to `frame`, which is counted where it matches.
    pub(crate) fn decide(&mut self, frame: &[u8], now_ns: u64) -> Decision<'_> {
        let mut way = Way::default();
        let mut key = HeaderKey::default();
        let verdict = if self.entries.is_empty() {
            Verdict::Default
        } else {
            key = HeaderKey::of(frame);
            let mut end = self.walk(Domain::Switch, &mut key, frame.len(), now_ns, &mut way);
            // What no transfer rule sends elsewhere reaches the port.
            if matches!(end, End::Missed | End::Lost) {
                end = self.walk(Domain::Receive, &mut key, frame.len(), now_ns, &mut way);
            }
            match end {
                End::Missed => Verdict::Default,
                End::Lost => Verdict::Unmatched,
                End::At(index) => match self.fate(index) {
                    Some(Fate::Queue(queue)) => Verdict::Queue(*queue),
                    Some(Fate::Rss(queues)) => Verdict::Rss(queues),
                    Some(Fate::Port(port)) => Verdict::Port(*port),
                    Some(Fate::Drop) => Verdict::Drop,
                    Some(Fate::Jump(_)) | None => Verdict::Unmatched,
                },
            }
        };
        let Way { edits, encap, mark } = way;
        Decision { verdict, mark, edits, encap, key }
    }

    fn fate(&self, index: usize) -> Option<&Fate> {
        Some(&self.entries.get(index)?.as_ref()?.flow.fate)
    }

    /// From the first group of `domain` along the jumps.
    fn walk(
        &mut self,
        domain: Domain,
        key: &mut HeaderKey,
        len: usize,
        now_ns: u64,
        way: &mut Way,
    ) -> End {
        let mut group = 0;
        for jumps in 0..JUMPS {
            let Some(index) = self.find(domain, group, key) else {
                return if jumps == 0 { End::Missed } else { End::Lost };
            };
            let Some(Some(entry)) = self.entries.get_mut(index) else { return End::Lost };
            entry.counters.packets += 1;
            entry.counters.bytes += len as u64;
            entry.last_hit_ns = now_ns;
            way.mark = entry.flow.mark.or(way.mark);
            if !entry.flow.edits.is_empty() {
                key.edit(&entry.flow.edits);
                way.edits.append(&entry.flow.edits);
            }
            // Rules with headers to put in front jump nowhere.
            way.encap.clone_from(&entry.flow.encap);
            match entry.flow.fate {
                Fate::Jump(next) => group = next,
                _ => return End::At(index),
            }
        }
        End::Lost
    }

    fn find(&self, domain: Domain, group: u32, key: &HeaderKey) -> Option<usize> {
        let tuples = self.groups.get(&(domain, group))?;
        tuples.iter().find_map(|tuple| tuple.by_value.get(&tuple.key_of(key))).copied()
    }

    /// Forgets all rules.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
        self.entries.clear();
        self.free.clear();
    }
}

impl Tuple {
    fn is(&self, place: &Place) -> bool {
        self.priority == place.priority && self.rows == place.rows && self.mask == place.mask
    }

    fn key_of(&self, key: &HeaderKey) -> HeaderKey {
        match self.rows {
            None => key.masked(&self.mask),
            Some(rows) => HeaderKey::of_index(key.crc32(&self.mask) & rows.saturating_sub(1)),
        }
    }
}

/// A fast hash of words; no attacker chooses its keys.
mod fold {
    use std::hash::{BuildHasher, Hasher};

    /// Makes hashers.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct Fold;

    /// Multiplies and folds each word.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Folded(u64);

    impl BuildHasher for Fold {
        type Hasher = Folded;

        fn build_hasher(&self) -> Folded {
            Folded(0x9e37_79b9_7f4a_7c15)
        }
    }

    impl Hasher for Folded {
        fn write(&mut self, bytes: &[u8]) {
            for chunk in bytes.chunks(8) {
                let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
                self.write_u64(word);
            }
        }

        fn write_u64(&mut self, word: u64) {
            let product = u128::from(self.0 ^ word) * 0xd6e8_feb8_6659_fd93;
            self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
        }

        fn write_u128(&mut self, word: u128) {
            self.write_u64(word as u64);
            self.write_u64((word >> 64) as u64);
        }

        fn finish(&self) -> u64 {
            self.0
        }
    }
}
