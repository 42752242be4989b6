//! ARP for IPv4 over Ethernet (RFC 826): asks, answers, announces.
use std::net::Ipv4Addr;

use crate::ethernet;
use crate::headers::{Headers, Net};
use crate::mac::Mac;
use crate::numbers::ethertype;
use crate::view::header;

header! {
    /// An ARP packet.
    28
    /// Hardware and protocol type and address lengths: [`ETHERNET_IPV4`].
    0..6 space set_space: [u8; 6];
    /// What the packet wants: [`REQUEST`] or [`REPLY`].
    6..2 operation set_operation: u16;
    /// The sender's Ethernet address.
    8..6 sender_mac set_sender_mac: Mac;
    /// The sender's address.
    14..4 sender set_sender: Ipv4Addr;
    /// The target's Ethernet address; without meaning in a request.
    18..6 target_mac set_target_mac: Mac;
    /// The target's address.
    24..4 target set_target: Ipv4Addr;
}

/// The operation of a request.
pub const REQUEST: u16 = 1;
/// The operation of an answer.
pub const REPLY: u16 = 2;
/// The length of the frames made here, without the padding to Ethernet's 60.
pub const FRAME_LEN: usize = ethernet::LEN + LEN;

/// Hardware type 1, protocol type 0x0800, lengths 6 and 4: the first six bytes.
pub const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// The values of an ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// What the packet wants: [`REQUEST`] or [`REPLY`].
    pub operation: u16,
    /// The sender's Ethernet address.
    pub sender_mac: Mac,
    /// The sender's address.
    pub sender: Ipv4Addr,
    /// The target's Ethernet address; without meaning in a request.
    pub target_mac: Mac,
    /// The target's address.
    pub target: Ipv4Addr,
}

impl Repr {
    /// The values of the ARP packet in `frame`. `None` if it isn't one for IPv4
    /// over Ethernet, is neither request nor answer, or if its sender has a
    /// group address (which nobody may learn, RFC 1812 section 3.3.2).
    #[must_use]
    pub fn parse(frame: &[u8], headers: &Headers) -> Option<Self> {
        if headers.net != Net::Arp {
            return None;
        }
        let (header, _) = Header::split(frame.get(usize::from(headers.l3)..)?).ok()?;
        let repr = Self {
            operation: header.operation(),
            sender_mac: header.sender_mac(),
            sender: header.sender(),
            target_mac: header.target_mac(),
            target: header.target(),
        };
        let known = header.space() == ETHERNET_IPV4
            && matches!(repr.operation, REQUEST | REPLY)
            && !repr.sender_mac.is_group()
            && !repr.sender.is_multicast()
            && !repr.sender.is_broadcast();
        known.then_some(repr)
    }

    /// The packet with these values.
    #[must_use]
    pub fn emit(&self) -> [u8; LEN] {
        let mut header = Header::new([0; LEN]);
        header.set_space(ETHERNET_IPV4);
        header.set_operation(self.operation);
        header.set_sender_mac(self.sender_mac);
        header.set_sender(self.sender);
        header.set_target_mac(self.target_mac);
        header.set_target(self.target);
        header.0
    }

    /// The packet in an Ethernet frame to `dst`.
    #[must_use]
    pub fn frame(&self, dst: Mac) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        let outer = ethernet::Repr { dst, src: self.sender_mac, kind: ethertype::ARP };
        frame[..ethernet::LEN].copy_from_slice(&outer.emit());
        frame[ethernet::LEN..].copy_from_slice(&self.emit());
        frame
    }
}

/// Asks who has `target`: everybody, or only `known`, to learn whether `known` still
/// has it (RFC 1122 section 2.3.2.1).
#[must_use]
pub fn request(
    mac: Mac,
    address: Ipv4Addr,
    target: Ipv4Addr,
    known: Option<Mac>,
) -> [u8; FRAME_LEN] {
    let (operation, target_mac) = (REQUEST, Mac::default());
    Repr { operation, sender_mac: mac, sender: address, target_mac, target }
        .frame(known.unwrap_or(Mac::BROADCAST))
}

/// Tells everybody that `address` is at `mac` (RFC 5227 section 2.3).
#[must_use]
pub fn announcement(mac: Mac, address: Ipv4Addr) -> [u8; FRAME_LEN] {
    request(mac, address, address, None)
}

/// Turns a request into the answer that its target is at `mac`. The caller has seen
/// that the target is its own. Returns `false` and changes nothing if the frame isn't
/// a proper request.
#[must_use]
pub fn reply_in_place(frame: &mut [u8], headers: &Headers, mac: Mac) -> bool {
    let Some(asked) = Repr::parse(frame, headers) else { return false };
    if asked.operation != REQUEST {
        return false;
    }
    let reply = Repr {
        operation: REPLY,
        sender_mac: mac,
        sender: asked.target,
        target_mac: asked.sender_mac,
        target: asked.sender,
    };
    let Some(packet) = frame.get_mut(usize::from(headers.l3)..) else { return false };
    let Some(packet) = packet.first_chunk_mut() else { return false };
    *packet = reply.emit();
    ethernet::set_macs(frame, asked.sender_mac, mac)
}
