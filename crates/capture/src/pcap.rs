//! The classic format.
use std::time::Duration;

use crate::error::Fault;
use crate::input::{Filled, Input};
use crate::{ETHERNET, LONGEST, Record};

/// The first word of a file with microseconds, and of one with nanoseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Bytes of the file's header behind the magic number, and of a frame's header.
const HEADER: usize = 20;
const RECORD: usize = 16;
/// In the word of the link type: that its upper four bits are the length of the frame
/// check sequence. Writers give it in bytes or in words of 16 bits; Ethernet's has 4
/// bytes.
const FCS_PRESENT: u32 = 0x0400_0000;

/// What a file's header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pcap {
    big_endian: bool,
    nanoseconds: bool,
    has_fcs: bool,
}

impl Pcap {
    /// The header of the file that begins with `magic`; `None` if that is another
    /// format's. The snap length in it is not used: some writers leave it 0.
    pub(crate) fn read(magic: [u8; 4], input: &mut Input) -> Result<Option<Self>, Fault> {
        let (big, little) = (u32::from_be_bytes(magic), u32::from_le_bytes(magic));
        let known = |word| matches!(word, MICROSECONDS | NANOSECONDS);
        let (big_endian, word) = match (known(big), known(little)) {
            (true, _) => (true, big),
            (_, true) => (false, little),
            _ => return Ok(None),
        };
        let mut header = [0; HEADER];
        if let Filled::Part(bytes) = input.fill(&mut header)? {
            return Err(Fault::Short(magic.len() + bytes));
        }
        let link = word_at(&header, 16, big_endian);
        let link_type = link as u16;
        if link_type != ETHERNET {
            return Err(Fault::LinkType(link_type));
        }
        let has_fcs = link & FCS_PRESENT != 0 && link >> 28 > 0;
        Ok(Some(Self { big_endian, nanoseconds: word == NANOSECONDS, has_fcs }))
    }

    /// The next frame; `None` at the end.
    pub(crate) fn next(&self, input: &mut Input) -> Result<Option<Record>, Fault> {
        let mut header = [0; RECORD];
        match input.fill(&mut header)? {
            Filled::All => {}
            Filled::Part(0) if !input.is_cut() => return Ok(None),
            Filled::Part(_) => return Err(Fault::Ends { in_frame: true }),
        }
        let word = |at| word_at(&header, at, self.big_endian);
        let (kept, length) = (word(8), word(12));
        if kept > LONGEST {
            let what = format!("the next frame is said to have {kept} bytes, more than {LONGEST}");
            return Err(Fault::Damaged(what));
        }
        let fraction = u64::from(word(4));
        // A second or more is carried over, as Wireshark does.
        let fraction = if self.nanoseconds {
            Duration::from_nanos(fraction)
        } else {
            Duration::from_micros(fraction)
        };
        let bytes = input.take(kept as usize)?.ok_or(Fault::Ends { in_frame: true })?;
        let time = Some(Duration::from_secs(word(0).into()) + fraction);
        Ok(Some(Record { time, interface: 0, length, bytes, has_fcs: self.has_fcs }))
    }
}

/// The word at byte `at`; 0 beyond the end.
pub(crate) fn word_at(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}
