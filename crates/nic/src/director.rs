//! Flow Director's match table as the receive path sees it: input masks, keys,
//! entries.
use dpdk::flow::Counters;

use crate::frame_key::FrameKey;
use crate::key::{FLOW_TYPES, FlowType, Key, KeyV4, KeyV6, TableKey};
use crate::profile::{Filter, Profile, Target};
use crate::table::HashTable;

/// One filter in the hardware.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The rule it belongs to.
    pub(crate) id: u64,
    /// Where its packets go.
    pub(crate) target: Target,
    /// What it reports with them.
    pub(crate) mark: Option<u32>,
    /// What it has seen.
    pub(crate) counters: Counters,
}

/// The masks of one flow type (or, on a card with one mask, of the port).
#[derive(Clone, Copy, Debug, Default)]
struct MaskUse {
    mask: Option<Key>,
    rules: usize,
}

/// The filters that are in the hardware, by masked key.
pub(crate) struct Director {
    one_mask: bool,
    uses: [[MaskUse; FLOW_TYPES]; 2],
    masks_v4: [Option<KeyV4>; FLOW_TYPES],
    masks_v6: [Option<KeyV6>; FLOW_TYPES],
    v4: HashTable<KeyV4>,
    v6: HashTable<KeyV6>,
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Director {
    pub(crate) fn new(card: &Profile, capacity: usize) -> Self {
        Self {
            one_mask: card.one_mask,
            uses: Default::default(),
            masks_v4: Default::default(),
            masks_v6: Default::default(),
            v4: HashTable::new(capacity),
            v6: HashTable::new(if card.profile.matches_ipv6() { capacity } else { 0 }),
            entries: Vec::with_capacity(capacity),
            free: Vec::new(),
        }
    }

    /// One mask a flow type; with one for the port, the first stands for all.
    fn mask_use(&mut self, filter: &Filter) -> &mut MaskUse {
        let [v4, v6] = &mut self.uses;
        let family = if matches!(filter.key, Key::V4(_)) { v4 } else { v6 };
        let kind = if self.one_mask { FlowType::Tcp } else { filter.kind };
        &mut family[kind as usize]
    }

    /// Whether the mask that `filter` needs is set, or no mask is.
    pub(crate) fn agrees_with_mask(&mut self, filter: &Filter) -> bool {
        let held = self.mask_use(filter);
        held.rules == 0 || held.mask == Some(filter.mask)
    }

    /// Whether `filter` would be the first under its mask.
    pub(crate) fn is_first_of_mask(&mut self, filter: &Filter) -> bool {
        self.mask_use(filter).rules == 0
    }

    /// Counts `filter` among the users of its mask; the first one sets it.
    pub(crate) fn hold_mask(&mut self, filter: &Filter) {
        let held = self.mask_use(filter);
        held.rules += 1;
        held.mask = Some(filter.mask);
        let all = self.one_mask;
        let covers = |kind: usize| all || kind == filter.kind as usize;
        match filter.mask {
            Key::V4(mask) => {
                let slots = self.masks_v4.iter_mut().enumerate();
                slots.filter(|(kind, _)| covers(*kind)).for_each(|(_, slot)| *slot = Some(mask));
            }
            Key::V6(mask) => {
                let slots = self.masks_v6.iter_mut().enumerate();
                slots.filter(|(kind, _)| covers(*kind)).for_each(|(_, slot)| *slot = Some(mask));
            }
        }
    }

    /// Counts `filter` out; after the last user the mask may change.
    pub(crate) fn release_mask(&mut self, filter: &Filter) {
        let held = self.mask_use(filter);
        held.rules = held.rules.saturating_sub(1);
    }

    fn get(&self, key: Key) -> Option<u32> {
        match key {
            Key::V4(key) => self.v4.get(key),
            Key::V6(key) => self.v6.get(key),
        }
    }

    fn entry(&self, key: Key, id: u64) -> Option<(u32, &Entry)> {
        let index = self.get(key)?;
        let entry = self.entries.get(index as usize)?;
        (entry.id == id).then_some((index, entry))
    }

    /// Puts the filter of rule `id` into the hardware, in the place of an
    /// older one with the same key. `false` if there is no room.
    pub(crate) fn activate(&mut self, id: u64, filter: &Filter) -> bool {
        let entry =
            Entry { id, target: filter.target, mark: filter.mark, counters: Counters::default() };
        if let Some(place) =
            self.get(filter.key).and_then(|index| self.entries.get_mut(index as usize))
        {
            *place = entry;
            return true;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        });
        if let Some(place) = self.entries.get_mut(index as usize) {
            *place = entry;
        }
        let fits = match filter.key {
            Key::V4(key) => self.v4.insert(key, index),
            Key::V6(key) => self.v6.insert(key, index),
        };
        if !fits {
            self.free.push(index);
        }
        fits
    }

    /// Takes the filter of rule `id` out of the hardware, if it is there.
    pub(crate) fn deactivate(&mut self, id: u64, key: Key) {
        let Some((index, _)) = self.entry(key, id) else { return };
        match key {
            Key::V4(key) => self.v4.remove(key),
            Key::V6(key) => self.v6.remove(key),
        };
        self.free.push(index);
    }

    /// The counts of the filter of rule `id`; zero while it isn't there.
    pub(crate) fn counters(&self, id: u64, key: Key) -> Counters {
        self.entry(key, id).map_or_else(Counters::default, |(_, entry)| entry.counters)
    }

    /// The filter that matches `frame`.
    #[inline]
    pub(crate) fn find(&mut self, frame: &FrameKey) -> Option<&mut Entry> {
        let index = match frame {
            FrameKey::Whole(kind, Key::V4(key)) => {
                self.v4.get(key.masked(self.masks_v4[*kind as usize]?))
            }
            FrameKey::Whole(kind, Key::V6(key)) => {
                self.v6.get(key.masked(self.masks_v6[*kind as usize]?))
            }
            FrameKey::Fragment(_) | FrameKey::NotIp => None,
        }?;
        self.entries.get_mut(index as usize)
    }

    /// Forgets all filters and masks.
    pub(crate) fn clear(&mut self) {
        self.uses = Default::default();
        self.masks_v4 = Default::default();
        self.masks_v6 = Default::default();
        self.v4.clear();
        self.v6.clear();
        self.entries.clear();
        self.free.clear();
    }
}

/// The flow types of a family are its array's indices.
const _: () = assert!(FlowType::Other as usize == FLOW_TYPES - 1);
