//! What congestion control reads of a TCP segment, and segments that are cut in two.
use smoltcp::wire::{
    IpAddress, IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpOption, TcpPacket, TcpSeqNumber,
};

/// The shortest TCP header.
pub(crate) const TCP_HEADER: usize = 20;

/// What is read of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) sequence: u32,
    /// Bytes of data.
    pub(crate) data: u32,
    pub(crate) acknowledged: Option<u32>,
    /// The window as it is in the header.
    pub(crate) window: u16,
    pub(crate) opens: bool,
    pub(crate) ends: bool,
    pub(crate) resets: bool,
    /// The most data in a segment that the sender takes, as it says with its SYN.
    pub(crate) most_data: Option<u16>,
    /// What has come out of order (RFC 2018), each from its first number to that behind its
    /// last.
    pub(crate) selected: [Option<(u32, u32)>; 3],
}

impl Outline {
    /// The outline of the segment in an IP packet; `None`: there is none.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let at = start(packet)?;
        let tcp = TcpPacket::new_checked(packet.get(at..)?).ok()?;
        let mut outline = Self {
            sequence: number(tcp.seq_number().0),
            data: u32::try_from(tcp.payload().len()).ok()?,
            acknowledged: tcp.ack().then(|| number(tcp.ack_number().0)),
            window: tcp.window_len(),
            opens: tcp.syn(),
            ends: tcp.fin(),
            resets: tcp.rst(),
            ..Self::default()
        };
        let mut options = tcp.options();
        while let Ok((rest, option)) = TcpOption::parse(options) {
            match option {
                TcpOption::MaxSegmentSize(most) => outline.most_data = Some(most),
                TcpOption::SackRange(ranges) => outline.selected = ranges,
                _ => {}
            }
            options = rest;
        }
        Some(outline)
    }
}

/// A number of smoltcp's, which are signed.
const fn number(of: i32) -> u32 {
    of as u32
}

/// Where TCP begins in a packet.
fn start(packet: &[u8]) -> Option<usize> {
    match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            (ip.next_header() == IpProtocol::Tcp).then(|| usize::from(ip.header_len()))
        }
        IpVersion::Ipv6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            (ip.next_header() == IpProtocol::Tcp).then(|| ip.header_len())
        }
    }
}

/// Bytes of headers in front of the data of a packet; `None`: it is no segment.
pub(crate) fn headers(packet: &[u8]) -> Option<usize> {
    let at = start(packet)?;
    let tcp = TcpPacket::new_checked(packet.get(at..)?).ok()?;
    Some(at + usize::from(tcp.header_len()))
}

/// Cuts a segment of ours that is longer than `most` bytes with its IP header: its front
/// stays, and its rest is returned, which may be too long as well. `None`: it is short
/// enough, or not to be cut.
pub(crate) fn cut(packet: &mut Vec<u8>, most: usize) -> Option<Vec<u8>> {
    let (at, data) = (start(packet)?, headers(packet)?);
    if packet.len() <= most || most <= data {
        return None;
    }
    let taken = most - data;
    let mut rest = packet.get(..data)?.to_vec();
    rest.extend_from_slice(packet.get(most..)?);
    packet.truncate(most);
    {
        let mut front = TcpPacket::new_unchecked(packet.get_mut(at..)?);
        front.set_psh(false);
        front.set_fin(false);
    }
    {
        let mut behind = TcpPacket::new_unchecked(rest.get_mut(at..)?);
        let next = behind.seq_number() + taken;
        behind.set_seq_number(next);
    }
    seal(packet, at)?;
    seal(&mut rest, at)?;
    Some(rest)
}

/// Changes the number of a segment of ours.
pub(crate) fn renumber(packet: &mut [u8], sequence: u32) -> Option<()> {
    let at = start(packet)?;
    let number = TcpSeqNumber(sequence as i32);
    TcpPacket::new_unchecked(packet.get_mut(at..)?).set_seq_number(number);
    seal(packet, at)
}

/// A bare acknowledgement such as the sender of `packet` would send: up to `acknowledged`, with
/// the number `sequence` and this window.
pub(crate) fn acknowledgement(
    packet: &[u8],
    [sequence, acknowledged]: [u32; 2],
    window: u16,
) -> Option<Vec<u8>> {
    let at = start(packet)?;
    let mut made = packet.get(..at + TCP_HEADER)?.to_vec();
    {
        let mut tcp = TcpPacket::new_unchecked(made.get_mut(at..)?);
        tcp.clear_flags();
        tcp.set_ack(true);
        tcp.set_header_len(TCP_HEADER as u8);
        tcp.set_seq_number(TcpSeqNumber(sequence as i32));
        tcp.set_ack_number(TcpSeqNumber(acknowledged as i32));
        tcp.set_window_len(window);
        tcp.set_urgent_at(0);
    }
    seal(&mut made, at)?;
    Some(made)
}

/// From where to where a packet goes.
fn addresses(packet: &[u8]) -> Option<(IpAddress, IpAddress)> {
    match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let ip = Ipv4Packet::new_unchecked(packet);
            Some((ip.src_addr().into(), ip.dst_addr().into()))
        }
        IpVersion::Ipv6 => {
            let ip = Ipv6Packet::new_unchecked(packet);
            Some((ip.src_addr().into(), ip.dst_addr().into()))
        }
    }
}

/// Makes lengths and checksums right.
fn seal(packet: &mut [u8], at: usize) -> Option<()> {
    let length = u16::try_from(packet.len()).ok()?;
    match IpVersion::of_packet(packet).ok()? {
        IpVersion::Ipv4 => {
            let mut ip = Ipv4Packet::new_unchecked(&mut *packet);
            ip.set_total_len(length);
            ip.fill_checksum();
        }
        IpVersion::Ipv6 => {
            let mut ip = Ipv6Packet::new_unchecked(&mut *packet);
            ip.set_payload_len(length.checked_sub(u16::try_from(at).ok()?)?);
        }
    }
    let (from, to) = addresses(packet)?;
    TcpPacket::new_unchecked(packet.get_mut(at..)?).fill_checksum(&from, &to);
    Some(())
}
