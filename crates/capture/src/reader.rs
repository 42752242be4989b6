//! Reads a capture, whichever format it has.
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Fault;
use crate::input::{Filled, Input};
use crate::pcap::Pcap;
use crate::pcapng::PcapNg;
use crate::{CaptureError, Captured, FCS, Format, Record};

enum Section {
    Pcap(Pcap),
    PcapNg(PcapNg),
}

/// Reads a capture frame by frame.
pub struct CaptureReader {
    path: PathBuf,
    input: Input,
    section: Section,
    frames: u64,
    time: Duration,
}

impl CaptureReader {
    /// Opens the file `path`, or standard input if that is `-`. What gzip has
    /// compressed is unpacked.
    ///
    /// # Errors
    /// The file can't be read, is no capture, or holds no Ethernet frames.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let input = Input::open(path);
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        Self::begin(path, input.map_err(io)?)
    }

    /// The capture in `bytes`, which messages call `path`.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn of(path: &Path, bytes: impl Read + Send + 'static) -> Result<Self, CaptureError> {
        let input = Input::new(bytes);
        let io = |source| CaptureError::Io { path: path.to_owned(), source };
        Self::begin(path, input.map_err(io)?)
    }

    fn begin(path: &Path, mut input: Input) -> Result<Self, CaptureError> {
        // In messages.
        let path = if path == Path::new("-") { Path::new("standard input") } else { path };
        let path = path.to_owned();
        let mut magic = [0; 4];
        match input.fill(&mut magic) {
            Ok(Filled::All) => {}
            Ok(Filled::Part(0)) => return Err(CaptureError::Empty { path }),
            Ok(Filled::Part(bytes)) => return Err(CaptureError::Short { path, bytes }),
            Err(source) => return Err(CaptureError::Io { path, source }),
        }
        let section = match Pcap::read(magic, &mut input) {
            Ok(Some(pcap)) => Ok(Some(Section::Pcap(pcap))),
            Ok(None) => PcapNg::read(magic, &mut input).map(|read| read.map(Section::PcapNg)),
            Err(fault) => Err(fault),
        };
        match section {
            Ok(Some(section)) => Ok(Self { path, input, section, frames: 0, time: Duration::ZERO }),
            Ok(None) => Err(CaptureError::NoCapture { path, magic }),
            Err(fault) => Err(error(path, 0, fault)),
        }
    }

    /// The format of the file.
    #[must_use]
    pub const fn format(&self) -> Format {
        match self.section {
            Section::Pcap(_) => Format::Pcap,
            Section::PcapNg(_) => Format::PcapNg,
        }
    }

    /// The name of the interface `number` of the present section, if the file says it.
    #[must_use]
    pub fn interface_name(&self, number: u32) -> Option<&str> {
        match &self.section {
            Section::Pcap(_) => None,
            Section::PcapNg(section) => section.interface_name(number),
        }
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// The file is cut off or damaged from here on, or the frame is not whole.
    pub fn read(&mut self) -> Result<Option<Captured>, CaptureError> {
        let next = match &mut self.section {
            Section::Pcap(pcap) => pcap.next(&mut self.input),
            Section::PcapNg(section) => section.next(&mut self.input),
        };
        let record = next.map_err(|fault| error(self.path.clone(), self.frames, fault))?;
        let Some(Record { time, interface, length, mut bytes, has_fcs }) = record else {
            return Ok(None);
        };
        self.frames += 1;
        let number = self.frames;
        if bytes.len() < length as usize {
            let (path, kept) = (self.path.clone(), bytes.len());
            return Err(CaptureError::Cut { path, frame: number, kept, length });
        }
        if has_fcs {
            bytes.truncate(bytes.len().saturating_sub(FCS));
        }
        self.time = time.unwrap_or(self.time);
        Ok(Some(Captured { number, time: self.time, interface, frame: bytes }))
    }
}

/// The error for `fault` in the file `path`, behind so many `frames`.
fn error(path: PathBuf, frames: u64, fault: Fault) -> CaptureError {
    match fault {
        Fault::Io(source) => CaptureError::Io { path, source },
        Fault::Ends { in_frame: true } => {
            CaptureError::EndsInside { path, inside: "frame", frame: frames + 1 }
        }
        Fault::Ends { in_frame: false } => {
            CaptureError::EndsInside { path, inside: "the block behind frame", frame: frames }
        }
        Fault::Short(bytes) => CaptureError::Short { path, bytes },
        Fault::Damaged(what) => CaptureError::Damaged { path, frame: frames, what },
        Fault::LinkType(found) => CaptureError::LinkType { path, found },
    }
}
