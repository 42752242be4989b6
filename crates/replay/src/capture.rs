//! Captures: pcap and pcapng files, read frame by frame and written in the
//! format of the input.
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

/// Longest frame a capture may hold, in bytes.
const SNAP_LENGTH: u32 = 65_535;

/// Why a capture can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file can't be opened, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a capture, or a broken one.
    #[error(
        "{path}: frame {frame}: {source}; a pcap or pcapng capture of Ethernet frames is needed"
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// How many frames were read before.
        frame: u64,
        /// What the parser said.
        source: PcapError,
    },
    /// Frames of another link type.
    #[error(
        "{path}: link type {found:?}; frames must be Ethernet (link type 1), capture them on an Ethernet interface"
    )]
    LinkType {
        /// The file.
        path: PathBuf,
        /// What the capture holds.
        found: DataLink,
    },
    /// A frame that the capture holds only in part.
    #[error(
        "{path}: frame {frame} was cut to {kept} of {length} bytes when it was captured; capture with the full length (tcpdump -s 0)"
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// Its number, from 0.
        frame: u64,
        /// Bytes kept.
        kept: usize,
        /// Bytes it had.
        length: u32,
    },
}

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The classic format.
    Pcap,
    /// Its successor.
    PcapNg,
}

/// A captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Since the epoch.
    pub time: Duration,
    /// The frame, from the Ethernet header on.
    pub frame: Vec<u8>,
}

enum Source {
    Pcap(PcapReader<BufReader<File>>),
    PcapNg(PcapNgReader<BufReader<File>>),
}

/// Reads a capture.
pub struct CaptureReader {
    path: PathBuf,
    source: Source,
    frames: u64,
}

impl CaptureReader {
    /// Opens `path`, whichever format it has.
    ///
    /// # Errors
    /// The file can't be read, is no capture, or holds no Ethernet frames.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        let broken = |source| CaptureError::Broken { path: path.to_owned(), frame: 0, source };
        let mut file = File::open(path).map_err(io)?;
        let mut magic = [0; 4];
        file.read_exact(&mut magic).map_err(io)?;
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        let input = BufReader::new(file);
        let source = if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
            Source::PcapNg(PcapNgReader::new(input).map_err(broken)?)
        } else {
            let reader = PcapReader::new(input).map_err(broken)?;
            ethernet(path, reader.header().datalink)?;
            Source::Pcap(reader)
        };
        Ok(Self { path: path.to_owned(), source, frames: 0 })
    }

    /// The format of the file.
    #[must_use]
    pub const fn format(&self) -> Format {
        match self.source {
            Source::Pcap(_) => Format::Pcap,
            Source::PcapNg(_) => Format::PcapNg,
        }
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// The file is broken from here on.
    pub fn read(&mut self) -> Result<Option<Captured>, CaptureError> {
        let next = match &mut self.source {
            Source::Pcap(reader) => match reader.next_packet() {
                None => return Ok(None),
                Some(Ok(packet)) => {
                    Ok((packet.timestamp, packet.data.into_owned(), packet.orig_len))
                }
                Some(Err(source)) => Err(source),
            },
            Source::PcapNg(reader) => match next_enhanced(&self.path, reader)? {
                None => return Ok(None),
                Some(next) => next,
            },
        };
        let (time, frame, length) = next.map_err(|source| CaptureError::Broken {
            path: self.path.clone(),
            frame: self.frames,
            source,
        })?;
        if frame.len() < length as usize {
            let (path, frames) = (self.path.clone(), self.frames);
            return Err(CaptureError::Cut { path, frame: frames, kept: frame.len(), length });
        }
        self.frames += 1;
        Ok(Some(Captured { time, frame }))
    }
}

fn ethernet(path: &Path, found: DataLink) -> Result<(), CaptureError> {
    if found == DataLink::ETHERNET {
        return Ok(());
    }
    Err(CaptureError::LinkType { path: path.to_owned(), found })
}

type RawFrame = (Duration, Vec<u8>, u32);

/// The next block that holds a packet. Blocks of other kinds are passed over.
fn next_enhanced(
    path: &Path,
    reader: &mut PcapNgReader<BufReader<File>>,
) -> Result<Option<Result<RawFrame, PcapError>>, CaptureError> {
    loop {
        let (interface, ticks, data, length) = match reader.next_block() {
            None => return Ok(None),
            Some(Err(source)) => return Ok(Some(Err(source))),
            Some(Ok(Block::EnhancedPacket(packet))) => {
                let ticks = packet.timestamp.as_nanos() as u64;
                (packet.interface_id, ticks, packet.data.into_owned(), packet.original_len)
            }
            Some(Ok(Block::SimplePacket(packet))) => {
                (0, 0, packet.data.into_owned(), packet.original_len)
            }
            Some(Ok(_)) => continue,
        };
        let resolution = match reader.interfaces().get(interface as usize) {
            None => return Ok(Some(Err(PcapError::InvalidInterfaceId(interface)))),
            Some(description) => {
                ethernet(path, description.linktype)?;
                resolution(&description.options)
            }
        };
        return Ok(Some(Ok((resolution.duration(ticks), data, length))));
    }
}

/// The unit of an interface's time stamps: the library leaves it to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// Ten to the minus this.
    Decimal(u8),
    /// Two to the minus this.
    Binary(u8),
}

fn resolution(options: &[InterfaceDescriptionOption<'_>]) -> Resolution {
    for option in options {
        if let InterfaceDescriptionOption::IfTsResol(value) = option {
            return match value & 0x80 {
                0 => Resolution::Decimal((*value).min(18)),
                _ => Resolution::Binary((value & 0x7f).min(63)),
            };
        }
    }
    Resolution::Decimal(6)
}

impl Resolution {
    fn duration(self, ticks: u64) -> Duration {
        let per_second = match self {
            Self::Decimal(digits) => 10u64.pow(u32::from(digits)),
            Self::Binary(bits) => 1u64 << bits,
        };
        let rest = u128::from(ticks % per_second) * 1_000_000_000 / u128::from(per_second);
        Duration::new(ticks / per_second, rest as u32)
    }
}

enum Sink {
    Pcap(PcapWriter<BufWriter<File>>),
    PcapNg(PcapNgWriter<BufWriter<File>>),
}

/// Writes a capture with time stamps in nanoseconds.
pub struct CaptureWriter {
    path: PathBuf,
    sink: Sink,
    frames: u64,
}

impl CaptureWriter {
    /// Creates or replaces `path`.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn create(path: &Path, format: Format) -> Result<Self, CaptureError> {
        let file = File::create(path)
            .map_err(|source| CaptureError::Io { path: path.to_owned(), source })?;
        let broken = |source| CaptureError::Broken { path: path.to_owned(), frame: 0, source };
        let output = BufWriter::new(file);
        let sink = match format {
            Format::Pcap => {
                let header = PcapHeader {
                    snaplen: SNAP_LENGTH,
                    datalink: DataLink::ETHERNET,
                    ts_resolution: TsResolution::NanoSecond,
                    ..PcapHeader::default()
                };
                Sink::Pcap(PcapWriter::with_header(output, header).map_err(broken)?)
            }
            Format::PcapNg => {
                let mut writer = PcapNgWriter::new(output).map_err(broken)?;
                let interface = InterfaceDescriptionBlock {
                    linktype: DataLink::ETHERNET,
                    snaplen: SNAP_LENGTH,
                    options: vec![InterfaceDescriptionOption::IfTsResol(9)],
                };
                writer.write_pcapng_block(interface).map_err(broken)?;
                Sink::PcapNg(writer)
            }
        };
        Ok(Self { path: path.to_owned(), sink, frames: 0 })
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&mut self, time: Duration, frame: &[u8]) -> Result<(), CaptureError> {
        let length = frame.len() as u32;
        let written = match &mut self.sink {
            Sink::Pcap(writer) => writer.write_packet(&PcapPacket::new(time, length, frame)),
            Sink::PcapNg(writer) => writer.write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: time,
                original_len: length,
                data: Cow::Borrowed(frame),
                options: Vec::new(),
            }),
        };
        self.frames += 1;
        let (path, frame) = (&self.path, self.frames);
        written.map(drop).map_err(|source| CaptureError::Broken {
            path: path.clone(),
            frame,
            source,
        })
    }

    /// Writes out what is still in memory.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn finish(self) -> Result<(), CaptureError> {
        let mut output = match self.sink {
            Sink::Pcap(writer) => writer.into_writer(),
            Sink::PcapNg(writer) => writer.into_inner(),
        };
        output.flush().map_err(|source| CaptureError::Io { path: self.path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_give_back_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        for format in [Format::Pcap, Format::PcapNg] {
            let path = dir.path().join(format!("{format:?}"));
            let frames: Vec<Captured> = (1..5u32)
                .map(|n| Captured {
                    time: Duration::new(1_700_000_000 + u64::from(n), n * 1001),
                    frame: vec![n as u8; 60 + n as usize],
                })
                .collect();
            let mut writer = CaptureWriter::create(&path, format).unwrap();
            for Captured { time, frame } in &frames {
                writer.write(*time, frame).unwrap();
            }
            writer.finish().unwrap();
            let mut reader = CaptureReader::open(&path).unwrap();
            assert_eq!(reader.format(), format);
            let mut read = Vec::new();
            while let Some(captured) = reader.read().unwrap() {
                read.push(captured);
            }
            assert_eq!(read, frames);
        }
    }

    #[test]
    fn a_file_that_is_no_capture_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        std::fs::write(&path, "these are not the frames you are looking for").unwrap();
        let error = CaptureReader::open(&path).err().unwrap().to_string();
        assert!(error.contains("notes.txt") && error.contains("pcap"), "{error}");
    }

    #[test]
    fn time_stamps_follow_the_interface() {
        assert_eq!(Resolution::Decimal(6).duration(1_500_000), Duration::from_millis(1500));
        assert_eq!(Resolution::Decimal(9).duration(5), Duration::from_nanos(5));
        assert_eq!(Resolution::Binary(1).duration(3), Duration::from_millis(1500));
    }
}
