//! An end point of smoltcp's: one interface with one socket for each connection, so that
//! a packet finds its socket by a hash and not by a walk over all of them.
use std::collections::VecDeque;
use std::net::SocketAddr;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use crate::endpoint::{Endpoint, Stage};
use crate::outline::TCP_HEADER;
use crate::sender::Sender;
use crate::sockets::Sockets;

/// How often a peer that says nothing is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long a peer may leave data, or a keep-alive, without an acknowledgement. Each loss
/// doubles smoltcp's retransmission timeout, up to a minute, and only a new measurement of
/// the round trip lowers it (RFC 6298 section 5): a shorter limit would end connections over
/// links that lose a few packets in a hundred.
const GIVE_UP: Duration = Duration::from_secs(300);

/// Bytes that are taken for the peer beyond those that may be under way: a whole record, so
/// that records are not cut short by the window.
const AHEAD: usize = 16 * 1024 + 64;

/// Bytes that a connection may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Received and not consumed.
    pub receive: usize,
    /// Written and not acknowledged.
    pub send: usize,
}

impl Buffers {
    pub(crate) const fn bytes(self) -> usize {
        self.receive.saturating_add(self.send)
    }
}

/// A connection on smoltcp.
pub struct Stack {
    queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    /// Where the socket comes from, and its buffers' lengths.
    from: (Sockets, Buffers),
    sender: Sender,
    /// Packets that leave now.
    ready: VecDeque<Vec<u8>>,
    /// Whether something happened since the last poll.
    touched: bool,
    /// When the next is due without that.
    due: Option<u64>,
    /// Bytes of headers in front of data.
    headers: usize,
    /// Bytes in front of all others, which wait for the handshake.
    front: Vec<u8>,
    closing: bool,
    /// Whether the handshake has been complete once.
    opened: bool,
    /// Whether the peer has ended its direction in order.
    finished: bool,
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stack({:?}, {:?})", self.socket().state(), self.sender)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let (sockets, buffers) = &self.from;
        let smoltcp::socket::Socket::Tcp(mut socket) = self.sockets.remove(self.socket);
        // What it is used for next, it has not been yet.
        socket.abort();
        sockets.give(*buffers, socket);
    }
}

impl Stack {
    /// A connection that waits for its peer's SYN to `local`. `seed` chooses the sequence
    /// numbers, and `mtu` is the longest packet.
    #[must_use]
    pub fn listen(local: SocketAddr, buffers: Buffers, mtu: usize, seed: u64) -> Option<Self> {
        Self::listen_with(&Sockets::default(), local, buffers, mtu, seed)
    }

    /// The same with a socket of `sockets`.
    pub(crate) fn listen_with(
        sockets: &Sockets,
        local: SocketAddr,
        buffers: Buffers,
        mtu: usize,
        seed: u64,
    ) -> Option<Self> {
        let mut stack = Self::new(sockets, local, buffers, mtu, seed)?;
        stack.socket_mut().listen((local.ip(), local.port())).ok()?;
        Some(stack)
    }

    /// A connection from `local` to `remote`, whose SYN leaves at the first poll.
    #[must_use]
    pub fn connect(
        [local, remote]: [SocketAddr; 2],
        buffers: Buffers,
        mtu: usize,
        seed: u64,
    ) -> Option<Self> {
        Self::connect_with(&Sockets::default(), [local, remote], buffers, mtu, seed)
    }

    /// The same with a socket of `sockets`.
    pub(crate) fn connect_with(
        from: &Sockets,
        [local, remote]: [SocketAddr; 2],
        buffers: Buffers,
        mtu: usize,
        seed: u64,
    ) -> Option<Self> {
        let mut stack = Self::new(from, local, buffers, mtu, seed)?;
        let Self { interface, sockets, socket, .. } = &mut stack;
        let socket = sockets.get_mut::<Socket<'_>>(*socket);
        let (to, from) = ((remote.ip(), remote.port()), (local.ip(), local.port()));
        socket.connect(interface.context(), to, from).ok()?;
        Some(stack)
    }

    fn new(
        from: &Sockets,
        local: SocketAddr,
        buffers: Buffers,
        mtu: usize,
        seed: u64,
    ) -> Option<Self> {
        let headers = TCP_HEADER + if local.is_ipv4() { 20 } else { 40 };
        let mut queues = Queues { mtu, ..Queues::default() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, Instant::from_millis(0));
        // With no bit of a prefix, every peer is on the link: whoever takes the packets
        // knows the way.
        interface.update_ip_addrs(|own| {
            // There is room for two.
            let _ = own.push(IpCidr::new(IpAddress::from(local.ip()), 0));
        });
        let mut socket = from.take(buffers);
        socket.set_nagle_enabled(false);
        socket.set_keep_alive(Some(KEEP_ALIVE));
        socket.set_timeout(Some(GIVE_UP));
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let socket = sockets.add(socket);
        Some(Self {
            queues,
            interface,
            sockets,
            socket,
            from: (from.clone(), buffers),
            sender: Sender::new(mtu, headers),
            ready: VecDeque::new(),
            touched: true,
            due: None,
            headers,
            front: Vec::new(),
            closing: false,
            opened: false,
            finished: false,
        })
    }

    /// Sends `front` before all else, as soon as the handshake is complete.
    pub(crate) fn begin_with(&mut self, front: &[u8]) {
        self.front = front.to_vec();
    }

    /// The path to the peer takes no packets longer than `longest`, as is said of the one with
    /// the number `sequence` (RFC 1191, RFC 8201). `false`: there is no such packet.
    pub(crate) fn shorten(&mut self, longest: usize, sequence: u32) -> bool {
        let is_known = self.sender.has_under_way(sequence);
        if is_known {
            self.sender.shorten(longest, self.headers);
        }
        is_known
    }

    /// Whether the handshake has been complete.
    pub(crate) const fn has_opened(&self) -> bool {
        self.opened
    }

    /// Lets smoltcp do what is due, and sends what the path can take.
    fn run(&mut self, now_ms: u64) {
        let Self { queues, interface, sockets, sender, ready, .. } = self;
        for packet in &queues.incoming {
            sender.read(packet, now_ms);
        }
        queues.incoming.extend(sender.ask(now_ms).into_iter().flatten());
        interface.poll(instant(now_ms), queues, sockets);
        for packet in queues.outgoing.drain(..) {
            sender.take(packet, ready);
        }
        sender.send(now_ms, ready);
    }

    fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.socket)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.socket)
    }
}

/// The answer to a packet of no connection at `local`: a reset that its sender believes.
pub(crate) fn refusal(local: SocketAddr, packet: Vec<u8>) -> Option<Vec<u8>> {
    let (none, mtu) = (Buffers { receive: 0, send: 0 }, usize::from(u16::MAX));
    let mut stack = Stack::new(&Sockets::default(), local, none, mtu, 0)?;
    stack.take(packet);
    stack.poll(0);
    stack.outgoing()
}

impl Endpoint for Stack {
    fn take(&mut self, packet: Vec<u8>) {
        self.queues.incoming.push_back(packet);
        self.touched = true;
    }

    fn poll(&mut self, now_ms: u64) {
        if !self.touched && self.due.is_none_or(|due_ms| now_ms < due_ms) {
            return;
        }
        self.run(now_ms);
        let closing = self.closing;
        let socket = self.socket_mut();
        // A keep-alive asks by the byte before the next number. Behind a FIN that is the
        // FIN's own, and a peer that lacks it would take the byte for data. So the FIN waits
        // until all data is acknowledged, and no keep-alive comes behind it.
        if closing && socket.send_queue() == 0 && socket.keep_alive().is_some() {
            socket.set_keep_alive(None);
            socket.close();
            self.run(now_ms);
        }
        let socket = self.socket();
        let finished = matches!(
            socket.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait
        );
        let is_open = !matches!(
            socket.state(),
            State::Listen | State::SynSent | State::SynReceived | State::Closed
        );
        if is_open && !self.front.is_empty() {
            let front = std::mem::take(&mut self.front);
            self.write(&front);
            self.run(now_ms);
        }
        self.opened |= is_open;
        self.finished |= finished;
        self.touched = false;
        let at = self.interface.poll_at(instant(now_ms), &self.sockets);
        let own = at.map(|at| u64::try_from(at.total_millis()).unwrap_or(0).max(now_ms));
        self.due = [own, self.sender.due_ms()].into_iter().flatten().min();
    }

    fn due_ms(&mut self, now_ms: u64) -> Option<u64> {
        if self.touched { Some(now_ms) } else { self.due.map(|due_ms| due_ms.max(now_ms)) }
    }

    fn outgoing(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    fn stage(&self) -> Stage {
        match self.socket().state() {
            State::Listen | State::SynSent | State::SynReceived => Stage::Opening,
            // A listening socket whose handshake is reset listens again.
            State::Closed | State::TimeWait => Stage::Closed,
            _ => Stage::Open,
        }
    }

    fn has_ended(&self) -> bool {
        let socket = self.socket();
        self.opened && !socket.may_recv() && !socket.can_recv()
    }

    fn is_reset(&self) -> bool {
        // In order a connection is closed only after both ends.
        self.socket().state() == State::Closed && !(self.closing && self.finished)
    }

    fn readable(&mut self) -> &[u8] {
        self.socket_mut().peek(usize::MAX).unwrap_or_default()
    }

    fn consume(&mut self, n: usize) {
        self.touched = true;
        // Nothing is there to be consumed behind the end.
        let _ = self.socket_mut().recv(|bytes| (n.min(bytes.len()), ()));
    }

    fn room(&self) -> usize {
        let socket = self.socket();
        if !socket.may_send() || self.closing {
            return 0;
        }
        let most = socket.send_capacity().min(self.sender.window().saturating_add(AHEAD));
        let (queued, least) = (socket.send_queue(), AHEAD.min(most / 2));
        let room = most.saturating_sub(queued);
        if queued > 0 && room < least { 0 } else { room }
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        self.touched = true;
        self.socket_mut().send_slice(bytes).unwrap_or(0)
    }

    fn unacknowledged(&self) -> usize {
        self.socket().send_queue()
    }

    fn close(&mut self) {
        self.closing = true;
        self.touched = true;
    }

    fn abort(&mut self) {
        self.closing = true;
        self.touched = true;
        self.socket_mut().abort();
    }
}

fn instant(now_ms: u64) -> Instant {
    Instant::from_millis(i64::try_from(now_ms).unwrap_or(i64::MAX))
}

/// Packets to and from one connection.
#[derive(Default)]
struct Queues {
    incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Received(Vec<u8>);
struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

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
