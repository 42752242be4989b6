//! What an end point of TCP costs for each request: the user-space stack that terminates
//! TLS, and the kernel's sockets. The records around request and response are the same code.
//!
//! Of the user-space stack everything is counted from a packet taken to a packet handed
//! out. Of the kernel the time of a thread is counted that serves sockets over loopback, by two
//! system calls for a request. The
//! packets' way through a TAP device, which the exception path would add, is not in it, nor
//! are drivers on either side: so the kernel's figure is the least that it can cost.
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use terminate::{Buffers, Endpoint as _, Stack};

use super::engine::{Cipher, Inline};
use super::options::{CryptoBenchError, Options};
use super::records::Times;
use super::row::{Row, What};

/// Connections at a time.
const CONNECTIONS: usize = 16;
/// Rounds of the kernel's that are measured together.
const ROUNDS: u64 = 32;
/// Bytes of a request with its record.
const REQUEST: usize = 200;
/// Bytes of responses.
const SIZES: [usize; 3] = [200, 16_384, 262_144];
/// The longest text of a record.
const RECORD: usize = 16_384;
/// Bytes of a record beside its text.
const OVERHEAD: usize = 22;
/// The longest packet.
const MTU: usize = 1_500;
/// As the terminator's.
const BUFFERS: Buffers = Buffers { receive: 65_536, send: 1 << 20 };
/// Milliseconds between two rounds of the simulated clock: shorter than a delayed
/// acknowledgement.
const STEP_MS: u64 = 1;

/// Who does TCP, and whether records are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tcp {
    UserSpace,
    Kernel,
    /// What a kernel that seals records itself (kTLS) cannot go below.
    KernelAlone,
}

impl Tcp {
    const ALL: [Self; 3] = [Self::UserSpace, Self::Kernel, Self::KernelAlone];

    const fn name(self) -> &'static str {
        match self {
            Self::UserSpace => "smoltcp",
            Self::Kernel => "kernel",
            Self::KernelAlone => "kernel-no-records",
        }
    }
}

/// An end point with responses of one length, and the times for requests.
pub(super) struct Point {
    tcp: Tcp,
    bytes: usize,
    times: Times,
}

impl Point {
    pub(super) fn all(options: Options) -> Vec<Self> {
        let sizes = if options.quick { &SIZES[..2] } else { &SIZES[..] };
        let of = |bytes: usize| Tcp::ALL.map(|tcp| Self { tcp, bytes, times: Times::default() });
        sizes.iter().flat_map(|bytes| of(*bytes)).collect()
    }

    pub(super) fn row(&self) -> Row {
        self.times.row(What::Endpoint, self.tcp.name(), Cipher::Aes128Gcm.name(), self.bytes)
    }

    /// One repetition: the time of each round of one request on every connection.
    pub(super) fn repeat(&mut self, options: Options) -> Result<(), CryptoBenchError> {
        let cycles = options.point_ms() * (dpdk::cycles_per_second() / 1000);
        let records = Records::new(self.tcp != Tcp::KernelAlone, self.bytes)?;
        let rounds = match self.tcp {
            Tcp::UserSpace => in_user_space(records, self.bytes, cycles)?,
            Tcp::Kernel | Tcp::KernelAlone => in_kernel(records, self.bytes, cycles)?,
        };
        self.times.add(rounds, CONNECTIONS as f64);
        Ok(())
    }
}

/// The records of requests and responses.
struct Records {
    key: Option<Inline>,
    bytes: usize,
}

impl Records {
    fn new(are_sealed: bool, bytes: usize) -> Result<Self, CryptoBenchError> {
        let key = are_sealed.then(|| Inline::new(Cipher::Aes128Gcm, 1)).transpose()?;
        Ok(Self { key, bytes })
    }

    /// The work on a request's record, which is that of sealing one as long.
    fn open(&mut self) -> Result<(), CryptoBenchError> {
        self.key.as_mut().map_or(Ok(()), |key| key.seal(REQUEST - OVERHEAD))
    }

    /// The work on a response's records.
    fn seal(&mut self) -> Result<(), CryptoBenchError> {
        let Some(key) = &mut self.key else { return Ok(()) };
        let mut left = self.bytes;
        while left > 0 {
            let text = left.min(RECORD);
            key.seal(text)?;
            left -= text;
        }
        Ok(())
    }
}

/// Bytes that a response of `bytes` bytes has with its records.
const fn sealed(bytes: usize) -> usize {
    bytes + bytes.div_ceil(RECORD) * OVERHEAD
}

/// A connection of two stacks in memory.
struct Pair {
    client: Stack,
    server: Stack,
    /// Bytes of the response that the client lacks, and that the server has not written.
    wanted: usize,
    unwritten: usize,
    /// Bytes of the request that the server has.
    got: usize,
}

impl Pair {
    fn new(at: u16) -> Result<Self, CryptoBenchError> {
        let server: SocketAddr = (Ipv4Addr::new(10, 0, 0, 1), 443).into();
        let client: SocketAddr = (Ipv4Addr::new(10, 0, 0, 2), 10_000 + at).into();
        let ends = [client, server];
        let client = Stack::connect(ends, Buffers { receive: 1 << 20, send: 65_536 }, MTU, 1);
        let server = Stack::listen(server, BUFFERS, MTU, 2);
        let (Some(client), Some(server)) = (client, server) else {
            return Err(std::io::Error::from(ErrorKind::AddrNotAvailable).into());
        };
        Ok(Self { client, server, wanted: 0, unwritten: 0, got: 0 })
    }

    /// Does what is to be done at both ends; adds the server's cycles to `cycles`.
    fn turn(
        &mut self,
        records: &mut Records,
        response: &[u8],
        now_ms: u64,
        cycles: &mut u64,
    ) -> Result<(), CryptoBenchError> {
        self.client.poll(now_ms);
        let mut to_server = Vec::new();
        while let Some(packet) = self.client.outgoing() {
            to_server.push(packet);
        }
        let begin = dpdk::cycles();
        to_server.into_iter().for_each(|packet| self.server.take(packet));
        self.server.poll(now_ms);
        let length = self.server.readable().len();
        self.got += length;
        self.server.consume(length);
        if self.got >= REQUEST {
            self.got -= REQUEST;
            records.open()?;
            records.seal()?;
            self.unwritten = response.len();
        }
        let left = response.get(response.len() - self.unwritten..).unwrap_or_default();
        let room = self.server.room().min(left.len());
        self.unwritten -= self.server.write(left.get(..room).unwrap_or_default());
        self.server.poll(now_ms);
        let mut to_client = Vec::new();
        while let Some(packet) = self.server.outgoing() {
            to_client.push(packet);
        }
        *cycles += dpdk::cycles() - begin;
        to_client.into_iter().for_each(|packet| self.client.take(packet));
        self.client.poll(now_ms);
        let length = self.client.readable().len();
        self.client.consume(length);
        self.wanted = self.wanted.saturating_sub(length);
        Ok(())
    }
}

/// The server's cycles of each round.
fn in_user_space(
    mut records: Records,
    bytes: usize,
    most: u64,
) -> Result<Vec<u64>, CryptoBenchError> {
    let (request, response) = (vec![0; REQUEST], vec![0; sealed(bytes)]);
    let pairs: Result<Vec<_>, _> = (0..CONNECTIONS as u16).map(Pair::new).collect();
    let (mut pairs, mut now_ms, mut rounds) = (pairs?, 1, Vec::new());
    let begin = dpdk::cycles();
    for round in 0_u64.. {
        let mut cycles = 0;
        if round > 0 {
            for pair in &mut pairs {
                pair.client.write(&request);
                pair.wanted = response.len();
            }
        }
        loop {
            for pair in &mut pairs {
                pair.turn(&mut records, &response, now_ms, &mut cycles)?;
            }
            let is_open = |pair: &Pair| pair.client.room() > 0;
            if pairs.iter().all(|pair| pair.wanted == 0 && is_open(pair)) {
                break;
            }
            now_ms += STEP_MS;
        }
        // The first round is that of the TCP handshakes, the second that of slow start.
        if round > 1 {
            rounds.push(cycles);
        }
        if dpdk::cycles() - begin > most && !rounds.is_empty() {
            break;
        }
    }
    Ok(rounds)
}

/// Time that this thread has had, in nanoseconds (proc(5)); the kernel counts it up when the
/// thread waits.
fn thread_ns() -> Result<u64, CryptoBenchError> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_ascii_whitespace().next().and_then(|own| own.parse().ok());
    first.ok_or_else(|| std::io::Error::from(ErrorKind::InvalidData).into())
}

/// The serving thread's time of a round, as cycles, a mean of [`ROUNDS`] each.
fn in_kernel(mut records: Records, bytes: usize, most: u64) -> Result<Vec<u64>, CryptoBenchError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = listener.local_addr()?;
    let response = vec![0; sealed(bytes)];
    std::thread::scope(|scope| {
        let client = scope.spawn(move || ask(at, sealed(bytes)));
        let mut streams = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let (hz, begin, mut rounds) = (dpdk::cycles_per_second(), dpdk::cycles(), Vec::new());
        loop {
            let before = thread_ns()?;
            for _ in 0..ROUNDS {
                serve(&mut streams, &mut records, &response)?;
            }
            let ns = thread_ns()?.saturating_sub(before);
            rounds.push(
                (u128::from(ns) * u128::from(hz) / (1_000_000_000 * u128::from(ROUNDS))) as u64,
            );
            if dpdk::cycles() - begin > most {
                break;
            }
        }
        // The client ends when its connections do.
        drop(streams);
        client.join().map_err(|_| CryptoBenchError::Worker)?;
        Ok(rounds)
    })
}

/// One request on every connection. The client writes all of them before it reads, so that
/// the server waits for the first at most, and needs nobody to tell it which is next.
fn serve(
    streams: &mut [TcpStream],
    records: &mut Records,
    response: &[u8],
) -> Result<(), CryptoBenchError> {
    for stream in streams {
        stream.read_exact(&mut [0; REQUEST])?;
        records.open()?;
        records.seal()?;
        stream.write_all(response)?;
    }
    Ok(())
}

/// Asks on each connection, and then takes all responses; again, until the server ends.
fn ask(at: SocketAddr, length: usize) {
    let connect = |_| {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        Ok::<_, std::io::Error>(stream)
    };
    let Ok(mut streams) = (0..CONNECTIONS).map(connect).collect::<Result<Vec<_>, _>>() else {
        return;
    };
    let mut response = vec![0; length];
    loop {
        for stream in &mut streams {
            if stream.write_all(&[0; REQUEST]).is_err() {
                return;
            }
        }
        for stream in &mut streams {
            if stream.read_exact(&mut response).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_serve_every_request_of_every_length() {
        for bytes in SIZES {
            for tcp in Tcp::ALL {
                let records = || Records::new(tcp != Tcp::KernelAlone, bytes).unwrap();
                let rounds = match tcp {
                    Tcp::UserSpace => in_user_space(records(), bytes, 0),
                    Tcp::Kernel | Tcp::KernelAlone => in_kernel(records(), bytes, 0),
                };
                assert!(!rounds.unwrap().is_empty(), "{tcp:?} {bytes}");
            }
        }
    }
}
