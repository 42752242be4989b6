//! From a question to the frame that comes in.
use std::net::{IpAddr, SocketAddr};

use control::{FlowProbe, FrameProbe, Probe};
use etherparse::err::packet::BuildWriteError;
use etherparse::{
    IpHeaders, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6Header, PacketBuilder, VlanId,
};
use flow::{PortId, Transport};
use state::Shared;
use wire::{FlowKey, Mac};

/// Bytes of the longest frame.
const LONGEST: usize = 65_550;
/// The Ethernet address of a sender that is not known.
const SENDER: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The TTL or hop limit of a packet that is made.
const TTL: u8 = 64;

/// Why there is no frame to a question.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum QuestionError {
    /// The endpoints' families differ.
    #[error("source {0} and destination {1} are not of one family")]
    Families(SocketAddr, SocketAddr),
    /// No interface leads to the sender.
    #[error("no interface leads to {0}: a packet from there can't come in")]
    Unreachable(IpAddr),
    /// A letter that is no control bit.
    #[error("'{0}' is no TCP control bit; the letters are S, A, F, R and P")]
    Flag(char),
    /// Flags of UDP.
    #[error("UDP has no control bits")]
    NoFlags,
    /// The frame is no hexadecimal.
    #[error("the frame: {0}")]
    Hex(#[from] hex::FromHexError),
    /// The frame is too long.
    #[error("a frame of {0} bytes is longer than 65550 bytes")]
    TooLong(usize),
    /// There is no such port.
    #[error("there is no port '{name}'; there are {known}")]
    NoPort {
        /// What was asked for.
        name: String,
        /// The ports that there are.
        known: String,
    },
    /// The packet can't be made.
    #[error("the packet can't be made: {0}")]
    Build(String),
}

/// The port on which the packet of `probe` comes in, and its frame. `names` are those
/// of the ports.
///
/// # Errors
/// What is wrong with the question.
pub fn arrival(
    probe: &Probe,
    shared: &Shared,
    names: &[&str],
) -> Result<(PortId, Vec<u8>), QuestionError> {
    match probe {
        Probe::Flow(flow) => of_flow(flow, shared),
        Probe::Frame(frame) => of_frame(frame, names),
    }
}

fn of_frame(probe: &FrameProbe, names: &[&str]) -> Result<(PortId, Vec<u8>), QuestionError> {
    let FrameProbe { port, frame } = probe;
    let port = match port {
        None => 0,
        Some(name) => names
            .iter()
            .position(|own| own == name)
            .ok_or_else(|| QuestionError::NoPort { name: name.clone(), known: names.join(", ") })?,
    };
    let frame = hex::decode(frame)?;
    match frame.len() {
        len if len > LONGEST => Err(QuestionError::TooLong(len)),
        _ => Ok((PortId(u16::try_from(port).unwrap_or(u16::MAX)), frame)),
    }
}

fn of_flow(probe: &FlowProbe, shared: &Shared) -> Result<(PortId, Vec<u8>), QuestionError> {
    let FlowProbe { protocol, source, destination, flags } = probe;
    let flow = FlowKey::new(*protocol, *source, *destination)
        .ok_or(QuestionError::Families(*source, *destination))?;
    let snapshot = shared.snapshot();
    let unreachable = || QuestionError::Unreachable(source.ip());
    let (id, next) = snapshot.routes.next(source.ip()).ok_or_else(unreachable)?;
    let interface = snapshot.interfaces.get(id).ok_or_else(unreachable)?;
    let hop = shared.neighbours().find(id, next).and_then(|hop| shared.neighbours().get(hop));
    let sender = hop.and_then(|hop| hop.mac).unwrap_or(SENDER);
    let packet = PacketBuilder::ethernet2(sender.0, interface.mac.0);
    let ip = ip_headers(&flow);
    let ip = match interface.vlan.and_then(|id| VlanId::try_new(id).ok()) {
        None => packet.ip(ip),
        Some(vlan) => packet.single_vlan(vlan).ip(ip),
    };
    let build = |error: BuildWriteError| QuestionError::Build(error.to_string());
    let mut frame = Vec::new();
    match protocol {
        Transport::Udp if flags.is_some() => return Err(QuestionError::NoFlags),
        Transport::Udp => {
            ip.udp(source.port(), destination.port()).write(&mut frame, &[]).map_err(build)?;
        }
        Transport::Tcp => {
            let is_known = shared.table().lookup(&flow).is_some();
            let flags = flags.as_deref().unwrap_or(if is_known { "A" } else { "S" });
            let mut tcp = ip.tcp(source.port(), destination.port(), 1, u16::MAX);
            for letter in flags.chars() {
                tcp = match letter.to_ascii_uppercase() {
                    'S' => tcp.syn(),
                    'A' => tcp.ack(1),
                    'F' => tcp.fin(),
                    'R' => tcp.rst(),
                    'P' => tcp.psh(),
                    _ => return Err(QuestionError::Flag(letter)),
                };
            }
            tcp.write(&mut frame, &[]).map_err(build)?;
        }
    }
    Ok((interface.port, frame))
}

/// Headers without lengths and checksums, which the builder fills in.
fn ip_headers(flow: &FlowKey) -> IpHeaders {
    match (flow.src().ip(), flow.dst().ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => IpHeaders::Ipv4(
            Ipv4Header {
                time_to_live: TTL,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv4Header::default()
            },
            Ipv4Extensions::default(),
        ),
        (source, destination) => IpHeaders::Ipv6(
            Ipv6Header {
                hop_limit: TTL,
                source: v6(source),
                destination: v6(destination),
                ..Ipv6Header::default()
            },
            Ipv6Extensions::default(),
        ),
    }
}

const fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
