//! A card that connections are lent to: its rule begins to match late, matches on for a while
//! after it was wanted back, and sends on packets that no worker sees then.
use packet::{HeapPacket, PacketBuf};
use rand::Rng;
use rand::rngs::SmallRng;
use splice::{Constant, Loan};
use wire::checksum;

/// Where things are in a frame without IP options.
const TTL: usize = 22;
const IP_SUM: usize = 24;
const ADDRESSES: usize = 26;
const PORTS: usize = 34;
const NUMBERS: [usize; 2] = [38, 42];
const FLAGS: usize = 47;
const SUM: usize = 50;

/// A connection that is lent.
struct Lent {
    loan: Loan,
    constant: Constant,
    /// When the rule begins to match, if it was asked for, and when it ends.
    begins: Option<u64>,
    ends: Option<u64>,
}

/// The card.
pub(crate) struct Card {
    rng: SmallRng,
    /// How long it takes for anything, at most.
    slowness_ms: u64,
    pub(crate) now: u64,
    lent: Vec<Lent>,
    loans: u32,
    /// Packets that it has sent on.
    pub(crate) carried: usize,
    /// How often it was wanted back while its rule matched.
    pub(crate) recalled: usize,
}

impl Card {
    pub(crate) fn new(mut rng: SmallRng) -> Self {
        let slowness_ms = rng.random_range(0..120);
        Self { rng, slowness_ms, now: 0, lent: Vec::new(), loans: 0, carried: 0, recalled: 0 }
    }

    pub(crate) fn lend(&mut self, constant: &Constant) -> Option<Loan> {
        let same = |own: &Lent| {
            own.constant.ends == constant.ends && own.constant.backend == constant.backend
        };
        assert!(!self.lent.iter().any(same), "lent twice");
        self.loans += 1;
        let loan = Loan(self.loans);
        self.lent.push(Lent { loan, constant: *constant, begins: None, ends: None });
        Some(loan)
    }

    pub(crate) fn remind(&mut self, loan: Loan) -> bool {
        let after = self.rng.random_range(0..=self.slowness_ms);
        let lent = self.lent.iter_mut().find(|own| own.loan == loan).unwrap();
        assert!(lent.ends.is_none(), "it is wanted back");
        lent.begins.get_or_insert(self.now + after);
        // Routes may change.
        self.rng.random_bool(0.95)
    }

    pub(crate) fn take_back(&mut self, loan: Loan) -> bool {
        let after = self.rng.random_range(0..=self.slowness_ms);
        let at = self.lent.iter().position(|own| own.loan == loan).unwrap();
        let lent = &mut self.lent[at];
        let begun = lent.begins.is_some_and(|begins| begins <= self.now);
        if begun && lent.ends.is_none() {
            self.recalled += 1;
            lent.ends = Some(self.now + after);
        }
        let back = !begun || lent.ends.is_some_and(|ends| ends <= self.now);
        if back {
            self.lent.remove(at);
        }
        back
    }

    /// Whether the next packet is one of those of which the agent is told.
    pub(crate) fn is_occasion(&mut self) -> bool {
        self.rng.random_bool(0.5)
    }

    /// Sends a backend's packet on, if a rule matches it.
    pub(crate) fn send_on(&mut self, frame: &HeapPacket) -> Option<HeapPacket> {
        let bytes = frame.bytes();
        let now = self.now;
        let lent = self.lent.iter().find(|own| {
            let Constant { ends: [client, _], backend, .. } = own.constant;
            let (source, destination) = (ip(bytes, ADDRESSES), ip(bytes, ADDRESSES + 4));
            let ports = [backend.at.port(), client.port()].map(u16::to_be_bytes).concat();
            let matches = own.begins.is_some_and(|begins| begins <= now)
                && own.ends.is_none_or(|ends| now < ends);
            // ACK, and no SYN, RST, FIN, ECE or CWR.
            matches
                && bytes[FLAGS] & 0xd7 == 0x10
                && (source, destination) == (backend.at.ip(), client.ip())
                && bytes[PORTS..PORTS + 4] == ports
        })?;
        let Constant { ends: [_, vip], added, .. } = lent.constant;
        let std::net::IpAddr::V4(address) = vip.ip() else { return None };
        let mut new = HeapPacket::new(bytes);
        let out = new.bytes_mut();
        set(out, ADDRESSES, &address.octets(), &[IP_SUM, SUM]);
        set(out, PORTS, &vip.port().to_be_bytes(), &[SUM]);
        for (at, by) in NUMBERS.into_iter().zip(added) {
            let old = u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
            set(out, at, &old.wrapping_add(by).to_be_bytes(), &[SUM]);
        }
        let hops = [out[TTL] - 1, out[TTL + 1]];
        set(out, TTL, &hops, &[IP_SUM]);
        self.carried += 1;
        Some(new)
    }
}

fn ip(bytes: &[u8], at: usize) -> std::net::IpAddr {
    <[u8; 4]>::try_from(&bytes[at..at + 4]).unwrap().into()
}

/// Writes `new` and brings the checksums at `sums` up to date.
fn set(bytes: &mut [u8], at: usize, new: &[u8], sums: &[usize]) {
    let old = bytes[at..at + new.len()].to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    for sum in sums {
        let before = u16::from_be_bytes([bytes[*sum], bytes[sum + 1]]);
        let after = checksum::update(before, checksum::delta(&old, new));
        bytes[*sum..sum + 2].copy_from_slice(&after.to_be_bytes());
    }
}
