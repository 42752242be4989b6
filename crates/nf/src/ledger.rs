//! What the server remembers of the frames that a network function has.
use crate::streams::Direction;
use crate::tag::Tag;

/// One frame that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its number among the frames of its NF, from 1.
    pub(crate) sequence: u64,
    /// When it went, in nanoseconds.
    pub(crate) sent_ns: u64,
    /// Its source address.
    pub(crate) source: [u8; 6],
    /// Its bucket.
    pub(crate) bucket: u16,
    /// The identification that a stamp has replaced, and where its IPv4 header is.
    pub(crate) identification: Option<(u16, u16)>,
    /// Its way.
    pub(crate) direction: Direction,
    /// The port that it came in by.
    pub(crate) ingress: u8,
    /// The port that it leaves by.
    pub(crate) egress: u8,
    /// Whether it has been back.
    pub(crate) returned: bool,
}

/// The latest frames of one NF, by number. More than all queues of an attachment hold.
#[derive(Debug)]
pub(crate) struct Ledger(Vec<Option<Entry>>);

impl Ledger {
    /// Frames that are remembered; a power of two, at most 65,536.
    pub(crate) const FRAMES: usize = 16_384;

    pub(crate) fn new() -> Self {
        Self(vec![None; Self::FRAMES])
    }

    /// Remembers a frame in place of the one that is [`Self::FRAMES`] older.
    pub(crate) fn enter(&mut self, entry: Entry) {
        if let Some(place) = self.0.get_mut(entry.sequence as usize % Self::FRAMES) {
            *place = Some(entry);
        }
    }

    /// The frame that `tag` was put on; `None` if it is forgotten or never was.
    pub(crate) fn find(&mut self, tag: Tag) -> Option<&mut Entry> {
        let entry = self.0.get_mut(usize::from(tag.sequence) % Self::FRAMES)?.as_mut()?;
        let same = entry.sequence as u16 == tag.sequence
            && entry.bucket == tag.bucket
            && entry.egress == tag.egress
            && entry.direction == tag.direction;
        same.then_some(entry)
    }
}
