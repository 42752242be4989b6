//! The part of the match table that serves services without connections; the layout is
//! that of `bpf/stateless.h`.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use mapped::Mapped;

use crate::classes::{CLASSES, Classes, Masked};
use crate::entry::{Key, halves};
use crate::{Action, Count, Full, Table};

/// Groups that there are.
pub(crate) const GROUPS: u32 = 32;
/// Rules of all groups together.
pub(crate) const COUNTERS: u32 = 4096;
/// Lines that count for one rule.
pub(crate) const SHARDS: u32 = 8;
/// Words of a line.
pub(crate) const LINE: usize = 8;
/// Sources of more than one address that a group leaves to software.
const PREFIXES: usize = 8;
/// Words of a group.
pub(crate) const GROUP: usize = 4 * PREFIXES;
/// The numbers by which rules name groups.
pub(crate) const NUMBERS: RangeInclusive<u32> = 4..=GROUPS + 3;

/// That a class has an action, and that one of its sources has a guard.
const SERVED: u64 = 1 << 63;
const GUARDED: u64 = 1 << 62;

/// Sources that no client has: those that are `value` where `mask` has ones, in the order
/// of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) value: [u64; 2],
    pub(crate) mask: [u64; 2],
}

impl Sources {
    /// No source at all.
    const NONE: Self = Self { value: [1, 0], mask: [0, 0] };
}

/// A rule, as [`Stateless`] gives it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Leads packets to a group.
    Gate(Key),
    /// Leaves a source to software.
    Guard(u32, IpAddr),
    /// Leaves sources to software: the group and the place there.
    Sources(u32, usize),
    /// Sends clients on: the group and its counter.
    Masked(u32, u32),
}

/// The maps beside the table.
#[derive(Debug)]
pub(crate) struct Maps {
    pub(crate) gates: Mapped,
    pub(crate) groups: Mapped,
    pub(crate) cells: Mapped,
    pub(crate) counts: Mapped,
}

/// The rules of services without connections. It is the only writer of their maps.
#[derive(Debug)]
pub(crate) struct Stateless {
    maps: Maps,
    groups: BTreeMap<u32, Group>,
    free: Vec<u32>,
    /// What each counter had counted when its rule was made.
    before: BTreeMap<u32, Count>,
}

#[derive(Debug, Default)]
struct Group {
    classes: Classes,
    guards: BTreeSet<IpAddr>,
    sources: [Option<Sources>; PREFIXES],
}

impl Stateless {
    /// No rules, in maps that are all zero.
    pub(crate) fn new(maps: Maps) -> Self {
        for group in 0..GROUPS {
            (0..PREFIXES).for_each(|place| write_sources(&maps, group, place, &Sources::NONE));
        }
        let free = (0..COUNTERS).rev().collect();
        Self { maps, groups: BTreeMap::new(), free, before: BTreeMap::new() }
    }

    /// Leads packets with the key, which is a gate's, to the group.
    pub(crate) fn add_gate(
        &mut self,
        table: &mut Table,
        key: Key,
        group: u32,
    ) -> Result<Place, Full> {
        table.mark(&key, group)?;
        self.gates(&key).fetch_add(1, Ordering::Release);
        Ok(Place::Gate(key))
    }

    /// How many gates there are of the key's kind.
    fn gates(&self, key: &Key) -> &AtomicU64 {
        let [exact, any, ..] = self.maps.gates.words() else { return &NOWHERE };
        if key.has_port() { exact } else { any }
    }

    /// Leaves packets of the group from this source to software.
    pub(crate) fn add_guard(
        &mut self,
        table: &mut Table,
        group: u32,
        source: IpAddr,
    ) -> Result<Place, Full> {
        table.mark(&Key::guard(group, source), group)?;
        let own = self.groups.entry(group).or_default();
        own.guards.insert(source);
        write_cells(&self.maps, group, own, [class_of(source)]);
        Ok(Place::Guard(group, source))
    }

    /// Leaves packets of the group from these sources to software.
    pub(crate) fn add_sources(&mut self, group: u32, sources: Sources) -> Result<Place, Full> {
        let own = self.groups.entry(group).or_default();
        let place = own.sources.iter().position(Option::is_none).ok_or(Full)?;
        if let Some(slot) = own.sources.get_mut(place) {
            *slot = Some(sources);
        }
        write_sources(&self.maps, group, place, &sources);
        Ok(Place::Sources(group, place))
    }

    /// Does `action` to packets of the group from clients with these lowest bits.
    pub(crate) fn add_masked(
        &mut self,
        table: &mut Table,
        group: u32,
        (value, bits, priority): (u32, u32, u32),
        action: &Action,
    ) -> Result<Place, Full> {
        let counter = self.free.pop().ok_or(Full)?;
        let action = table.take_action(action).inspect_err(|_| self.free.push(counter))?;
        self.before.insert(counter, self.counted(counter));
        let rule = Masked { value, bits, priority, action, counter };
        let own = self.groups.entry(group).or_default();
        own.classes.add(counter, rule);
        write_cells(&self.maps, group, own, rule.classes());
        Ok(Place::Masked(group, counter))
    }

    /// Takes a rule away.
    pub(crate) fn remove(&mut self, table: &mut Table, place: Place) {
        match place {
            Place::Gate(key) => {
                if table.unmark(&key) {
                    self.gates(&key).fetch_sub(1, Ordering::Release);
                }
            }
            Place::Guard(group, source) => {
                let Some(own) = self.groups.get_mut(&group) else { return };
                own.guards.remove(&source);
                write_cells(&self.maps, group, own, [class_of(source)]);
                table.unmark(&Key::guard(group, source));
            }
            Place::Sources(group, place) => {
                let slot = self.groups.get_mut(&group).and_then(|own| own.sources.get_mut(place));
                if slot.and_then(Option::take).is_some() {
                    write_sources(&self.maps, group, place, &Sources::NONE);
                }
            }
            Place::Masked(group, counter) => {
                let Some(own) = self.groups.get_mut(&group) else { return };
                let Some(rule) = own.classes.remove(counter) else { return };
                write_cells(&self.maps, group, own, rule.classes());
                table.release_action(rule.action);
                self.free.push(counter);
            }
        }
    }

    /// What a rule has counted; `None`: it doesn't count.
    pub(crate) fn count(&self, place: Place) -> Option<Count> {
        let Place::Masked(_, counter) = place else { return None };
        let (now, before) = (self.counted(counter), *self.before.get(&counter)?);
        Some(Count { packets: now.packets - before.packets, bytes: now.bytes - before.bytes })
    }

    fn counted(&self, counter: u32) -> Count {
        let lines = self.maps.counts.words().chunks_exact(LINE);
        let own = lines.skip((counter * SHARDS) as usize).take(SHARDS as usize);
        own.fold(Count::default(), |sum, line| {
            let read = |at: usize| line.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
            sum.plus(Count { packets: read(0), bytes: read(1) })
        })
    }
}

/// A gate that no map has.
static NOWHERE: AtomicU64 = AtomicU64::new(0);

/// The class of a client.
fn class_of(source: IpAddr) -> u32 {
    let low = match source {
        IpAddr::V4(source) => source.to_bits(),
        IpAddr::V6(source) => source.to_bits() as u32,
    };
    low % CLASSES
}

/// The source as the first words of a key.
pub(crate) fn words(source: IpAddr) -> [u64; 2] {
    match source {
        IpAddr::V4(source) => [u32::from_le_bytes(source.octets()).into(), 0],
        IpAddr::V6(source) => halves(source.octets()).into(),
    }
}

/// Writes what the program does for these classes of a group.
fn write_cells(maps: &Maps, group: u32, own: &Group, classes: impl IntoIterator<Item = u32>) {
    let guarded: BTreeSet<u32> = own.guards.iter().map(|source| class_of(*source)).collect();
    for class in classes {
        let Some(cell) = maps.cells.words().get((group * CLASSES + class) as usize) else {
            continue;
        };
        // Another number than before, by which the program notices a change.
        let number = (cell.load(Ordering::Relaxed) + (1 << 40)) & ((1 << 62) - (1 << 40));
        let served = own
            .classes
            .chosen(class)
            .map_or(0, |rule| SERVED | u64::from(rule.counter) << 24 | u64::from(rule.action));
        let guarded = if guarded.contains(&class) { GUARDED } else { 0 };
        cell.store(served | guarded | number, Ordering::Release);
    }
}

/// Writes sources into a group. While they change more sources may be left to software, and
/// none fewer than before and after.
fn write_sources(maps: &Maps, group: u32, place: usize, sources: &Sources) {
    let first = group as usize * GROUP + 4 * place;
    let Some([v, w, m, n]) = maps.groups.words().get(first..first + 4) else { return };
    m.store(0, Ordering::Relaxed);
    n.store(0, Ordering::Relaxed);
    v.store(sources.value[0], Ordering::Relaxed);
    w.store(sources.value[1], Ordering::Relaxed);
    m.store(sources.mask[0], Ordering::Relaxed);
    n.store(sources.mask[1], Ordering::Release);
}
