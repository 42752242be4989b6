//! Classes of client addresses: which backend the low bits of an address mean.
//!
//! XenoFlow (Schrötter, Heimbrodt and Schnor, section 4.1) takes the last bit
//! of the client's address for one of two backends. Here any number of backends
//! with any weights divide the 2^n classes of n low bits among themselves. A
//! backend's classes are blocks, each one (value, mask) entry of a match table:
//! all classes whose lowest `bits` bits are `value`. Blocks don't overlap, and
//! a backend with c classes needs at least as many as c has bits set, since a
//! block has a power of two of classes; that many are used.
//!
//! When a backend fails only its own blocks change their backend, spread over
//! the others by their weights; when it comes back it gets the same ones again.
use std::net::IpAddr;

use crate::shares::{self, Member};
use crate::{BackendId, blocks};

/// How evenly classes are divided, and what that may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// The most by which a backend's share may differ from what its weight
    /// says, as a share of that (0.05: 5 %).
    pub deviation: f64,
    /// Entries at most. If they aren't enough, the bound on the deviation is
    /// doubled until they are.
    pub entries: usize,
    /// Low bits of the address that may be looked at, at most 16.
    pub bits: u8,
}

impl Default for Precision {
    fn default() -> Self {
        Self { deviation: 0.05, entries: 4096, bits: 14 }
    }
}

/// All addresses whose lowest `bits` bits are `value`, and who serves them.
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

/// What a change of the backends moved.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Whose it is while nobody is drained.
    pub(crate) home: u16,
    /// Who serves it; `None`: nobody is left.
    pub(crate) now: Option<u16>,
}

/// No backend, in the table of owners.
const NOBODY: u16 = u16::MAX;

/// The classes of one service.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    first: BackendId,
    weights: Box<[u16]>,
    drained: Box<[bool]>,
    precision: Precision,
    blocks: Vec<Block>,
    /// Low bits that [`Self::owners`] is indexed by.
    bits: u8,
    owners: Box<[u16]>,
}

impl Classes {
    /// Divides the classes among backends with these weights, numbered from
    /// `first` on. `None` if no backend has a weight, or there are too many for
    /// the precision's entries or bits.
    #[must_use]
    pub fn assign(first: BackendId, weights: &[u16], precision: Precision) -> Option<Self> {
        let precision = Precision { bits: precision.bits.min(16), ..precision };
        let mut classes = Self {
            first,
            weights: weights.into(),
            drained: vec![false; weights.len()].into_boxed_slice(),
            precision,
            blocks: Vec::new(),
            bits: 0,
            owners: Box::default(),
        };
        let whole = Block { value: 0, bits: 0, home: 0, now: None };
        let mut given = classes.spread(vec![whole]).ok()?;
        given.iter_mut().for_each(|block| block.home = block.now.unwrap_or_default());
        classes.blocks = given;
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
        let place = *self.owners.get((low & mask(self.bits)) as usize)?;
        (place != NOBODY).then(|| self.id(place))
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
            let backend = self.id(block.now?);
            Some(Entry { value: block.value, bits: block.bits, backend })
        })
    }

    /// Every backend's part, in the order of their ids.
    pub fn shares(&self) -> impl Iterator<Item = Share> {
        let sum: f64 = self.members().map(|member| member.weight).sum();
        (0..).zip(&self.weights).zip(&self.drained).map(move |((place, weight), drained)| {
            let weight = if *drained { 0.0 } else { f64::from(*weight) };
            let wanted = if sum > 0.0 { weight / sum } else { 0.0 };
            let backend = self.id(place);
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
    /// other class moves. `None` if it is none of these, or drained already.
    pub fn drain(&mut self, backend: BackendId) -> Option<Moved> {
        let place = self.place(backend)?;
        let drained = self.drained.get_mut(usize::from(place)).filter(|drained| !**drained)?;
        *drained = true;
        let (share, before) = (self.share_of(place), self.blocks.len());
        let (lost, kept) = self.blocks.iter().partition(|block| block.now == Some(place));
        self.blocks = kept;
        let nobody = |block: &Block| Block { now: None, ..*block };
        let given = self.spread(lost).unwrap_or_else(|lost| lost.iter().map(nobody).collect());
        self.blocks.extend(given);
        self.index();
        Some(Moved { share, before, after: self.blocks.len() })
    }

    /// `backend` gets its own classes back, and if nobody had them, those of
    /// others too. `None` if it is none of these, or not drained.
    pub fn restore(&mut self, backend: BackendId) -> Option<Moved> {
        let place = self.place(backend)?;
        let drained = self.drained.get_mut(usize::from(place)).filter(|drained| **drained)?;
        *drained = false;
        let (before, mut share) = (self.blocks.len(), 0.0);
        for block in &mut self.blocks {
            if (block.home == place || block.now.is_none()) && block.now != Some(place) {
                share += f64::from(block.bits).exp2().recip();
                block.now = Some(place);
            }
        }
        self.index();
        Some(Moved { share, before, after: self.blocks.len() })
    }

    /// Gives `lost` blocks to the backends that have a weight and aren't
    /// drained; an error, and the blocks back, if nobody can take them.
    fn spread(&self, lost: Vec<Block>) -> Result<Vec<Block>, Vec<Block>> {
        let members: Vec<Member> = self.members().collect();
        let wanted = shares::Wanted {
            deviation: self.precision.deviation,
            entries: self.precision.entries.saturating_sub(self.blocks.len()),
            bits: self.precision.bits,
        };
        match shares::divide(&members, &lost, &wanted) {
            Some((bits, parts)) => Ok(blocks::give(lost, bits, &parts)),
            None => Err(lost),
        }
    }

    /// Whoever can take classes, with those it has.
    fn members(&self) -> impl Iterator<Item = Member> {
        let all = (0..).zip(&self.weights).zip(&self.drained);
        all.filter(|((_, weight), drained)| **weight > 0 && !**drained).map(
            move |((place, weight), _)| Member {
                place,
                weight: f64::from(*weight),
                has: self.classes_of(place),
            },
        )
    }

    /// Classes of 16 bits that the backend serves.
    fn classes_of(&self, place: u16) -> u32 {
        let own = self.blocks.iter().filter(|block| block.now == Some(place));
        own.map(|block| 1 << (16 - block.bits)).sum()
    }

    fn share_of(&self, place: u16) -> f64 {
        f64::from(self.classes_of(place)) / f64::from(1 << 16)
    }

    fn id(&self, place: u16) -> BackendId {
        BackendId(self.first.0.saturating_add(place))
    }

    fn place(&self, backend: BackendId) -> Option<u16> {
        let place = backend.0.checked_sub(self.first.0)?;
        self.weights.get(usize::from(place)).filter(|weight| **weight > 0)?;
        Some(place)
    }

    /// Puts the blocks in order and makes the table of owners anew.
    fn index(&mut self) {
        blocks::merge(&mut self.blocks);
        self.bits = self.blocks.iter().map(|block| block.bits).max().unwrap_or(0);
        let mut owners = vec![NOBODY; 1 << self.bits];
        for block in &self.blocks {
            let every = owners.iter_mut().skip(block.value as usize).step_by(1 << block.bits);
            every.for_each(|owner| *owner = block.now.unwrap_or(NOBODY));
        }
        self.owners = owners.into_boxed_slice();
    }
}
