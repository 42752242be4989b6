//! Why a capture can't be read or written.
use std::io;
use std::path::PathBuf;

/// Why a capture can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file can't be opened, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file has no bytes.
    #[error("{path}: the file is empty; a pcap or pcapng capture of Ethernet frames is needed")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is too short for the header of a capture.
    #[error(
        "{path}: the file has only {bytes} bytes, fewer than the header of a capture; a pcap or pcapng capture of Ethernet frames is needed"
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        bytes: usize,
    },
    /// The file is none.
    #[error(
        "{path}: this is no capture (its first bytes are {magic:02x?}); a pcap or pcapng capture of Ethernet frames is needed"
    )]
    NoCapture {
        /// The file.
        path: PathBuf,
        /// Its first bytes.
        magic: [u8; 4],
    },
    /// The file was cut off.
    #[error("{path}: the file ends in the middle of {inside} {frame}")]
    EndsInside {
        /// The file.
        path: PathBuf,
        /// `frame`, or `the block behind frame`.
        inside: &'static str,
        /// The frame's number, from 1.
        frame: u64,
    },
    /// The file has bytes that no capture has.
    #[error("{path}: the file is damaged behind frame {frame}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the last frame that was read, from 1; 0: none.
        frame: u64,
        /// What is wrong.
        what: String,
    },
    /// Frames of another link type.
    #[error(
        "{path}: the link type is {found}; frames must be Ethernet (link type 1), capture them on an Ethernet interface"
    )]
    LinkType {
        /// The file.
        path: PathBuf,
        /// What the capture holds.
        found: u16,
    },
    /// A frame that the capture holds only in part.
    #[error(
        "{path}: frame {frame} was cut to {kept} of {length} bytes when it was captured; capture with the full length (tcpdump -s 0)"
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        frame: u64,
        /// Bytes kept.
        kept: usize,
        /// Bytes it had.
        length: u32,
    },
    /// The output is one of the files that are read.
    #[error("{path}: this is the file {other}, which is read; write to another")]
    SameFile {
        /// The output.
        path: PathBuf,
        /// The file that is read.
        other: PathBuf,
    },
}

/// What is wrong with the bytes of a capture, before the file's name is known.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Reading failed.
    Io(io::Error),
    /// The bytes end inside a frame, or between frames inside another block.
    Ends {
        /// Whether it is a frame.
        in_frame: bool,
    },
    /// The bytes end inside the file's header, behind so many.
    Short(usize),
    /// What is read can't be.
    Damaged(String),
    /// Frames of another link type.
    LinkType(u16),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
