//! TCP segments as hosts send them, numbers and options and all.
use wire::Headers;

use crate::world::{Link, at};

/// A TCP segment but for its ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

impl Segment {
    pub(crate) fn frame(&self, link: Link, src: &str, dst: &str) -> Vec<u8> {
        let (src, dst) = (at(src), at(dst));
        let step = link.network(src.ip(), dst.ip());
        let mut step = step.tcp(src.port(), dst.port(), self.seq, self.window);
        for bit in 0..8 {
            step = match self.flags & 1 << bit {
                0x01 => step.fin(),
                0x02 => step.syn(),
                0x04 => step.rst(),
                0x08 => step.psh(),
                0x10 => step.ack(self.ack),
                0x20 => step.urg(3),
                0x40 => step.ece(),
                0x80 => step.cwr(),
                _ => step,
            };
        }
        let mut frame = Vec::new();
        step.options_raw(&self.options).unwrap().write(&mut frame, &self.data).unwrap();
        frame
    }
}

/// The TCP header of a frame that was sent.
pub(crate) fn segment(frame: &[u8]) -> Segment {
    let headers = Headers::parse(frame).unwrap();
    let tcp = etherparse::TcpSlice::from_slice(&frame[headers.l4.into()..headers.end.into()]);
    let tcp = tcp.unwrap();
    Segment {
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags: headers.tcp_flags.0,
        window: tcp.window_size(),
        options: tcp.options().to_vec(),
        data: tcp.payload().to_vec(),
    }
}

/// The options of a SYN.
pub(crate) fn offer(mss: u16, sack: bool, stamps: bool, scale: Option<u8>) -> Vec<u8> {
    let mut options = [&[2, 4], mss.to_be_bytes().as_slice()].concat();
    if sack {
        options.extend([1, 1, 4, 2]);
    }
    if stamps {
        options.extend([1, 1, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0]);
    }
    if let Some(shift) = scale {
        options.extend([1, 3, 3, shift]);
    }
    options
}
