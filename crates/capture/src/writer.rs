//! Writes a capture, with time stamps in nanoseconds.
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::output::Output;
use crate::{CaptureError, ETHERNET, Format};

/// The snap length of every interface.
const SNAP_LENGTH: u32 = 65_535;

/// Writes a capture frame by frame. Without [`Self::finish`] no file is left.
pub struct CaptureWriter {
    path: PathBuf,
    output: Output,
    format: Format,
}

/// What is said of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// For people.
    pub comment: &'a str,
    /// Whether it leaves, and did not come in.
    pub leaves: bool,
    /// Its length on the wire.
    pub length: u32,
}

impl CaptureWriter {
    /// A capture that replaces `path` when it is whole; `-` is standard output. In
    /// [`Format::PcapNg`] it has an interface for each of `interfaces`; a pcap file
    /// does not tell interfaces apart.
    ///
    /// # Errors
    /// The file can't be made, or `path` is one of the files `read`, under this name or
    /// another.
    pub fn create(
        path: &Path,
        format: Format,
        interfaces: &[&str],
        read: &[&Path],
    ) -> Result<Self, CaptureError> {
        let output = Output::create(path, read)?;
        let mut writer = Self { path: path.to_owned(), output, format };
        let header = match format {
            Format::Pcap => pcap_header(),
            Format::PcapNg => section(interfaces),
        };
        writer.put(&header)?;
        Ok(writer)
    }

    /// Appends a frame of the interface `interface` with `note`, which a pcap file has
    /// no room for.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write_noted(
        &mut self,
        interface: u32,
        time: Duration,
        frame: &[u8],
        note: &Note<'_>,
    ) -> Result<(), CaptureError> {
        if self.format == Format::Pcap {
            return self.write(interface, time, frame);
        }
        let mut body = enhanced(interface, time, frame, note.length);
        body.resize(body.len().next_multiple_of(4), 0);
        // opt_comment and epb_flags, whose low bits say inbound (1) or outbound (2).
        body.extend(option(1, note.comment.as_bytes()));
        body.extend(option(2, &(if note.leaves { 2u32 } else { 1 }).to_be_bytes()));
        body.extend(option(0, &[]));
        self.put(&block(6, body))
    }

    /// Appends a frame of the interface `interface`.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(
        &mut self,
        interface: u32,
        time: Duration,
        frame: &[u8],
    ) -> Result<(), CaptureError> {
        let length = frame.len() as u32;
        let record = match self.format {
            Format::Pcap => {
                let words = [time.as_secs() as u32, time.subsec_nanos(), length, length];
                let mut record: Vec<u8> =
                    words.iter().flat_map(|word| word.to_be_bytes()).collect();
                record.extend_from_slice(frame);
                record
            }
            Format::PcapNg => block(6, enhanced(interface, time, frame, length)),
        };
        self.put(&record)
    }

    /// The file is whole and takes its name.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn finish(self) -> Result<(), CaptureError> {
        let Self { path, output, .. } = self;
        output.finish().map_err(|source| CaptureError::Io { path, source })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let io = |source: io::Error| CaptureError::Io { path: self.path.clone(), source };
        self.output.write_all(bytes).map_err(io)
    }
}

/// The body of an enhanced packet block without options, of a frame that had `length`
/// bytes on the wire.
fn enhanced(interface: u32, time: Duration, frame: &[u8], length: u32) -> Vec<u8> {
    let nanos = time.as_nanos() as u64;
    let words = [interface, (nanos >> 32) as u32, nanos as u32, frame.len() as u32, length];
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    body.extend_from_slice(frame);
    body
}

/// The header of a pcap file: nanoseconds, version 2.4, Ethernet.
fn pcap_header() -> Vec<u8> {
    let words = [0xa1b2_3c4d, 2 << 16 | 4, 0, 0, SNAP_LENGTH, ETHERNET.into()];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

/// The blocks before the first frame of a pcapng file: the section and its interfaces.
fn section(interfaces: &[&str]) -> Vec<u8> {
    let mut body = 0x1a2b_3c4du32.to_be_bytes().to_vec();
    // Version 1.0, and a length that is not known.
    body.extend([0, 1, 0, 0]);
    body.extend([0xff; 8]);
    let mut blocks = block(0x0a0d_0d0a, body);
    for name in interfaces {
        let mut body = ETHERNET.to_be_bytes().to_vec();
        body.extend([0, 0]);
        body.extend(SNAP_LENGTH.to_be_bytes());
        body.extend(option(2, name.as_bytes()));
        body.extend(option(9, &[9]));
        body.extend(option(0, &[]));
        blocks.extend(block(1, body));
    }
    blocks
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [code.to_be_bytes(), (value.len() as u16).to_be_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn block(kind: u32, mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    let length = (body.len() as u32 + 12).to_be_bytes();
    [&kind.to_be_bytes()[..], &length, &body, &length].concat()
}
