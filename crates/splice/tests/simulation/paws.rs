//! What RFC 7323 asks of a receiver and smoltcp does not do: old clocks are dropped, and
//! an echo is of a number that the host has sent.
use splice::{Offer, Stamps};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// One host's view of the timestamps.
#[derive(Default)]
pub(crate) struct Paws {
    sent: bool,
    got: bool,
    /// TS.Recent, and what the host has acknowledged.
    recent: Option<u32>,
    acknowledged: u32,
    /// The first and the last number of the host's own.
    own: Option<(u32, u32)>,
}

struct Parsed {
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    stamps: Option<Stamps>,
    offers: bool,
    length: u32,
}

fn parse(ip: &[u8]) -> Parsed {
    let l4 = usize::from(ip[0] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let tcp = &ip[l4..total];
    let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    let data = usize::from(tcp[12] >> 4) * 4;
    let flags = tcp[13];
    let phantom = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    Parsed {
        sequence: word(4),
        acknowledgement: word(8),
        flags,
        stamps: Stamps::parse(&tcp[20..data]),
        offers: Offer::parse(&tcp[20..data]).timestamps,
        length: (tcp.len() - data) as u32 + phantom,
    }
}

impl Paws {
    /// A packet of the host's.
    pub(crate) fn outgoing(&mut self, ip: &[u8]) {
        let packet = parse(ip);
        if packet.flags & SYN != 0 {
            self.sent = packet.offers;
        }
        if packet.flags & ACK != 0 {
            self.acknowledged = packet.acknowledgement;
        }
        if let Some(Stamps { value, .. }) = packet.stamps {
            let (first, last) = self.own.unwrap_or((value, value));
            self.own = Some((first, if before(last, value) { value } else { last }));
        }
    }

    /// Whether the host takes a packet.
    pub(crate) fn incoming(&mut self, ip: &[u8]) -> Result<bool, String> {
        let packet = parse(ip);
        if packet.flags & SYN != 0 {
            if packet.flags & ACK == 0 && !self.got {
                *self = Self { got: packet.offers, ..Self::default() };
            }
            self.got = packet.offers;
        }
        if packet.flags & RST != 0 || (packet.flags & SYN != 0 && packet.flags & ACK == 0) {
            return Ok(true);
        }
        let Some(Stamps { value, echo }) = packet.stamps else {
            let promised = self.sent && self.got;
            return if promised { Err("a segment has no timestamps".into()) } else { Ok(true) };
        };
        let Some((first, last)) = self.own.filter(|_| self.sent) else {
            return Err("a segment has timestamps that nobody asked for".into());
        };
        if before(echo, first) || before(last, echo) {
            return Err(format!("the echo {echo} is of no number in {first}..={last}"));
        }
        if self.recent.is_some_and(|recent| before(value, recent)) {
            return Ok(false);
        }
        let end = packet.sequence.wrapping_add(packet.length);
        if !before(self.acknowledged, packet.sequence) && !before(end, self.acknowledged) {
            self.recent = Some(value);
        }
        Ok(true)
    }
}
