//! Valid frames of every kind, and what breaks them: a seeded generator.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::icmp::{ErrorKind, MAX_ERROR_LEN, error_into};
use wire::{Headers, Mac, arp, checksum, icmpv6, ndp};

/// SplitMix64: fast, seeded, good enough to break frames.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`, which is above 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

fn ends(v4: bool) -> (SocketAddr, SocketAddr) {
    let (src, dst): (IpAddr, IpAddr) = if v4 {
        (Ipv4Addr::new(192, 0, 2, 7).into(), Ipv4Addr::new(198, 51, 100, 1).into())
    } else {
        let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
        (address(7).into(), address(0x100).into())
    };
    (SocketAddr::new(src, 40000), SocketAddr::new(dst, 443))
}

/// Valid frames of every kind.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mac = Mac([2, 0, 0, 0, 0, 7]);
    for v4 in [true, false] {
        let (icmp, header) = if v4 { (1, (1, 1)) } else { (58, (60, 1)) };
        for tag in [None, Some(5)] {
            for proto in [6, 17, icmp] {
                for (options, fragment, padding) in [
                    (vec![], None, 0),
                    (vec![], None, 6),
                    (vec![header; 2], None, 0),
                    (vec![header; 8], None, 0),
                    (vec![], Some((77, 0, true)), 0),
                    (vec![], Some((77, 0, false)), 0),
                    (vec![], Some((77, 8, true)), 0),
                    (vec![header], Some((77, 16, false)), 0),
                ] {
                    let later = fragment.is_some_and(|(_, offset, _)| offset > 0);
                    let base = super::spec::Spec {
                        tag,
                        ends: ends(v4),
                        options,
                        fragment,
                        ttl: 2,
                        proto,
                        flags: 0x18,
                        bare: false,
                        payload: vec![0x5a; if proto == 6 && !later { 28 } else { 40 }],
                        padding,
                    };
                    let mut frame = base.build();
                    fix(&mut frame);
                    frames.push(frame);
                }
            }
        }
    }
    let errors: Vec<_> = frames.iter().flat_map(|frame| errors(frame)).collect();
    frames.extend(errors);
    let (target, us) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 7));
    frames.push(arp::request(mac, us, target, None).to_vec());
    frames.push(arp::request(mac, us, target, Some(mac)).to_vec());
    let (target, us) = (Ipv6Addr::LOCALHOST, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7));
    frames.push(ndp::solicit(mac, us, target, None).to_vec());
    frames.push(ndp::solicit(mac, us, target, Some(mac)).to_vec());
    frames.push(ndp::announcement(mac, us, true).to_vec());
    frames.push([&[2; 12][..], &[0x88, 0xcc], &[3; 40]].concat());
    frames.push([&[2; 12][..], &[0x81, 0, 0, 1, 0x81, 0, 0, 2, 8, 0], &[3; 40]].concat());
    frames
}

/// Errors about `frame`, whole and with a short quote.
fn errors(frame: &[u8]) -> Vec<Vec<u8>> {
    let headers = Headers::parse(frame).unwrap();
    let from = match headers.src_addr(frame) {
        Some(IpAddr::V4(_)) => Ipv4Addr::new(203, 0, 113, 1).into(),
        _ => Ipv6Addr::LOCALHOST.into(),
    };
    let mut found = Vec::new();
    for kind in [ErrorKind::TimeExceeded, ErrorKind::TooBig { mtu: 1400 }] {
        let mut buf = [0; MAX_ERROR_LEN];
        let Some(len) = error_into(&mut buf, frame, &headers, kind, from) else { continue };
        let error = &buf[..len];
        let mut short = error[..len.min(usize::from(headers.l3) + 28 + 28)].to_vec();
        found.push(error.to_vec());
        fix(&mut short);
        found.push(short);
    }
    found
}

/// Makes lengths and checksums of an IP frame right where they exist, so that
/// a broken frame passes the checks in front.
pub(crate) fn fix(frame: &mut [u8]) {
    let tagged = frame.get(12..14) == Some(&[0x81, 0][..]);
    let l3 = if tagged { 18 } else { 14 };
    let len = frame.len();
    let Some(version) = frame.get(l3).map(|byte| byte >> 4) else { return };
    if Headers::parse(frame).is_err() {
        if version == 4 && len >= l3 + 20 {
            frame[l3 + 2..l3 + 4].copy_from_slice(&((len - l3) as u16).to_be_bytes());
        } else if version == 6 && len >= l3 + 40 {
            frame[l3 + 4..l3 + 6].copy_from_slice(&((len - l3 - 40) as u16).to_be_bytes());
        }
    }
    let Ok(headers) = Headers::parse(frame) else { return };
    let (_, l4, end) = super::checks::offsets(&headers);
    if version == 4 && headers.net == wire::Net::Ipv4 {
        put_sum(frame, l3..l4, l3 + 10, 0);
    }
    if headers.fragment != wire::Fragment::Whole || headers.src_addr(frame).is_none() {
        return;
    }
    let pseudo = super::checks::pseudo(frame, &headers);
    match headers.proto {
        6 => put_sum(frame, l4..end, l4 + 16, pseudo),
        17 => put_sum(frame, l4..end, l4 + 6, pseudo),
        1 => put_sum(frame, l4..end, l4 + 2, 0),
        58 => put_sum(frame, l4..end, l4 + 2, pseudo),
        _ => {}
    }
}

fn put_sum(frame: &mut [u8], covered: std::ops::Range<usize>, at: usize, pseudo: u32) {
    if at + 2 <= covered.end {
        frame[at..at + 2].fill(0);
        let sum = checksum::of(&frame[covered], pseudo);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Interesting bytes.
const BYTES: [u8; 18] =
    [0, 1, 2, 4, 5, 6, 17, 43, 44, 51, 58, 60, 0x45, 0x60, 0x7f, 131, 137, 0xff];

/// Writes a broken version of a frame out of `frames` to `out`.
pub(crate) fn malform(dice: &mut Dice, frames: &[Vec<u8>], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&frames[dice.below(frames.len())]);
    for _ in 0..=dice.below(3) {
        let len = out.len();
        if len == 0 {
            return;
        }
        // Most of what matters is in front.
        let at = if dice.below(4) == 0 { dice.below(len) } else { dice.below(len.min(62)) };
        match dice.below(9) {
            0 => out.truncate(at),
            1 | 2 => out[at] ^= 1 << dice.below(8),
            3 | 4 => out[at] = BYTES[dice.below(BYTES.len())],
            5 if at + 2 <= len => {
                let near = (len as u64).wrapping_add(dice.next() % 64).wrapping_sub(62) as u16;
                let value = [0, 1, 8, 0xffff, near, near][dice.below(6)];
                out[at..at + 2].copy_from_slice(&value.to_be_bytes());
            }
            6 => {
                let other = &frames[dice.below(frames.len())];
                out.truncate(at);
                out.extend_from_slice(&other[at.min(other.len())..]);
            }
            7 => {
                for byte in &mut out[at..len.min(at + 8)] {
                    *byte = dice.next() as u8;
                }
            }
            _ => out.resize(len + dice.below(12), dice.next() as u8),
        }
    }
    if dice.below(3) == 0 {
        fix(out);
    }
    if dice.below(64) == 0 {
        // An NDP message with broken options but a right checksum.
        let at = out.len().saturating_sub(8);
        if out.get(20) == Some(&58) && out.get(54) == Some(&icmpv6::kind::NEIGHBOUR_SOLICITATION) {
            out[at] = BYTES[dice.below(4)];
            out[at + 1] = BYTES[dice.below(4)];
            fix(out);
        }
    }
}
