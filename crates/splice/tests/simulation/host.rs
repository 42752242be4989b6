//! A host with smoltcp's TCP.
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::Ipv4Addr;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Address};
use wire::checksum;

use crate::paws::Paws;

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

thread_local! {
    /// The time of the simulation, for the hosts' clocks.
    static NOW_MS: Cell<u32> = const { Cell::new(0) };
}

/// The clocks of two hosts that started at different times; that of a server soon wraps.
pub(crate) const CLIENT_CLOCK: fn() -> u32 = || NOW_MS.get().wrapping_add(77);
pub(crate) const SERVER_CLOCK: fn() -> u32 = || NOW_MS.get().wrapping_sub(50);

/// What the interfaces take: smoltcp does not take the timestamps' bytes off its segments
/// (RFC 6691), and drops what its interface has no room for. So segments are limited by
/// the MSS that SYNs name.
const MTU: usize = 2_000;

/// How often a silent host asks whether the other one is there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Lowers the MSS that a SYN names.
fn less_mss(ip: &mut [u8], by: u16) {
    // smoltcp and the agent write the MSS first.
    let [flags, kind] = [ip[33], *ip.get(40).unwrap_or(&0)];
    if flags & 2 == 0 || kind != 2 {
        return;
    }
    let old = [ip[42], ip[43]];
    let new = (u16::from_be_bytes(old) - by).to_be_bytes();
    ip[42..44].copy_from_slice(&new);
    let sum = u16::from_be_bytes([ip[36], ip[37]]);
    let sum = checksum::update(sum, checksum::delta(&old, &new));
    ip[36..38].copy_from_slice(&sum.to_be_bytes());
}

const FIN: u8 = 1;

/// Makes of a keep-alive at the place of the host's FIN that FIN again. smoltcp 0.12 asks
/// by a byte before its last number, which its FIN has taken: the byte would be data.
fn repeat_fin(ip: &mut Vec<u8>, ended: &mut Option<u32>) {
    let word = |ip: &[u8], at: usize| u32::from_be_bytes(ip[at..at + 4].try_into().unwrap());
    let data = 20 + usize::from(ip[32] >> 4) * 4;
    let sequence = word(ip, 24);
    if ip[33] & FIN != 0 {
        *ended = Some(sequence.wrapping_add((ip.len() - data) as u32));
    } else if ip[33] & 2 != 0 {
        *ended = None;
    } else if *ended == Some(sequence) && ip.len() == data + 1 {
        ip.truncate(data);
        ip[33] |= FIN;
        let length = (data as u16).to_be_bytes();
        ip[2..4].copy_from_slice(&length);
        ip[10..12].fill(0);
        let sum = checksum::of(&ip[..20], 0).to_be_bytes();
        ip[10..12].copy_from_slice(&sum);
        ip[36..38].fill(0);
        let [from, to] = [12, 16].map(|at| Ipv4Addr::from(word(ip, at)).into());
        let pseudo = checksum::pseudo(from, to, 6, (data - 20) as u16).unwrap();
        let sum = checksum::of(&ip[20..], pseudo).to_be_bytes();
        ip[36..38].copy_from_slice(&sum);
    }
}

/// A host with one socket.
pub(crate) struct Host {
    pub(crate) queues: Queues,
    pub(crate) paws: Paws,
    clocked: bool,
    mss: usize,
    /// Where the host's FIN stands, if it has sent one.
    ended: Option<u32>,
    /// The window field of the last segment that the host got.
    pub(crate) told: Option<u16>,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
}

impl Host {
    pub(crate) fn new(
        address: [u8; 4],
        mss: usize,
        buffer: usize,
        clock: Option<fn() -> u32>,
        seed: u64,
    ) -> Self {
        let mut queues = Queues { mtu: MTU, ..Queues::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, Instant::from_millis(0));
        let address = Ipv4Address::from(address);
        interface.update_ip_addrs(|own| {
            own.push(IpCidr::new(IpAddress::Ipv4(address), 0)).unwrap();
        });
        let memory = || SocketBuffer::new(vec![0; buffer]);
        let mut sockets = SocketSet::new(Vec::new());
        let mut socket = Socket::new(memory(), memory());
        socket.set_tsval_generator(clock);
        // smoltcp 0.12 has no persist timer (RFC 9293 section 3.8.6.1): a host that was told
        // of a window of 0, and not of its opening, which got lost or was overtaken, would
        // wait for ever. A keep-alive asks for the window, too.
        socket.set_keep_alive(Some(KEEP_ALIVE));
        let socket = sockets.add(socket);
        Self {
            queues,
            paws: Paws::default(),
            clocked: clock.is_some(),
            mss,
            ended: None,
            told: None,
            interface,
            sockets,
            socket,
        }
    }

    pub(crate) fn poll(&mut self, now: u64) {
        NOW_MS.set(now as u32);
        self.interface.poll(Instant::from_millis(now as i64), &mut self.queues, &mut self.sockets);
    }

    /// Takes what the host sends.
    pub(crate) fn send(&mut self) -> Option<Vec<u8>> {
        let mut packet = self.queues.outgoing.pop_front()?;
        less_mss(&mut packet, (MTU - 40 - self.mss) as u16);
        repeat_fin(&mut packet, &mut self.ended);
        self.paws.outgoing(&packet);
        Some(packet)
    }

    /// Gives the host a packet, if it may have it.
    pub(crate) fn take(&mut self, mut packet: Vec<u8>) -> Result<(), String> {
        if self.clocked {
            less_mss(&mut packet, 12);
        }
        if self.paws.incoming(&packet)? {
            self.told = packet.get(34..36).map(|field| u16::from_be_bytes([field[0], field[1]]));
            self.queues.incoming.push_back(packet);
        }
        Ok(())
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
