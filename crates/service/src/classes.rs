//! Classes of client addresses, or of hashes: which backend the low bits mean.
//!
//! XenoFlow (Schrötter, Heimbrodt and Schnor, section 4.1) takes the last bit
//! of the client's address for one of two backends. Here any number of backends
//! with any weights divide the 2^n classes of n low bits among themselves. A
//! backend's classes are blocks, each one (value, mask) entry of a match table:
//! all classes whose lowest `bits` bits are `value`. Blocks don't overlap, and
//! a backend with c classes needs at least as many as c has bits set, since a
//! block has a power of two of classes; that many are used.
//!
//! When a backend fails only the blocks that it serves change their backend,
//! spread over the others by their weights; when it comes back it gets the same
//! ones again. Which backend serves a class depends only on which are drained, not on the order
//! in which that happened.
use std::net::IpAddr;

use flow::BackendId;

use crate::shares::{self, Member};
use crate::{blocks, succession};

/// How evenly classes are divided, and what that may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The most by which a backend's share may differ from what its weight
    /// says, as a share of that (0.05: 5 %).
    pub deviation: f64,
    /// Entries at most. If they aren't enough, the bound on the deviation is
    /// doubled until they are; or, with drained backends, their blocks are cut
    /// into larger pieces.
    pub entries: usize,
    /// Low bits of the address that may be looked at, at most 16.
    pub bits: u8,
}

impl Default for Precision {
    fn default() -> Self {
        Self { deviation: 0.05, entries: 4096, bits: 14 }
    }
}

/// All addresses whose lowest `bits` bits are `value`, and the backend that serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// The low bits.
    pub value: u32,
    /// How many of them count.
    pub bits: u8,
    /// The backend.
    pub backend: BackendId,
}

impl Entry {
    /// The bits of an address that count.
    #[must_use]
    pub const fn mask(&self) -> u32 {
        mask(self.bits)
    }

    /// The entry's part of all addresses.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.bits).exp2().recip()
    }
}

/// The lowest `bits` bits.
pub(crate) const fn mask(bits: u8) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

/// One backend's part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The backend.
    pub backend: BackendId,
    /// What its weight says, among the backends that aren't drained.
    pub wanted: f64,
    /// What it has.
    pub assigned: f64,
    /// Whether it has been drained.
    pub drained: bool,
}

/// What a change of the backends moved; nothing of a service with connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moved {
    /// The part of all addresses, and so of the flows if clients are spread
    /// evenly, that changed their backend.
    pub share: f64,
    /// Entries before it.
    pub before: usize,
    /// Entries behind it.
    pub after: usize,
}

/// A block of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) value: u32,
    pub(crate) bits: u8,
    /// The backend's place; `None`: no backend has it.
    pub(crate) owner: Option<u16>,
}

impl Block {
    /// Both halves, that with the lower value first.
    pub(crate) const fn halves(self) -> [Self; 2] {
        let bits = self.bits + 1;
        [Self { bits, ..self }, Self { value: self.value | 1 << self.bits, bits, ..self }]
    }

    /// Its part of all classes.
    fn share(&self) -> f64 {
        f64::from(self.bits).exp2().recip()
    }
}

/// No backend, in the table of owners.
const NOBODY: u16 = u16::MAX;

/// The classes of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    ids: Box<[BackendId]>,
    weights: Box<[u16]>,
    drained: Box<[bool]>,
    precision: Precision,
    /// The backend of every class while none is drained.
    home: Vec<Block>,
    /// The backend of every class at present.
    blocks: Vec<Block>,
    /// Low bits that [`Self::owners`] is indexed by.
    bits: u8,
    owners: Box<[u16]>,
}

impl Classes {
    /// Divides the classes among backends with these ids and weights. `None` if no backend has a weight, or there are too many for
    /// the precision's entries or bits.
    #[must_use]
    pub fn assign(ids: &[BackendId], weights: &[u16], precision: Precision) -> Option<Self> {
        let precision = Precision { bits: precision.bits.min(16), ..precision };
        let all = (0..).zip(weights).filter(|(_, weight)| **weight > 0);
        let members: Vec<Member> =
            all.map(|(place, weight)| Member { place, weight: f64::from(*weight) }).collect();
        let Precision { deviation, entries, bits } = precision;
        let whole = vec![Block { value: 0, bits: 0, owner: None }];
        let wanted = shares::Wanted { deviation, entries, bits, each: 1 };
        let (bits, parts) = shares::divide(&members, &whole, &wanted)?;
        let mut home = blocks::give(whole, bits, &parts);
        blocks::merge(&mut home);
        let mut classes = Self {
            ids: ids.into(),
            weights: weights.into(),
            drained: vec![false; weights.len()].into_boxed_slice(),
            precision,
            blocks: home.clone(),
            home,
            bits: 0,
            owners: Box::default(),
        };
        classes.index();
        Some(classes)
    }

    /// The backend of the client at `address`.
    #[inline]
    #[must_use]
    pub fn backend(&self, address: IpAddr) -> Option<BackendId> {
        let low = match address {
            IpAddr::V4(v4) => v4.to_bits(),
            IpAddr::V6(v6) => v6.to_bits() as u32,
        };
        self.of_bits(low)
    }

    /// The backend of all addresses, or hashes, whose bits end as `low`.
    #[inline]
    #[must_use]
    pub fn of_bits(&self, low: u32) -> Option<BackendId> {
        let place = *self.owners.get((low & mask(self.bits)) as usize)?;
        self.id(place)
    }

    /// The low bits of an address that decide.
    #[must_use]
    pub const fn bits(&self) -> u8 {
        self.bits
    }

    /// What a match table needs: every address is covered by exactly one entry,
    /// or none at all if all backends are drained.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.blocks.iter().filter_map(|block| {
            let backend = self.id(block.owner?)?;
            Some(Entry { value: block.value, bits: block.bits, backend })
        })
    }

    /// Every backend's part, in the order in which they were given.
    pub fn shares(&self) -> impl Iterator<Item = Share> {
        let living = self.weights.iter().zip(&self.drained).filter(|(_, drained)| !**drained);
        let sum: f64 = living.map(|(weight, _)| f64::from(*weight)).sum();
        let own = (0..).zip(&self.ids).zip(&self.weights).zip(&self.drained);
        own.map(move |(((place, backend), weight), drained)| {
            let weight = if *drained { 0.0 } else { f64::from(*weight) };
            let wanted = if sum > 0.0 { weight / sum } else { 0.0 };
            let backend = *backend;
            Share { backend, wanted, assigned: self.share_of(place), drained: *drained }
        })
    }

    /// The greatest deviation of a share from what the weight says, as a part
    /// of that.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let off = |share: Share| (share.assigned / share.wanted - 1.0).abs();
        self.shares().filter(|share| share.wanted > 0.0).map(off).fold(0.0, f64::max)
    }

    /// `backend` gets no more clients: its classes go to the others, and no
    /// other class moves unless the entries run out: then classes of other
    /// drained backends may, so that larger blocks are enough. `None` if it is
    /// none of these, or drained already.
    pub fn drain(&mut self, backend: BackendId) -> Option<Moved> {
        self.steer(backend, true)
    }

    /// `backend` gets the classes back that it would have if it had never been
    /// drained; no other class moves, but for what [`Self::drain`] says. `None`
    /// if it is none of these, or not drained.
    pub fn restore(&mut self, backend: BackendId) -> Option<Moved> {
        self.steer(backend, false)
    }

    /// Whether `backend` is one of these and drained.
    #[must_use]
    pub fn is_drained(&self, backend: BackendId) -> bool {
        self.ids.iter().zip(&self.drained).any(|(id, drained)| *id == backend && *drained)
    }

    fn steer(&mut self, backend: BackendId, drain: bool) -> Option<Moved> {
        let place = self.place(backend)?;
        let drained = self.drained.get_mut(usize::from(place)).filter(|is| **is != drain)?;
        *drained = drain;
        let (before, old, bits) = (self.blocks.len(), std::mem::take(&mut self.owners), self.bits);
        self.blocks = self.served();
        self.index();
        let all = 1_u32 << bits.max(self.bits);
        let moved =
            |class: &u32| owner(&old, *class, bits) != owner(&self.owners, *class, self.bits);
        let moved = (0..all).filter(moved).count();
        let share = moved as f64 / f64::from(all);
        Some(Moved { share, before, after: self.blocks.len() })
    }

    /// The backend of every class, in pieces as small as there are entries for.
    fn served(&self) -> Vec<Block> {
        let mut bits = self.precision.bits;
        loop {
            let served = succession::succeed(&self.home, &self.weights, &self.drained, bits);
            if served.len() <= self.precision.entries || bits == 0 {
                return served;
            }
            bits -= 1;
        }
    }

    fn share_of(&self, place: u16) -> f64 {
        let own = self.blocks.iter().filter(|block| block.owner == Some(place));
        own.map(Block::share).sum()
    }

    /// `None` for no backend.
    #[inline]
    fn id(&self, place: u16) -> Option<BackendId> {
        self.ids.get(usize::from(place)).copied()
    }

    fn place(&self, backend: BackendId) -> Option<u16> {
        let mut own = (0..).zip(self.ids.iter().zip(&self.weights));
        own.find(|(_, (id, weight))| **id == backend && **weight > 0).map(|(place, _)| place)
    }

    /// Makes the table of owners anew.
    fn index(&mut self) {
        self.bits = self.blocks.iter().map(|block| block.bits).max().unwrap_or(0);
        let mut owners = vec![NOBODY; 1 << self.bits];
        for block in &self.blocks {
            let every = owners.iter_mut().skip(block.value as usize).step_by(1 << block.bits);
            every.for_each(|owner| *owner = block.owner.unwrap_or(NOBODY));
        }
        self.owners = owners.into_boxed_slice();
    }
}

/// The owner of `class` in a table of so many bits.
fn owner(owners: &[u16], class: u32, bits: u8) -> Option<u16> {
    owners.get((class & mask(bits)) as usize).copied()
}
