//! The bytes of a capture: from a file, standard input, or what either unpacks to.
use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, ErrorKind, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// The first bytes of gzip (RFC 1952 section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How much of what was asked for is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// All.
    All,
    /// Only so many bytes, then the input ends.
    Part(usize),
}

/// Bytes, read from the front.
pub(crate) struct Input {
    bytes: Box<dyn Read + Send>,
    /// The compressed data end early.
    cut: bool,
}

impl Input {
    /// Opens the file `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::new(io::stdin());
        }
        Self::new(File::open(path)?)
    }

    /// `bytes`, unpacked if they are compressed.
    pub(crate) fn new(bytes: impl Read + Send + 'static) -> io::Result<Self> {
        let mut start = Vec::new();
        let mut bytes = BufReader::new(bytes);
        bytes.by_ref().take(GZIP.len() as u64).read_to_end(&mut start)?;
        let packed = start == GZIP;
        let whole: Chain<Cursor<Vec<u8>>, _> = Cursor::new(start).chain(bytes);
        let bytes: Box<dyn Read + Send> = match packed {
            true => Box::new(BufReader::new(MultiGzDecoder::new(whole))),
            false => Box::new(whole),
        };
        Ok(Self { bytes, cut: false })
    }

    /// Fills `to`, as far as there are bytes.
    pub(crate) fn fill(&mut self, to: &mut [u8]) -> io::Result<Filled> {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.bytes.read(rest) {
                Ok(0) => return Ok(Filled::Part(done)),
                Ok(read) => done += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.cut = true;
                    return Ok(Filled::Part(done));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Filled::All)
    }

    /// Whether the end that was met is not that of the compressed data.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// The next `length` bytes; `None` if there are fewer. A length that is wrong takes
    /// no more memory than there are bytes.
    pub(crate) fn take(&mut self, length: usize) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let mut part = [0; 4096];
        while bytes.len() < length {
            let wanted = (length - bytes.len()).min(part.len());
            let Some(part) = part.get_mut(..wanted) else { break };
            match self.fill(part)? {
                Filled::All => bytes.extend_from_slice(part),
                Filled::Part(_) => return Ok(None),
            }
        }
        Ok(Some(bytes))
    }
}
