//! What a fast path has of a connection: the numbers of both directions, and the ends that
//! their packets get.
use std::net::IpAddr;

use flow::{Account, BackendId, Direction, HopId, InterfaceId};
use wire::{FastHeader, FastRewrite, checksum};

use crate::ends::Ends;
use crate::steady::{Leave, Steady};

/// Bytes of the Ethernet header, and of the IP header of each family.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;

/// Which side of a connection has sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// Its backend.
    Backend,
}

impl Side {
    /// The other one.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Backend,
            Self::Backend => Self::Client,
        }
    }
}

/// A connection's number, and the side that has sent a packet of it. The connection may
/// have gone before the packet's turn comes; [`Passage::is_of`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    pub(crate) const fn new(slot: usize, side: Side) -> Self {
        Self((slot as u32) << 1 | side as u32)
    }

    pub(crate) const fn slot(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Which side has sent the packet.
    #[must_use]
    pub const fn side(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Backend }
    }
}

/// The caller's memory of how packets of one direction come and go. It is empty again
/// when the connection gets another backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The caller's era in which the rest was found; 0: never.
    pub era: u64,
    /// The next hop.
    pub hop: HopId,
    /// The only interface on which such packets may come, if there is but one.
    pub from: Option<InterfaceId>,
}

impl Default for Exit {
    fn default() -> Self {
        Self { era: 0, hop: HopId(0), from: None }
    }
}

/// What becomes of packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way<const K: usize> {
    rewrite: FastRewrite<K>,
    exit: Exit,
}

/// One connection for a fast path: of IPv4, two cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage<const K: usize> {
    steady: Steady,
    /// Whether packets pass; otherwise they are the machine's.
    open: bool,
    /// Whether a packet has passed since [`Self::close`].
    used: bool,
    /// Whose counts its packets are.
    backend: BackendId,
    /// From the client, from the backend.
    ways: [Way<K>; 2],
}

const _: () = assert!(size_of::<Passage<1>>() <= 128, "two lines for a connection");

impl<const K: usize> Default for Passage<K> {
    fn default() -> Self {
        let rewrite = Ends::default().rewrite_to(&Ends::default());
        let ways = [Way { rewrite, exit: Exit::default() }; 2];
        let (steady, backend) = (Steady::default(), BackendId(0));
        Self { steady, open: false, used: false, backend, ways }
    }
}

impl<const K: usize> Passage<K> {
    /// Sets the ends: of the client's packets, and of those of its backend, which has `id`.
    pub(crate) fn join(&mut self, [client, backend]: [&Ends<K>; 2], id: BackendId) {
        self.backend = id;
        let exit = Exit::default();
        self.ways = [
            Way { rewrite: client.rewrite_to(&backend.turned()), exit },
            Way { rewrite: backend.rewrite_to(&client.turned()), exit },
        ];
    }

    /// Lets packets pass, or not.
    pub(crate) const fn set(&mut self, steady: Option<Steady>) {
        match steady {
            Some(steady) => (self.steady, self.open) = (steady, true),
            None => self.open = false,
        }
    }

    /// What the entry knows since it was set, if packets may have passed; and whether some
    /// have.
    pub(crate) const fn close(&mut self) -> Option<(Steady, bool)> {
        let used = std::mem::replace(&mut self.used, false);
        if std::mem::replace(&mut self.open, false) { Some((self.steady, used)) } else { None }
    }

    /// The numbers, for as long as packets may pass.
    #[must_use]
    pub fn steady(&self) -> Option<Steady> {
        self.open.then_some(self.steady)
    }

    /// Whether packets of the connection may pass, and one with `header` is of `side`.
    #[inline(always)]
    #[must_use]
    pub fn is_of(&self, side: Side, header: &FastHeader<K>) -> bool {
        let FastRewrite { addresses, ports, .. } = self.way(side.other()).rewrite;
        let ends = Ends { addresses, ports }.turned();
        self.open && (ends.addresses, ends.ports) == (header.addresses, header.ports)
    }

    #[inline(always)]
    const fn way(&self, side: Side) -> &Way<K> {
        let [client, backend] = &self.ways;
        match side {
            Side::Client => client,
            Side::Backend => backend,
        }
    }

    /// For whom packets of `side` count.
    #[inline(always)]
    #[must_use]
    pub const fn account(&self, side: Side) -> Account {
        let direction = match side {
            Side::Client => Direction::Forward,
            Side::Backend => Direction::Reply,
        };
        Account { backend: self.backend, direction }
    }

    /// The addresses with which packets of `side` leave: source and destination.
    #[must_use]
    pub fn leaves_as(&self, side: Side) -> [IpAddr; 2] {
        let FastRewrite { addresses, ports, .. } = self.way(side).rewrite;
        Ends { addresses, ports }.addresses()
    }

    /// By which hop packets of `side` leave.
    #[inline(always)]
    pub const fn exit(&mut self, side: Side) -> &mut Exit {
        let [client, backend] = &mut self.ways;
        match side {
            Side::Client => &mut client.exit,
            Side::Backend => &mut backend.exit,
        }
    }

    /// Translates the numbers of a packet of `side`, whose `header` was found behind a tag
    /// of `tag` bytes, and says what is left to rewrite.
    ///
    /// # Errors
    /// The packet is the machine's, and was not changed.
    #[inline]
    pub fn translate(
        &mut self,
        side: Side,
        header: &FastHeader<K>,
        frame: &mut [u8],
        tag: usize,
    ) -> Result<FastRewrite<K>, Leave> {
        let l3 = ETHERNET + tag;
        let l4 = l3 + if K == 1 { IPV4 } else { IPV6 };
        let end = l3 + header.length as usize;
        let segment = frame.get_mut(l4..end).ok_or(Leave::Malformed)?;
        let delta = match side {
            Side::Client => self.steady.translate_up(segment)?,
            Side::Backend => self.steady.translate_down(segment)?,
        };
        self.used = true;
        let rewrite = self.way(side).rewrite;
        let transport_delta = checksum::combine(rewrite.transport_delta, delta);
        Ok(FastRewrite { transport_delta, ..rewrite })
    }
}
