//! Routes by rtnetlink (rtnetlink(7)).
use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::bird::ROUTE_PROTOCOL;

/// A socket to the kernel's routing tables.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// A socket of its own.
    ///
    /// # Errors
    /// The system gives none.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Adds the route to `vip` over the interface `index` to `table`, or puts it in the
    /// place of the one that is there.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn add_route(&mut self, vip: IpAddr, index: u32, table: u32) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route(vip, index, table));
        self.ask(message, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes that route. One that is gone is no error.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn remove_route(&mut self, vip: IpAddr, index: u32, table: u32) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRoute(route(vip, index, table));
        match self.ask(message, 0) {
            Err(error) if is_gone(&error) => Ok(()),
            done => done,
        }
    }

    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        packet.header.sequence_number = self.sequence;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        self.acknowledged()
    }

    /// Waits for the answer to the last request, which the kernel gives at once.
    fn acknowledged(&self) -> io::Result<()> {
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            if let NetlinkPayload::Error(error) = answer.payload {
                return if error.code.is_none() { Ok(()) } else { Err(error.to_io()) };
            }
        }
    }
}

/// ESRCH: there is no such route; ENODEV: the interface is gone, and its routes with it.
fn is_gone(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let code = error.raw_os_error();
    [Errno::ESRCH, Errno::ENODEV].into_iter().any(|own| code == Some(own as i32))
}

fn route(vip: IpAddr, index: u32, table: u32) -> RouteMessage {
    let (address_family, length) = match vip {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family,
        destination_prefix_length: length,
        // Numbers beyond a byte are in the attribute only.
        table: u8::try_from(table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC),
        protocol: RouteProtocol::Other(ROUTE_PROTOCOL),
        scope: if vip.is_ipv4() { RouteScope::Link } else { RouteScope::Universe },
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::from(vip)),
        RouteAttribute::Oif(index),
        RouteAttribute::Table(table),
    ];
    message
}
