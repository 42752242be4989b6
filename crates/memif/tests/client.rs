//! The server's side against clients of our own: good ones, dying ones, and such as write
//! what can't be.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mapped::Mapped;
use memif::{DisconnectReason, MESSAGE_BYTES, Message, Receiver, Sender, Socket};
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with,
};

/// Descriptors of each ring.
const LOG2: u8 = 4;
const SLOTS: u16 = 1 << LOG2;
/// Where the rings begin, and bytes of a ring.
const RING_BYTES: usize = 128 + 16 * SLOTS as usize;
/// Where buffers begin, and bytes of one. They are not aligned to words.
const BUFFERS: usize = 2 * RING_BYTES + 3;
const BUFFER: usize = 301;
const REGION: u64 = (BUFFERS + 2 * SLOTS as usize * BUFFER).next_multiple_of(8) as u64;
const FROM_CLIENT: usize = 0;
const TO_CLIENT: usize = RING_BYTES;

const INIT: Message = Message::Init { version: 0x0200, id: 0, mode: 0 };

struct Client {
    socket: OwnedFd,
    memory: Mapped,
    file: OwnedFd,
    wake: OwnedFd,
    sent: u16,
    received: u16,
}

fn region(bytes: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("memif", MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

fn ring(to_server: bool) -> Message {
    let offset = if to_server { FROM_CLIENT } else { TO_CLIENT } as u32;
    Message::AddRing { to_server, index: 0, region: 0, offset, log2_size: LOG2 }
}

impl Client {
    fn new(path: &Path) -> Self {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let file = region(REGION, SealFlags::SHRINK);
        let memory = Mapped::sealed(&file, REGION).unwrap();
        for ring in [FROM_CLIENT, TO_CLIENT] {
            for (at, half) in [0x1f20, 0x03e3, 0, 0].into_iter().enumerate() {
                memory.halves()[ring / 2 + at].store(half, Ordering::Release);
            }
        }
        let wake = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let client = Self { socket, memory, file, wake, sent: 0, received: 0 };
        assert_eq!(client.hear(), Some(Message::Hello));
        client
    }

    /// A client that is connected and has given all buffers.
    fn connected(path: &Path) -> Self {
        let client = Self::new(path);
        client.connect();
        client.give(SLOTS);
        client
    }

    fn connect(&self) {
        let add_region = Message::AddRegion { index: 0, size: REGION };
        for (message, descriptor) in [
            (INIT, None),
            (add_region, Some(self.file.as_fd())),
            (ring(true), Some(self.wake.as_fd())),
            (ring(false), Some(self.wake.as_fd())),
        ] {
            assert_eq!(self.ask(&message, descriptor), Some(Message::Ack), "{message:?}");
        }
        assert_eq!(self.ask(&Message::Connect, None), Some(Message::Connected));
    }

    fn tell(&self, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptor.into_iter().collect();
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        // The server may have gone already: then there is no answer.
        let _ = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    fn ask(&self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Option<Message> {
        self.tell(&message.write(), descriptor);
        self.hear()
    }

    /// What the server says; `None`: it has closed the socket.
    fn hear(&self) -> Option<Message> {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut into = [IoSliceMut::new(&mut bytes)];
        let mut none = RecvAncillaryBuffer::default();
        let heard = recvmsg(&self.socket, &mut into, &mut none, RecvFlags::empty());
        let length = heard.map_or(0, |heard| heard.bytes);
        (length > 0).then(|| Message::read(&bytes).unwrap())
    }

    fn refusal(&self) -> String {
        match self.hear() {
            Some(Message::Disconnect { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Gives the server empty buffers up to `head`.
    fn give(&self, head: u16) {
        for slot in 0..SLOTS {
            self.describe(TO_CLIENT, slot, 0, BUFFER as u32, self.buffer(SLOTS + slot));
        }
        self.set_head(TO_CLIENT, head);
    }

    fn buffer(&self, number: u16) -> u32 {
        (BUFFERS + usize::from(number) * BUFFER) as u32
    }

    fn describe(&self, ring: usize, slot: u16, flags: u16, length: u32, offset: u32) {
        let at = (ring + 128 + 16 * usize::from(slot % SLOTS)) / 2;
        let [l, m, n, o] = length.to_ne_bytes();
        let [p, q, r, s] = offset.to_ne_bytes();
        let two = |a, b| u16::from_ne_bytes([a, b]);
        for (half, value) in
            [flags, 0, two(l, m), two(n, o), two(p, q), two(r, s)].into_iter().enumerate()
        {
            self.memory.halves()[at + half].store(value, Ordering::Relaxed);
        }
    }

    fn set_head(&self, ring: usize, head: u16) {
        self.memory.halves()[ring / 2 + 3].store(head, Ordering::Release);
    }

    fn tail(&self, ring: usize) -> u16 {
        self.memory.halves()[ring / 2 + 32].load(Ordering::Acquire)
    }

    fn send(&mut self, frame: &[u8]) {
        let slot = self.sent % SLOTS;
        let at = self.buffer(slot) as usize;
        for (to, from) in self.memory.bytes()[at..].iter().zip(frame) {
            to.store(*from, Ordering::Relaxed);
        }
        self.describe(FROM_CLIENT, slot, 0, frame.len() as u32, at as u32);
        self.sent = self.sent.wrapping_add(1);
        self.set_head(FROM_CLIENT, self.sent);
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        if self.tail(TO_CLIENT) == self.received {
            return None;
        }
        let slot = self.received % SLOTS;
        let length = TO_CLIENT / 2 + 64 + 8 * usize::from(slot) + 2;
        let length = self.memory.halves()[length].load(Ordering::Relaxed);
        let at = self.buffer(SLOTS + slot) as usize;
        let bytes = self.memory.bytes()[at..at + usize::from(length)].iter();
        let frame = bytes.map(|byte| byte.load(Ordering::Relaxed)).collect();
        self.describe(TO_CLIENT, slot, 0, BUFFER as u32, at as u32);
        self.received = self.received.wrapping_add(1);
        self.set_head(TO_CLIENT, self.received.wrapping_add(SLOTS));
        Some(frame)
    }
}

struct World {
    socket: Socket,
    receiver: Receiver,
    sender: Sender,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nf.sock");
        let (socket, receiver, sender) = Socket::bind(&path).unwrap();
        Self { socket, receiver, sender, path, _dir: dir }
    }

    /// Waits for what another thread does.
    fn wait(&self, connected: bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.socket.is_connected() != connected {
            assert!(Instant::now() < deadline, "connected: {}", !connected);
            std::thread::yield_now();
        }
    }

    fn all(&mut self) -> (Vec<Vec<u8>>, u64) {
        let mut frames = Vec::new();
        let received = self.receiver.receive(usize::MAX, &mut |frame| {
            let mut bytes = vec![0; frame.len()];
            frame.copy_to(&mut bytes);
            frames.push(bytes);
            true
        });
        assert_eq!(received.frames, frames.len());
        (frames, received.garbled)
    }

    /// Whether a good client is served as if nothing had been.
    fn serves(&mut self) {
        let mut client = Client::connected(&self.path);
        self.wait(true);
        assert_eq!(self.sender.send([b"there".as_slice()].into_iter()), 1);
        assert_eq!(client.receive().unwrap(), b"there");
        client.send(b"and back");
        assert_eq!(self.all(), (vec![b"and back".to_vec()], 0));
        drop(client);
        self.wait(false);
    }
}

fn frame(number: usize) -> Vec<u8> {
    let len = 1 + number * 37 % BUFFER;
    (0..len).map(|at| (at * 7 + number) as u8).collect()
}

#[test]
fn frames_go_both_ways_unchanged() {
    let mut world = World::new();
    assert_eq!(world.sender.send([b"nobody".as_slice()].into_iter()), 0);
    let mut client = Client::connected(&world.path);
    world.wait(true);
    // The numbers of descriptors wrap after 65536.
    for round in 0..70_000_usize / 5 {
        let frames: Vec<Vec<u8>> = (0..5).map(|at| frame(5 * round + at)).collect();
        assert_eq!(world.sender.send(frames.iter().map(Vec::as_slice)), 5);
        for frame in &frames {
            assert_eq!(&client.receive().unwrap(), frame);
            client.send(frame);
        }
        assert_eq!(world.all(), (frames, 0));
    }
}

#[test]
fn a_full_ring_takes_no_more_and_a_refused_frame_is_the_next() {
    let mut world = World::new();
    let mut client = Client::connected(&world.path);
    world.wait(true);
    let frames: Vec<Vec<u8>> = (0..40).map(frame).collect();
    assert_eq!(world.sender.send(frames.iter().map(Vec::as_slice)), SLOTS.into());
    assert_eq!(client.receive().as_ref(), frames.first());
    assert_eq!(world.sender.send(frames.iter().skip(16).map(Vec::as_slice)), 1);
    client.send(b"one");
    client.send(b"two");
    assert_eq!(world.receiver.receive(9, &mut |_| false).frames, 0, "there was no buffer for it");
    assert_eq!(world.receiver.receive(1, &mut |frame| frame.len() == 3).frames, 1);
    assert_eq!(world.all().0, [b"two"]);
}

/// The fault of DPDK's server: memory that is read while it is unmapped.
#[test]
fn clients_that_die_are_no_harm_to_the_thread_that_polls() {
    let World { socket, mut receiver, mut sender, path, _dir } = World::new();
    let end = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let some = [7; 200];
            let mut bytes = [0; 300];
            while !end.load(Ordering::Relaxed) {
                sender.send(std::iter::repeat_n(some.as_slice(), 32));
                receiver.receive(32, &mut |frame| {
                    frame.copy_to(&mut bytes);
                    true
                });
            }
        });
        for _ in 0..200 {
            let mut client = Client::connected(&path);
            for number in 0..50 {
                client.send(&frame(number));
                client.receive();
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn a_client_is_told_why_it_is_disconnected_and_the_next_one_is_served() {
    let mut world = World::new();
    let tell = |messages: Vec<(Message, Option<OwnedFd>)>| {
        let client = Client::new(&world.path);
        for (message, descriptor) in &messages {
            client.tell(&message.write(), descriptor.as_ref().map(AsFd::as_fd));
        }
        loop {
            match client.hear() {
                Some(Message::Ack) => {}
                Some(Message::Disconnect { reason }) => return reason,
                other => panic!("{messages:?}: {other:?}"),
            }
        }
    };
    let good = || Some(region(REGION, SealFlags::SHRINK));
    let add = |index, size| Message::AddRegion { index, size };
    let init = |version, id, mode| (Message::Init { version, id, mode }, None);
    let outside = |offset, log2_size| {
        let first = Message::AddRing { to_server: true, index: 0, region: 0, offset, log2_size };
        vec![
            (INIT, None),
            (add(0, REGION), good()),
            (first, good()),
            (ring(false), good()),
            (Message::Connect, None),
        ]
    };
    let second =
        Message::AddRing { to_server: true, index: 1, region: 0, offset: 0, log2_size: LOG2 };
    let table = vec![
        (vec![init(0x0300, 0, 0)], DisconnectReason::Version),
        (vec![init(0x0200, 1, 0)], DisconnectReason::Id),
        (vec![init(0x0200, 0, 1)], DisconnectReason::Mode),
        (vec![(add(0, REGION), good())], DisconnectReason::Order),
        (vec![(INIT, None), (INIT, None)], DisconnectReason::Order),
        (vec![(INIT, None), (add(0, REGION), None)], DisconnectReason::Descriptor),
        (vec![(INIT, None), (add(1, REGION), good())], DisconnectReason::Region),
        (vec![(INIT, None), (add(0, REGION + 1), good())], DisconnectReason::Memory),
        (
            vec![(INIT, None), (add(0, REGION), Some(region(REGION, SealFlags::empty())))],
            DisconnectReason::Memory,
        ),
        (vec![(INIT, None), (second, good())], DisconnectReason::Ring),
        (vec![(INIT, None), (ring(true), good()), (ring(true), good())], DisconnectReason::Ring),
        (vec![(INIT, None), (Message::Connect, None)], DisconnectReason::NoRing),
        // Nobody has written a ring there, or it is not in the region.
        (outside(0, LOG2), DisconnectReason::Ring),
        (outside(REGION as u32 - 200, LOG2), DisconnectReason::Ring),
        (outside(0, 15), DisconnectReason::Ring),
        (outside(u32::MAX - 7, LOG2), DisconnectReason::Ring),
    ];
    for (messages, reason) in table {
        assert_eq!(tell(messages), reason.to_string());
    }
    let client = Client::new(&world.path);
    client.tell(b"short", None);
    assert_eq!(client.refusal(), DisconnectReason::Message.to_string());
    world.serves();
}

#[test]
fn frames_that_cannot_be_read_are_counted_and_the_others_arrive() {
    let mut world = World::new();
    let mut client = Client::connected(&world.path);
    world.wait(true);
    client.send(b"before");
    for (slot, flags, length, offset) in [
        (1, 0, 10, REGION as u32),
        (2, 0, u32::MAX, 0),
        (3, 0, 0, client.buffer(3)),
        // One frame in three buffers.
        (4, 1, 10, client.buffer(4)),
        (5, 1, 10, client.buffer(5)),
        (6, 0, 10, client.buffer(6)),
    ] {
        client.describe(FROM_CLIENT, slot, flags, length, offset);
    }
    client.sent = 7;
    client.send(b"after");
    assert_eq!(world.all(), (vec![b"before".to_vec(), b"after".to_vec()], 4));
    drop(client);
    world.wait(false);
    world.serves();
}

#[test]
fn a_client_that_breaks_the_rules_of_a_ring_is_disconnected() {
    for (ring, breaks) in [
        (FROM_CLIENT, (|client| client.set_head(FROM_CLIENT, SLOTS + 1)) as fn(&Client)),
        (TO_CLIENT, |client| client.set_head(TO_CLIENT, SLOTS + 1)),
        (TO_CLIENT, |client| client.describe(TO_CLIENT, 0, 0, BUFFER as u32, REGION as u32)),
        (TO_CLIENT, |client| client.describe(TO_CLIENT, 0, 0, 4, client.buffer(0))),
    ] {
        let mut world = World::new();
        let client = Client::connected(&world.path);
        world.wait(true);
        breaks(&client);
        if ring == FROM_CLIENT {
            assert_eq!(world.all(), (vec![], 0));
        } else {
            assert_eq!(world.sender.send([b"there".as_slice()].into_iter()), 0);
        }
        assert_eq!(client.refusal(), DisconnectReason::Contents.to_string());
        world.wait(false);
        world.serves();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is in the client's memory, the server neither fails nor reads elsewhere.
    #[test]
    fn any_memory_is_survived(
        halves in prop::collection::vec((0..BUFFERS / 2, any::<u16>()), 1..200),
        heads in any::<[u16; 2]>(),
    ) {
        let mut world = World::new();
        let client = Client::connected(&world.path);
        world.wait(true);
        for (at, half) in halves {
            client.memory.halves()[at].store(half, Ordering::Relaxed);
        }
        client.set_head(FROM_CLIENT, heads[0] % (2 * SLOTS));
        client.set_head(TO_CLIENT, heads[1] % (2 * SLOTS));
        for _ in 0..4 {
            let (frames, _) = world.all();
            prop_assert!(frames.len() <= SLOTS.into());
            world.sender.send(frames.iter().map(Vec::as_slice));
        }
        drop(client);
        world.wait(false);
        world.serves();
    }
}
