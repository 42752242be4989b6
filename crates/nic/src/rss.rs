//! Receive side scaling: the Toeplitz hash and the redirection table.
use wire::toeplitz::{RSS_KEY_LEN, Toeplitz};

use crate::frame_key::FrameKey;
use crate::key::{FlowType, Key, ports};

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
    /// A power of two of queue numbers.
    reta: Box<[u16]>,
}

impl Rss {
    /// `reta` has a power of two of entries.
    pub(crate) fn new(key: &[u8; RSS_KEY_LEN], mut reta: Vec<u16>) -> Self {
        if reta.iter().all(|queue| Some(queue) == reta.first()) {
            reta.truncate(1);
        }
        Self { toeplitz: Box::new(Toeplitz::new(key)), reta: reta.into() }
    }

    /// The queue among `queues` of a frame that a rule spreads over them; a
    /// driver repeats them to fill a table of its own.
    pub(crate) fn queue_of(&self, frame: &FrameKey, queues: &[u16]) -> u16 {
        let hash = hash_of(&self.toeplitz, frame) as usize;
        queues.get(hash % queues.len().max(1)).copied().unwrap_or(0)
    }

    /// The queue of a frame that no rule sends elsewhere.
    #[inline]
    pub(crate) fn queue(&self, frame: &FrameKey) -> u16 {
        if self.reta.len() == 1 {
            return self.reta.first().copied().unwrap_or(0);
        }
        let index = hash_of(&self.toeplitz, frame) as usize & (self.reta.len() - 1);
        self.reta.get(index).copied().unwrap_or(0)
    }
}
