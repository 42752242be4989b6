//! A host with smoltcp's TCP.
use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Address};

/// Packets to and from a host.
#[derive(Default)]
pub(crate) struct Queues {
    pub(crate) incoming: VecDeque<Vec<u8>>,
    pub(crate) outgoing: VecDeque<Vec<u8>>,
    mtu: usize,
}

pub(crate) struct Received(Vec<u8>);
pub(crate) struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut packet = vec![0; len];
        let result = write(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let packet = self.incoming.pop_front()?;
        Some((Received(packet), Sending(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// A host with one socket.
pub(crate) struct Host {
    pub(crate) queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl Host {
    pub(crate) fn new(address: [u8; 4], mss: usize, buffer: usize, seed: u64) -> Self {
        let mut queues = Queues { mtu: mss + 40, ..Queues::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, Instant::from_millis(0));
        let address = Ipv4Address::from(address);
        interface.update_ip_addrs(|own| {
            own.push(IpCidr::new(IpAddress::Ipv4(address), 0)).unwrap();
        });
        let memory = || SocketBuffer::new(vec![0; buffer]);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(Socket::new(memory(), memory()));
        Self { queues, interface, sockets, socket }
    }

    pub(crate) fn poll(&mut self, now: u64) {
        self.interface.poll(Instant::from_millis(now as i64), &mut self.queues, &mut self.sockets);
    }

    pub(crate) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }

    pub(crate) fn connect(&mut self, to: ([u8; 4], u16), port: u16) {
        let (address, at) = to;
        let remote = (IpAddress::Ipv4(Ipv4Address::from(address)), at);
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        socket.connect(self.interface.context(), remote, port).unwrap();
    }
}
