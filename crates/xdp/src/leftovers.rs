//! The connections in the match table of a process that was killed: its program has gone
//! on forwarding them.
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{MapCore, MapHandle};
use mapped::Mapped;
use wire::{FlowKey, Mac};

use crate::{Error, Key, Table, action, entry};

/// What a killed process has left. Its program forwards by it until it is detached.
#[derive(Debug, Default)]
pub struct Leftovers {
    tag: [u8; 8],
    entries: Vec<Leftover>,
}

/// One direction of a connection in a table that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// What its packets have in their headers.
    pub flow: FlowKey,
    /// Where they go.
    pub to: Way,
    words: [u64; action::WORDS],
}

/// Where a program has sent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a new source and destination.
    Ends(SocketAddr, SocketAddr),
    /// Into a tunnel to this address.
    Tunnel(IpAddr),
    /// As they are, to this Ethernet address.
    Neighbour(Mac),
}

impl Leftovers {
    /// Of a program with `tag`, from its maps.
    pub(crate) fn read(tag: [u8; 8], maps: &[MapHandle]) -> Result<Self, Error> {
        let entries = map(maps, "entries", entry::WORDS)?;
        let actions = map(maps, "actions", action::WORDS)?;
        let found = entries.words().chunks_exact(entry::WORDS);
        let entries = found.filter_map(|words| leftover(words.first_chunk()?, actions.words()));
        Ok(Self { tag, entries: entries.collect() })
    }

    /// The directions of connections, if the program that has left them was of the same
    /// code as one with `tag`, so that they mean the same; none otherwise.
    pub(crate) fn of_same_code(self, tag: [u8; 8]) -> Vec<Leftover> {
        if self.tag == tag { self.entries } else { Vec::new() }
    }
}

impl Leftover {
    /// Puts the entry into a new table if it doesn't say by addresses where its packets
    /// go: until somebody has found that out, they go there. False if it isn't so, or the
    /// interface is gone.
    pub(crate) fn inherit(&self, table: &mut Table) -> bool {
        let interface = nix::net::if_::if_indextoname((self.words[0] >> 32) as u32);
        matches!(self.to, Way::Neighbour(_))
            && interface.is_ok()
            && table.insert_words(&Key::new(&self.flow), self.words).is_ok()
    }
}

fn map(maps: &[MapHandle], name: &'static str, words: usize) -> Result<Mapped, Error> {
    let map = maps.iter().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
    if map.value_size() as usize != 8 * words {
        return Err(Error::Missing(name));
    }
    Mapped::new(map.as_fd(), map.max_entries() as usize * words)
        .map_err(|source| Error::NotMapped { map: name, source })
}

/// Nobody writes any more: an entry that is being written stays so.
fn leftover(words: &[AtomicU64; entry::WORDS], actions: &[AtomicU64]) -> Option<Leftover> {
    let [version, _, _, key @ ..] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
    if version & 1 == 1 {
        return None;
    }
    let flow = Key(key).flow()?;
    let first = (version >> 32) as usize * action::WORDS;
    let action: &[AtomicU64; action::WORDS] = actions.get(first..)?.first_chunk()?;
    let action = action.each_ref().map(|word| word.load(Ordering::Relaxed));
    let [sequence, ..] = action;
    if sequence & 1 == 1 {
        return None;
    }
    let mut words = action;
    words[0] &= !u64::from(u32::MAX);
    Some(Leftover { flow, to: way(&flow, &action)?, words })
}

/// Where packets of `flow` go by the action with these words.
fn way(flow: &FlowKey, words: &[u64; action::WORDS]) -> Option<Way> {
    let [_, _, _, _, _, _, destination, source, outer @ ..] = words;
    let [.., low, high] = source.to_le_bytes();
    let fields = u16::from_le_bytes([low, high]);
    if fields & action::TUNNEL != 0 {
        let bytes: Vec<u8> = outer.iter().flat_map(|word| word.to_le_bytes()).collect();
        let to = match fields & action::OUTER_V6 {
            0 => IpAddr::from(*bytes.get(16..)?.first_chunk::<4>()?),
            _ => IpAddr::from(*bytes.get(24..)?.first_chunk::<16>()?),
        };
        return Some(Way::Tunnel(to));
    }
    if fields == 0 {
        let [mac @ .., _, _] = destination.to_le_bytes();
        return Some(Way::Neighbour(Mac(mac)));
    }
    let (source, destination) = new_ends(flow, words);
    Some(Way::Ends(source, destination))
}

/// Source and destination that packets of `flow` get by the action with these words.
fn new_ends(flow: &FlowKey, words: &[u64; action::WORDS]) -> (SocketAddr, SocketAddr) {
    let [_, a, b, c, d, ports, _, last, ..] = words;
    let [_, _, _, _, _, _, fields, _] = last.to_le_bytes();
    let (first, second) = match flow {
        FlowKey::V4(_) => {
            let [e, f, g, h, i, j, k, l] = a.to_le_bytes();
            (IpAddr::from([e, f, g, h]), IpAddr::from([i, j, k, l]))
        }
        FlowKey::V6(_) => (entry::whole(*a, *b).into(), entry::whole(*c, *d).into()),
    };
    let [p, q, r, s, ..] = ports.to_le_bytes();
    let has = |bit: u8| fields & bit != 0;
    let end = |old: SocketAddr, address: IpAddr, port: [u8; 2], [bit, port_bit]: [u8; 2]| {
        SocketAddr::new(
            if has(bit) { address } else { old.ip() },
            if has(port_bit) { u16::from_be_bytes(port) } else { old.port() },
        )
    };
    (end(flow.src(), first, [p, q], [1, 4]), end(flow.dst(), second, [r, s], [2, 8]))
}
