//! Packet captures: pcap ([draft-ietf-opsawg-pcap]) and pcapng
//! ([draft-ietf-opsawg-pcapng]) files of Ethernet frames.
//!
//! [`CaptureReader`] takes what real programs write: both formats, compressed or
//! not, cut off at the end, with simple and obsolete packet blocks, a snap length of 0
//! and frame check sequences. [`CaptureWriter`] writes a file under its name only when
//! it is whole, and never over a file that is read.
//!
//! [draft-ietf-opsawg-pcap]: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/
//! [draft-ietf-opsawg-pcapng]: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/
#![forbid(unsafe_code)]

mod error;
mod input;
mod output;
mod pcap;
mod pcapng;
mod reader;
mod writer;

use std::time::Duration;

pub use error::CaptureError;
pub use reader::CaptureReader;
pub use writer::{CaptureWriter, Note};

/// The link type of Ethernet (LINKTYPE_ETHERNET).
const ETHERNET: u16 = 1;
/// The longest frame, in bytes: libpcap's MAXIMUM_SNAPLEN. A greater length is that of
/// a damaged file.
const LONGEST: u32 = 262_144;
/// The bytes of Ethernet's frame check sequence.
const FCS: usize = 4;

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic format.
    Pcap,
    /// Its successor, which has interfaces.
    PcapNg,
}

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its number in the file, from 1, as Wireshark counts.
    pub number: u64,
    /// Since the epoch. A simple packet block has no time of its own: that of the
    /// frame before it.
    pub time: Duration,
    /// The number of its interface in its section of a pcapng file; 0 in a pcap file.
    pub interface: u32,
    /// The frame, from the Ethernet header on, without its frame check sequence.
    pub frame: Vec<u8>,
}

/// A frame as the file has it.
struct Record {
    /// `None`: without a time of its own.
    time: Option<Duration>,
    interface: u32,
    /// Bytes that the frame had on the wire.
    length: u32,
    bytes: Vec<u8>,
    has_fcs: bool,
}
