//! The time that the program takes for a packet.
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use libbpf_rs::Object;
use wire::{FlowKey, Mac, Rewrite, Transport};

use crate::program::{self, Settings};
use crate::{Action, Change, Error, Key, Outcome, Table};

static BENCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bench.o"));

/// Connections of one address in `bpf/bench.c`.
const PORTS: u32 = 1 << 14;

/// The program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Swaps the Ethernet addresses and sends the packet back: what XDP costs itself.
    Limit,
    /// Looks the connection up, rewrites the packet and sends it back.
    Xdp,
}

/// The connections whose packets come in turn.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// How many.
    pub connections: u32,
    /// Whether they are of IPv6.
    pub v6: bool,
}

impl Course {
    /// The step from a packet's connection to the next one's: it meets all of them, and no
    /// neighbours in turn.
    #[must_use]
    pub fn stride(&self) -> u32 {
        let gcd = |mut a: u32, mut b: u32| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        let all = self.connections;
        let about = (f64::from(all) * 0.618) as u32;
        (about..all).find(|step| gcd(*step, all) == 1).unwrap_or(1) % all.max(1)
    }
}

/// The programs, with a table that holds all connections of the course.
#[derive(Debug)]
pub struct Bench {
    object: Object,
    table: Table,
    course: Course,
    filled_in: Duration,
}

impl Bench {
    /// Loads the programs and fills the table.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn load(course: Course, seed: u64) -> Result<Self, Error> {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let capacity = course.connections;
        let settings = Settings { mac, capacity, actions: 8, seed, always_redirects: false };
        let (vip, backend) = ends(course.v6);
        let mut constants = mac.0.to_vec();
        constants.extend([u8::from(course.v6), 0]);
        constants.extend(course.connections.to_ne_bytes());
        constants.extend(course.stride().to_ne_bytes());
        let mut address = [0; 16];
        match vip.ip() {
            IpAddr::V4(vip) => address[..4].copy_from_slice(&vip.octets()),
            IpAddr::V6(vip) => address = vip.octets(),
        }
        constants.extend(address);
        let (object, mut table) = program::load(BENCH, &settings, &constants)?;
        let action = Action {
            change: Rewrite::destination(vip, backend).map_or(Change::None, Change::Rewrite),
            interface: 1,
            source: mac,
            destination: Mac([2, 0, 0, 0, 0, 2]),
            mtu: 1500,
        };
        let began = Instant::now();
        for number in 0..course.connections {
            let key = key(number, course.v6).ok_or(Error::Missing("addresses of one family"))?;
            table.insert(&key, &action)?;
        }
        let filled_in = began.elapsed();
        Ok(Self { object, table, course, filled_in })
    }

    /// The time that it took to insert all connections, one after the other.
    #[must_use]
    pub const fn filled_in(&self) -> Duration {
        self.filled_in
    }

    /// The packets that the match table has forwarded so far, and the connections that
    /// they were of.
    #[must_use]
    pub fn forwarded(&self) -> (u64, u32) {
        let numbers = 0..self.course.connections;
        let counts = numbers.filter_map(|number| self.table.count(&key(number, self.course.v6)?));
        let seen = counts.filter(|count| count.packets > 0);
        seen.fold((0, 0), |(packets, flows), count| (packets + count.packets, flows + 1))
    }

    /// The mean time for one of `packets` packets, each of the next connection;
    /// the kernel gives whole nanoseconds.
    ///
    /// # Errors
    /// [`Error::NotForwarded`] if the last packet was not sent back, so nothing was
    /// measured; or what the kernel refused.
    pub fn time(&self, system: System, packets: u32) -> Result<Duration, Error> {
        let name = match system {
            System::Limit => "hnlb_limit",
            System::Xdp => "hnlb_xdp",
        };
        let ran = program::run(&self.object, name, &frame(self.course.v6), packets)?;
        if ran.outcome == Outcome::Back { Ok(ran.duration) } else { Err(Error::NotForwarded) }
    }
}

/// The VIP and the backend.
fn ends(v6: bool) -> (SocketAddr, SocketAddr) {
    if v6 {
        let [vip, backend] = [1, 2].map(|host| [0x2001, 0xdb8, 0, 0, 0, 0, 0, host]);
        (SocketAddr::new(vip.into(), 80), SocketAddr::new(backend.into(), 8080))
    } else {
        (([192, 0, 2, 1], 80).into(), ([198, 51, 100, 2], 8080).into())
    }
}

/// The client that `next_connection` in `bpf/bench.c` makes of a number.
fn client(number: u32, v6: bool) -> SocketAddr {
    let (host, port) = (number / PORTS, (1024 + number % PORTS) as u16);
    let [a, b, c, d] = host.to_be_bytes();
    if v6 {
        let [l, m] = [u16::from_be_bytes([d, c]), u16::from_be_bytes([b, a])];
        SocketAddr::new([0x2001, 0xdb8, 1, 0, 0, 0, l, m].into(), port)
    } else {
        SocketAddr::new([10, b, c, d].into(), port)
    }
}

/// The key of the packets of that client; there is one for every number.
fn key(number: u32, v6: bool) -> Option<Key> {
    let flow = FlowKey::new(Transport::Tcp, client(number, v6), ends(v6).0)?;
    Some(Key::new(&flow))
}

/// A TCP segment without data, whose fields the programs overwrite.
fn frame(v6: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 9, 9];
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
        frame.extend([0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend([0; 16]);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([0; 8]);
    }
    frame.extend([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend([0; 20]);
    frame
}
