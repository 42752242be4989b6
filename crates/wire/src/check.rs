//! Checks that forwarding leaves out, and that opening, ending and answering need.
//!
//! A packet of a known connection is sent on with the checksums, lengths and
//! control bits that it came with: its receiver checks them anyway. A packet that
//! would open or end a connection, or be answered, is checked here first, as its
//! receiver does.
use crate::bytes::{array, be16};
use crate::checksum;
use crate::headers::{Fragment, Headers, Net, TcpFlags};
use crate::malformed::Malformed;
use crate::numbers::protocol;

impl Headers {
    /// Checks what [`Self::parse`] leaves out: the IPv4 header checksum, unless the
    /// NIC has verified it (`verified`), the UDP length, and the TCP data offset and
    /// control bits. `frame` is the one that was parsed.
    ///
    /// # Errors
    /// The [`Malformed`] that is wrong first.
    pub fn check(&self, frame: &[u8], verified: bool) -> Result<(), Malformed> {
        let header = frame.get(self.l3.into()..self.l4.into()).unwrap_or_default();
        if self.net == Net::Ipv4
            && !verified
            && checksum::fold(checksum::sum(header, 0)) != u16::MAX
        {
            return Err(Malformed::BadHeaderChecksum);
        }
        if matches!(self.fragment, Fragment::Later(_)) {
            return Ok(());
        }
        let l4 = usize::from(self.l4);
        let there = usize::from(self.end.saturating_sub(self.l4));
        match self.proto {
            protocol::UDP => {
                let length = usize::from(be16(frame, l4 + 4).unwrap_or_default());
                // The length of a first fragment is that of the whole datagram.
                let fits = length <= there || self.fragment != Fragment::Whole;
                if length < 8 || !fits { Err(Malformed::BadUdpLength) } else { Ok(()) }
            }
            protocol::TCP => {
                let [offset] = array(frame, l4 + 12).unwrap_or_default();
                let length = usize::from(offset >> 4) * 4;
                if length < 20 || length > there {
                    Err(Malformed::BadDataOffset)
                } else if self.tcp_flags.are_possible() {
                    Ok(())
                } else {
                    Err(Malformed::BadTcpFlags)
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether the checksum of a whole TCP, UDP, ICMP or ICMPv6 packet is right, or
    /// absent where it may be (UDP over IPv4).
    #[must_use]
    pub fn transport_checksum_is_right(&self, frame: &[u8]) -> bool {
        let message = frame.get(self.l4.into()..self.end.into()).unwrap_or_default();
        let ends = (self.src_addr(frame), self.dst_addr(frame));
        let initial = match (self.net, self.proto, ends) {
            (Net::Ipv4, protocol::ICMP, _) => Some(0),
            (Net::Ipv4, protocol::UDP, _) if be16(message, 6) == Some(0) => return true,
            (_, proto, (Some(src), Some(dst))) => {
                checksum::pseudo(src, dst, proto, self.end.saturating_sub(self.l4))
            }
            _ => None,
        };
        initial.is_some_and(|sum| checksum::fold(checksum::sum(message, sum)) == u16::MAX)
    }
}

impl TcpFlags {
    /// Whether some segment has these control bits (RFC 9293 section 3.10.7): at
    /// most one of SYN, FIN and RST, and without them ACK.
    #[must_use]
    pub const fn are_possible(self) -> bool {
        let alone = self.0 & (Self::SYN | Self::FIN | Self::RST);
        alone.count_ones() == 1 || (alone == 0 && self.any(Self::ACK))
    }
}
