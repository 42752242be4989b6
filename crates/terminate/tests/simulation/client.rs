//! A client: rustls over smoltcp, and HTTP requests whose answers it knows.
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use terminate::{Buffers, Endpoint, Stack, Stage};

/// A client that the network carries packets for.
pub(crate) trait Peer {
    /// Its end.
    fn tcp(&mut self) -> &mut Stack;
    /// Does what it can do now.
    fn poll(&mut self, now: u64);
    /// Whether it has all it wants and both directions have ended.
    fn is_done(&self) -> bool;
}

/// A body that no other length and place has.
pub(crate) fn body(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|at| ((at * 31 + at / 251 + salt * 7) % 256) as u8).collect()
}

pub(crate) struct Client {
    tcp: Stack,
    tls: ClientConnection,
    unsent: Vec<u8>,
    /// Sizes of the requests' bodies and of the answers'.
    requests: Vec<(usize, usize)>,
    at: usize,
    asked: bool,
    got: Vec<u8>,
    closed: bool,
}

impl Client {
    pub(crate) fn new(
        ends: [SocketAddr; 2],
        config: Arc<ClientConfig>,
        requests: Vec<(usize, usize)>,
        seed: u64,
    ) -> Self {
        let buffers = Buffers { receive: 40_000, send: 40_000 };
        let tcp = Stack::connect(ends, buffers, 1_400, seed).unwrap();
        let name = ServerName::try_from("www.example.org").unwrap();
        let mut tls = ClientConnection::new(config, name).unwrap();
        tls.set_buffer_limit(None);
        let (unsent, got) = (Vec::new(), Vec::new());
        Self { tcp, tls, unsent, requests, at: 0, asked: false, got, closed: false }
    }

    fn talk(&mut self) {
        let Some(&(length, wanted)) = self.requests.get(self.at) else {
            if !self.closed {
                self.tls.send_close_notify();
                self.closed = true;
            }
            return;
        };
        if !self.asked && !self.tls.is_handshaking() {
            let text = format!(
                "POST /{wanted}?{length} HTTP/1.1\r\nHost: www.example.org\r\n\
                 Content-Length: {length}\r\n\r\n"
            );
            self.tls.writer().write_all(text.as_bytes()).unwrap();
            self.tls.writer().write_all(&body(length, 1)).unwrap();
            self.asked = true;
        }
        let Some(end) = self.got.windows(4).position(|four| four == b"\r\n\r\n") else { return };
        let head = String::from_utf8(self.got[..end + 4].to_vec()).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains("Strict-Transport-Security: max-age=9\r\n"), "{head}");
        if self.got.len() >= end + 4 + wanted {
            assert!(self.got[end + 4..] == body(wanted, 2), "the answer's body has changed");
            self.got.clear();
            (self.at, self.asked) = (self.at + 1, false);
        }
    }
}

impl Peer for Client {
    fn tcp(&mut self) -> &mut Stack {
        &mut self.tcp
    }

    fn is_done(&self) -> bool {
        self.at == self.requests.len() && self.tcp.stage() == Stage::Closed
    }

    fn poll(&mut self, now: u64) {
        self.tcp.poll(now);
        loop {
            let bytes = self.tcp.readable().to_vec();
            if bytes.is_empty() {
                break;
            }
            let mut rest = &bytes[..];
            let taken = self.tls.read_tls(&mut rest).unwrap();
            assert!(taken > 0, "{bytes:02x?} behind the end");
            self.tls.process_new_packets().unwrap();
            let mut plain = vec![0; 1 << 16];
            while let Ok(n) = self.tls.reader().read(&mut plain) {
                if n == 0 {
                    break;
                }
                self.got.extend(&plain[..n]);
            }
            self.tcp.consume(taken);
        }
        self.talk();
        while self.tls.wants_write() && self.unsent.len() < 100_000 {
            self.tls.write_tls(&mut self.unsent).unwrap();
        }
        let written = self.tcp.write(&self.unsent);
        self.unsent.drain(..written);
        if self.closed && self.unsent.is_empty() && self.tcp.stage() == Stage::Open {
            self.tcp.close();
        }
        self.tcp.poll(now);
        assert!(!self.tcp.is_reset() || self.closed, "the client was reset");
    }
}
