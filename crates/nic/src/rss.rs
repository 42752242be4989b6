//! Receive side scaling: the Toeplitz hash and the redirection table.
use wire::toeplitz::{RSS_KEY_LEN, Toeplitz};

use crate::frame_key::FrameKey;
use crate::key::{FlowType, Key, ports};
use crate::redirection::Redirection;

/// The hash of a frame: addresses and ports of whole TCP and UDP packets,
/// addresses of other IP packets, 0 for the rest.
fn hash_of(toeplitz: &Toeplitz, frame: &FrameKey) -> u32 {
    let (key, with_ports) = match frame {
        FrameKey::Whole(kind, key) => (key, *kind != FlowType::Other),
        FrameKey::Fragment(key) => (key, false),
        FrameKey::NotIp => return 0,
    };
    match key {
        Key::V4(key) => {
            let mut input = [0; 12];
            input[..8].copy_from_slice(&key.addresses.to_be_bytes());
            input[8..].copy_from_slice(&ports(key.rest).to_be_bytes());
            toeplitz.hash(if with_ports { &input } else { &input[..8] })
        }
        Key::V6(key) => {
            let mut input = [0; 36];
            input[..16].copy_from_slice(&key.src.to_be_bytes());
            input[16..32].copy_from_slice(&key.dst.to_be_bytes());
            input[32..].copy_from_slice(&ports(key.rest).to_be_bytes());
            toeplitz.hash(if with_ports { &input } else { &input[..32] })
        }
    }
}

/// The Toeplitz hash and the redirection table that its low bits index.
pub(crate) struct Rss {
    toeplitz: Box<Toeplitz>,
    reta: Redirection,
}

/// Where RSS puts a frame.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) queue: u16,
    /// `None`: all frames have one queue, and nothing was hashed.
    pub(crate) hash: Option<u32>,
}

impl Rss {
    /// `reta` has a power of two of entries.
    pub(crate) fn new(key: &[u8; RSS_KEY_LEN], reta: Vec<u16>) -> Self {
        Self { toeplitz: Box::new(Toeplitz::new(key)), reta: Redirection::new(reta) }
    }

    /// The place of a frame that a rule spreads over `queues`; a
    /// driver repeats them to fill a table of its own.
    pub(crate) fn place_among(&self, frame: &FrameKey, queues: &[u16]) -> Place {
        let hash = hash_of(&self.toeplitz, frame);
        let queue = queues.get(hash as usize % queues.len().max(1)).copied().unwrap_or(0);
        Place { queue, hash: Some(hash) }
    }

    /// The place of a frame that no rule sends elsewhere.
    #[inline]
    pub(crate) fn place(&mut self, frame: &FrameKey) -> Place {
        if let Some(queue) = self.reta.only {
            return Place { queue, hash: None };
        }
        let hash = hash_of(&self.toeplitz, frame);
        Place { queue: self.reta.queue(hash), hash: Some(hash) }
    }

    /// The table that the host reads and writes.
    pub(crate) const fn reta(&mut self) -> &mut Redirection {
        &mut self.reta
    }
}
