//! Making room: the search for a chain of moves that ends at an empty slot.
use crate::bucket::SLOTS;
use crate::index::{Index, Place, Probe};

/// Buckets looked at before the table counts as full: two, their 8 neighbours,
/// those' 32, and so on to the sixth generation. Bounds the work of
/// an insertion and the length of a chain.
const NODES: usize = if cfg!(loom) { 8 } else { 512 };

/// Longest chain: the search's depth, with room to spare.
const LONGEST: usize = 16;

/// The outcome of the attempt to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// A slot was empty or has become so.
    Made,
    /// Others changed the table in between: search again.
    Disturbed,
    /// There is no chain within the bound.
    None,
}

/// A bucket reached by the search, by moving the entry in `slot` out of
/// `parent`. Parents count from 1: the two buckets where the search starts have
/// 0, and the empty tree is zero bytes.
#[derive(Clone, Copy, Default)]
struct Node {
    bucket: u32,
    parent: u16,
    slot: u16,
}

/// Breadth-first search tree, on the stack.
struct Search<'a> {
    index: &'a Index,
    nodes: [Node; NODES],
    len: usize,
}

impl Index {
    /// Makes an empty slot other than `taken` in one of the buckets of
    /// `probe`: searches without locks, then moves entries from the chain's
    /// end to its beginning, so that no key is ever out of the table (LB-NIC
    /// section 3.2).
    pub(crate) fn make_room(&self, probe: &Probe, taken: Option<Place>) -> Room {
        let mut search = Search::new(self, probe);
        match search.run(taken) {
            Some((node, vacancy)) => search.shift_back(node, vacancy),
            None => Room::None,
        }
    }
}

impl<'a> Search<'a> {
    fn new(index: &'a Index, probe: &Probe) -> Self {
        let mut search = Self { index, nodes: [Node::default(); NODES], len: 0 };
        search.add(Node { bucket: probe.first() as u32, ..Node::default() });
        if probe.second() != probe.first() {
            search.add(Node { bucket: probe.second() as u32, ..Node::default() });
        }
        search
    }

    fn add(&mut self, node: Node) {
        if let Some(place) = self.nodes.get_mut(self.len) {
            self.index.prefetch(node.bucket as usize);
            *place = node;
            self.len += 1;
        }
    }

    /// The nearest node with an empty slot other than `taken`.
    fn run(&mut self, taken: Option<Place>) -> Option<(usize, Place)> {
        let mut next = 0;
        while next < self.len {
            let node = self.nodes.get(next).copied()?;
            let bucket = node.bucket as usize;
            if let Some(vacancy) = self.index.vacancy(bucket, taken) {
                return Some((next, vacancy));
            }
            for slot in 0..SLOTS {
                let entry = self.index.bucket(bucket).load(slot);
                let other = self.index.other(bucket, entry);
                if !entry.is_empty() && other != bucket {
                    let (parent, slot) = (next as u16 + 1, slot as u16);
                    self.add(Node { bucket: other as u32, parent, slot });
                }
            }
            next += 1;
        }
        None
    }

    /// Moves along the chain from its end: into `vacancy` in the bucket of
    /// `node`, then into the slot that became empty by that, up to the root.
    fn shift_back(&self, node: usize, vacancy: Place) -> Room {
        let (mut node, mut vacancy) = (self.nodes.get(node), vacancy);
        for _ in 0..LONGEST {
            let Some(child) = node.filter(|child| child.parent != 0) else { return Room::Made };
            let parent = self.nodes.get(usize::from(child.parent) - 1);
            let bucket = parent.map_or(vacancy.bucket, |parent| parent.bucket as usize);
            let source = Place { bucket, slot: usize::from(child.slot) };
            if !self.index.shift(source, vacancy) {
                return Room::Disturbed;
            }
            (node, vacancy) = (parent, source);
        }
        Room::Disturbed
    }
}
