//! Idle TCP connections that are held, and used again at the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::topology::{Family, WEB_PORT, vip};
use crate::{LabError, Stop, servers};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of `/big` that each connection reads at the end, each other ones.
const PIECE: usize = 4096;

/// What the holder is to do.
#[derive(Debug, Clone, Args)]
pub struct Holder {
    /// Connections, half of them over IPv6
    #[arg(long)]
    connections: usize,
    /// The file that the clients' ends of all connections are written to when they stand; beside it is one with the ending `done` when all have been used for the last time
    #[arg(long)]
    ready: PathBuf,
    /// Use the connections all the time, too: each asks again when it has its answer
    #[arg(long)]
    busy: bool,
}

/// What became of the connections.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(super) held: u64,
    /// Why a connection could not be used at the end, a line for each.
    pub(super) lost: Vec<String>,
    /// How often all connections were used.
    #[serde(default)]
    used: u64,
}

impl Held {
    /// How often all connections were used.
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    /// Asks on all connections before the first answer is waited for, and gives them the
    /// same time: the lost ones do not wait one after the other.
    fn use_all(&mut self, connections: &mut [Connection]) {
        let ask = |(number, own): (usize, &mut Connection)| own.ask_piece(number);
        let asked: Vec<_> = connections.iter_mut().enumerate().map(ask).collect();
        let deadline = Instant::now() + PATIENCE;
        for ((number, connection), asked) in connections.iter_mut().enumerate().zip(asked) {
            let read = asked.and_then(|()| connection.read_piece(number, deadline));
            if let Err(why) = read {
                self.lost.push(format!("connection {number} to {}: {why}", connection.backend));
            }
        }
        self.used += 1;
    }

    /// Why connections could not be used at the end, a line for each.
    pub(crate) fn lost(&self) -> &[String] {
        &self.lost
    }
}

/// One connection and the backend at its other end.
struct Connection {
    stream: BufReader<TcpStream>,
    backend: String,
}

impl Holder {
    /// Opens the connections, is silent until the stop, uses each once more and
    /// prints what became of them.
    ///
    /// # Errors
    /// A connection cannot be opened, or the file cannot be written.
    pub fn run(&self, stop: &Stop) -> Result<bool, LabError> {
        let mut connections = Vec::new();
        let mut ends = String::new();
        for number in 0..self.connections {
            let family = if number % 2 == 0 { Family::V4 } else { Family::V6 };
            let to = SocketAddr::new(vip(family), WEB_PORT);
            let what = || LabError::io(format!("open connection {number} to {to}"));
            let connection = Connection::open(to).map_err(what())?;
            let own = connection.stream.get_ref().local_addr().map_err(what())?;
            ends += &format!("{own}\n");
            connections.push(connection);
        }
        // Whoever waits for the file must not see half of it.
        let new = self.ready.with_extension("new");
        let what = || LabError::io(format!("write {}", self.ready.display()));
        std::fs::write(&new, ends).map_err(what())?;
        std::fs::rename(&new, &self.ready).map_err(what())?;
        let mut seen = Held { held: connections.len() as u64, lost: Vec::new(), used: 0 };
        while !stop.requested() {
            if self.busy && seen.lost.is_empty() {
                seen.use_all(&mut connections);
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        if seen.lost.is_empty() {
            seen.use_all(&mut connections);
        }
        let done = self.ready.with_extension("done");
        std::fs::write(&done, "").map_err(LabError::io(format!("write {}", done.display())))?;
        println!("{}", serde_json::json!(seen));
        Ok(true)
    }
}

impl Connection {
    fn open(to: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut own = Self { stream: BufReader::new(stream), backend: String::new() };
        own.ask("GET / HTTP/1.1\r\nHost: lab\r\n\r\n")?;
        let (backend, body) = own.answer()?;
        if body != format!("{backend}\n").as_bytes() {
            return Err(std::io::Error::other(format!("{backend} answers {body:?}")));
        }
        own.backend = backend;
        Ok(own)
    }

    fn ask(&mut self, request: &str) -> std::io::Result<()> {
        self.stream.get_mut().write_all(request.as_bytes())
    }

    /// Asks for a piece of the large file.
    fn ask_piece(&mut self, number: usize) -> std::io::Result<()> {
        let (from, last) = piece(number, servers::BIG);
        self.ask(&format!("GET /big HTTP/1.1\r\nHost: lab\r\nRange: bytes={from}-{last}\r\n\r\n"))
    }

    /// Reads the piece, and compares it and the backend.
    fn read_piece(&mut self, number: usize, deadline: Instant) -> std::io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.stream.get_ref().set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let (from, last) = piece(number, servers::BIG);
        let (backend, body) = self.answer()?;
        if backend != self.backend {
            return Err(std::io::Error::other(format!("{backend} answers")));
        }
        if servers::big().get(from..=last) != Some(&body[..]) {
            return Err(std::io::Error::other("other bytes than those asked for"));
        }
        Ok(())
    }

    /// The header `X-Backend` and the body of the answer.
    fn answer(&mut self) -> std::io::Result<(String, Vec<u8>)> {
        let (mut backend, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if line.trim().is_empty() {
                break;
            }
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("x-backend") => {
                    value.trim().clone_into(&mut backend);
                }
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().map_err(std::io::Error::other)?;
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((backend, body))
    }
}

/// The first and the last byte of the piece that connection `number` asks for.
const fn piece(number: usize, len: usize) -> (usize, usize) {
    let from = number * PIECE % (len - PIECE);
    (from, from + PIECE - 1)
}
