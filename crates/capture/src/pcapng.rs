//! The newer format: sections of blocks.
use std::time::Duration;

use crate::error::Fault;
use crate::input::{Filled, Input};
use crate::pcap::word_at;
use crate::{ETHERNET, LONGEST, Record};

/// The type of the section header block, the same in both byte orders.
pub(crate) const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The first word of a section's body.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Types of blocks.
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Options of an interface: its name, the unit and the offset of its time stamps, the
/// length of its frame check sequences.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_FCSLEN: u16 = 13;
const IF_TSOFFSET: u16 = 14;
/// Type and length before a block's body, and the length behind it.
const HEAD: usize = 8;
const TAIL: usize = 4;
/// Bytes of the longest block: decryption secrets and names may be long.
const LONGEST_BLOCK: u32 = 16 << 20;

/// An interface as its block describes it.
#[derive(Clone, Debug)]
struct Interface {
    name: Option<String>,
    link_type: u16,
    /// 0: unlimited.
    snap_length: u32,
    ticks_per_second: u64,
    /// Seconds to add to each time stamp.
    offset: i64,
    has_fcs: bool,
}

/// The section that is read.
#[derive(Debug)]
pub(crate) struct PcapNg {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

impl PcapNg {
    /// The first section of the file that begins with `magic`; `None` if that is
    /// another format's.
    pub(crate) fn read(magic: [u8; 4], input: &mut Input) -> Result<Option<Self>, Fault> {
        if magic != SECTION {
            return Ok(None);
        }
        let mut section = Self { big_endian: false, interfaces: Vec::new() };
        let mut length = [0; 4];
        if let Filled::Part(bytes) = input.fill(&mut length)? {
            return Err(Fault::Short(magic.len() + bytes));
        }
        section.begin(length, input)?;
        Ok(Some(section))
    }

    /// The name of the section's interface `number`.
    pub(crate) fn interface_name(&self, number: u32) -> Option<&str> {
        self.interfaces.get(number as usize)?.name.as_deref()
    }

    /// The next frame; `None` at the end.
    pub(crate) fn next(&mut self, input: &mut Input) -> Result<Option<Record>, Fault> {
        loop {
            let mut head = [0; HEAD];
            match input.fill(&mut head)? {
                Filled::All => {}
                Filled::Part(0) if !input.is_cut() => return Ok(None),
                Filled::Part(_) => return Err(Fault::Ends { in_frame: false }),
            }
            if head.starts_with(&SECTION) {
                let [.., a, b, c, d] = head;
                self.begin([a, b, c, d], input)?;
                continue;
            }
            let (kind, length) = (self.word(&head, 0), self.word(&head, 4));
            let in_frame = matches!(kind, PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
            let body = self.body(length, HEAD, in_frame, input)?;
            match kind {
                INTERFACE => self.interfaces.push(self.interface(&body)),
                PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                    return self.packet(kind, &body).map(Some);
                }
                _ => {}
            }
        }
    }

    /// Begins the section of which type and `length` have been read.
    fn begin(&mut self, length: [u8; 4], input: &mut Input) -> Result<(), Fault> {
        let mut order = [0; 4];
        if input.fill(&mut order)? != Filled::All {
            return Err(Fault::Ends { in_frame: false });
        }
        self.big_endian = match (u32::from_be_bytes(order), u32::from_le_bytes(order)) {
            (BYTE_ORDER, _) => true,
            (_, BYTE_ORDER) => false,
            _ => {
                let what = format!("a section has the byte-order magic {order:02x?}");
                return Err(Fault::Damaged(what));
            }
        };
        self.interfaces.clear();
        let length = self.word(&length, 0);
        self.body(length, HEAD + order.len(), false, input).map(drop)
    }

    /// The rest of a block of `length` bytes, of which `read` have been read.
    fn body(
        &self,
        length: u32,
        read: usize,
        in_frame: bool,
        input: &mut Input,
    ) -> Result<Vec<u8>, Fault> {
        let fits = length % 4 == 0 && length <= LONGEST_BLOCK && length as usize >= read + TAIL;
        if !fits {
            let what = format!("a block is said to have {length} bytes");
            return Err(Fault::Damaged(what));
        }
        let rest = input.take(length as usize - read)?.ok_or(Fault::Ends { in_frame })?;
        let (body, tail) = rest.split_at_checked(rest.len() - TAIL).unwrap_or_default();
        let behind = self.word(tail, 0);
        if behind != length {
            let what = format!("a block has the length {length} before it and {behind} behind it");
            return Err(Fault::Damaged(what));
        }
        Ok(body.to_vec())
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        word_at(bytes, at, self.big_endian)
    }

    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let half = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied();
        let half = half.unwrap_or_default();
        if self.big_endian { u16::from_be_bytes(half) } else { u16::from_le_bytes(half) }
    }

    fn interface(&self, body: &[u8]) -> Interface {
        let mut interface = Interface {
            name: None,
            link_type: self.half(body, 0),
            snap_length: self.word(body, 4),
            ticks_per_second: 1_000_000,
            offset: 0,
            has_fcs: false,
        };
        let mut rest = body.get(8..).unwrap_or_default();
        while let Some((head, behind)) = rest.split_at_checked(4) {
            let (code, length) = (self.half(head, 0), usize::from(self.half(head, 2)));
            let Some(value) = behind.get(..length).filter(|_| code > 0) else { break };
            match (code, value) {
                (IF_NAME, name) => interface.name = String::from_utf8(name.to_vec()).ok(),
                (IF_TSRESOL, [unit]) => interface.ticks_per_second = ticks_per_second(*unit),
                (IF_FCSLEN, [length]) => interface.has_fcs = *length > 0,
                (IF_TSOFFSET, [_, _, _, _, _, _, _, _]) => {
                    let (first, second) = (self.word(value, 0), self.word(value, 4));
                    let (high, low) =
                        if self.big_endian { (first, second) } else { (second, first) };
                    interface.offset = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
            rest = behind.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        interface
    }

    /// The frame in a packet block of any `kind`.
    fn packet(&self, kind: u32, body: &[u8]) -> Result<Record, Fault> {
        let (number, header) = match kind {
            PACKET => (u32::from(self.half(body, 0)), 20),
            SIMPLE_PACKET => (0, 4),
            _ => (self.word(body, 0), 20),
        };
        let Some(interface) = self.interfaces.get(number as usize) else {
            let what = format!("the next frame is of interface {number}, which is not described");
            return Err(Fault::Damaged(what));
        };
        if interface.link_type != ETHERNET {
            return Err(Fault::LinkType(interface.link_type));
        }
        let length = self.word(body, header - 4);
        // A simple packet block says only how long the frame was on the wire.
        let kept = match (kind, interface.snap_length) {
            (SIMPLE_PACKET, 0) => length,
            (SIMPLE_PACKET, most) => length.min(most),
            _ => self.word(body, 12),
        };
        let bytes = body.get(header..).and_then(|data| data.get(..kept as usize));
        let Some(bytes) = bytes.filter(|_| kept <= LONGEST) else {
            let what = format!("the next frame is said to have {kept} bytes, more than its block");
            return Err(Fault::Damaged(what));
        };
        let ticks = u64::from(self.word(body, 4)) << 32 | u64::from(self.word(body, 8));
        let time = (kind != SIMPLE_PACKET).then(|| interface.time(ticks));
        let has_fcs = interface.has_fcs;
        Ok(Record { time, interface: number, length, bytes: bytes.to_vec(), has_fcs })
    }
}

impl Interface {
    fn time(&self, ticks: u64) -> Duration {
        let (seconds, rest) = (ticks / self.ticks_per_second, ticks % self.ticks_per_second);
        let nanos = u128::from(rest) * 1_000_000_000 / u128::from(self.ticks_per_second);
        Duration::new(seconds.saturating_add_signed(self.offset), nanos as u32)
    }
}

/// What the option `if_tsresol` says: a negative power of 10, or of 2 with the top bit.
fn ticks_per_second(unit: u8) -> u64 {
    match unit & 0x80 {
        0 => 10u64.pow(u32::from(unit.min(18))),
        _ => 1 << (unit & 0x7f).min(63),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_follow_the_interface() {
        let time = |unit, offset, ticks| {
            let interface = Interface {
                name: None,
                link_type: 1,
                snap_length: 0,
                ticks_per_second: ticks_per_second(unit),
                offset,
                has_fcs: false,
            };
            interface.time(ticks)
        };
        assert_eq!(time(6, 0, 1_500_000), Duration::from_millis(1500));
        assert_eq!(time(9, 0, 5), Duration::from_nanos(5));
        assert_eq!(time(0x81, 0, 3), Duration::from_millis(1500));
        assert_eq!(time(6, -1, 1_500_000), Duration::from_millis(500));
        assert_eq!(time(3, 10, 1), Duration::from_millis(10_001));
    }
}
