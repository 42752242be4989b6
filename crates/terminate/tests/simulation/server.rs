//! A server: HTTP/1.1 over smoltcp, which checks what it is sent.
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use proxy_header::{Error, ParseConfig, ProxyHeader};
use rustls::{ServerConfig, ServerConnection};
use splice::{Body, Chunked, Request};
use terminate::{Buffers, Endpoint, Stack, Stage};

use crate::client::body;

pub(crate) struct Server {
    pub(crate) tcp: Stack,
    /// TLS over it, if it speaks that.
    tls: Option<ServerConnection>,
    sealed: Vec<u8>,
    got: Vec<u8>,
    answer: Vec<u8>,
    answers: usize,
    answered: usize,
    /// The client that a header of the PROXY protocol is to name, if one is to come.
    told: Option<SocketAddr>,
    /// Whether it sends back what it gets.
    echoes: bool,
    closed: bool,
}

/// Puts the plain bytes of `sealed` behind `got`, and says how many were taken. An alert is
/// what the test expects, or asks about elsewhere.
fn open(tls: &mut ServerConnection, sealed: &[u8], got: &mut Vec<u8>) -> usize {
    let taken = tls.read_tls(&mut &sealed[..]).unwrap();
    let Ok(state) = tls.process_new_packets() else { return sealed.len() };
    let mut plain = vec![0; state.plaintext_bytes_to_read()];
    if let Ok(length) = tls.reader().read(&mut plain) {
        got.extend(&plain[..length]);
    }
    if taken == 0 { sealed.len() } else { taken }
}

impl Server {
    pub(crate) fn new(
        at: SocketAddr,
        seed: u64,
        tls: Option<&Arc<ServerConfig>>,
        echoes: bool,
    ) -> Self {
        let buffers = Buffers { receive: 30_000, send: 30_000 };
        let tcp = Stack::listen(at, buffers, 1_400, seed).unwrap();
        let tls = tls.map(|own| {
            let mut tls = ServerConnection::new(Arc::clone(own)).unwrap();
            tls.set_buffer_limit(None);
            tls
        });
        let (sealed, got, answer) = (Vec::new(), Vec::new(), Vec::new());
        let (answers, answered, told, closed) = (0, 0, None, false);
        Self { tcp, tls, sealed, got, answer, answers, answered, told, echoes, closed }
    }

    /// The server that is told of a client before anything else.
    pub(crate) fn told_of(self, client: Option<SocketAddr>) -> Self {
        Self { told: client, ..self }
    }

    /// Reads the header of the PROXY protocol: how long it is, once it is whole.
    fn read_proxy_header(bytes: &[u8], client: SocketAddr) -> Option<usize> {
        let (header, length) = match ProxyHeader::parse(bytes, ParseConfig::default()) {
            Ok(read) => read,
            Err(Error::BufferTooShort) => return None,
            Err(error) => panic!("{error}"),
        };
        let ends = header.proxied_address().unwrap();
        assert_eq!((ends.source, ends.destination.port()), (client, 443));
        assert_eq!(header.authority(), Some("www.example.org"));
        assert!(header.ssl().unwrap().version().unwrap().starts_with("TLSv1."));
        assert_eq!(header.unique_id().unwrap().len(), 16);
        Some(length)
    }

    /// How many requests it has answered.
    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    /// The bytes of all answers.
    pub(crate) fn answered_bytes(&self) -> usize {
        self.answered
    }

    pub(crate) fn poll(&mut self, now: u64) {
        self.tcp.poll(now);
        while self.tcp.stage() == Stage::Open {
            let bytes = self.tcp.readable().to_vec();
            if bytes.is_empty() {
                break;
            }
            if let Some(client) = self.told {
                let Some(length) = Self::read_proxy_header(&bytes, client) else { break };
                self.told = None;
                self.tcp.consume(length);
                continue;
            }
            let taken = match &mut self.tls {
                None => {
                    self.got.extend(&bytes);
                    bytes.len()
                }
                Some(tls) => open(tls, &bytes, &mut self.got),
            };
            self.tcp.consume(taken);
        }
        let before = self.answer.len();
        if self.echoes {
            self.answer.append(&mut self.got);
        } else {
            self.serve();
        }
        self.answered += self.answer.len() - before;
        match &mut self.tls {
            None => self.sealed.append(&mut self.answer),
            Some(tls) => {
                tls.writer().write_all(&self.answer).unwrap();
                self.answer.clear();
                while tls.wants_write() {
                    tls.write_tls(&mut self.sealed).unwrap();
                }
            }
        }
        let written = self.tcp.write(&self.sealed);
        self.sealed.drain(..written);
        let has_ended = self.tcp.has_ended();
        if let (true, Some(tls)) = (has_ended && self.sealed.is_empty(), &mut self.tls)
            && self.echoes
            && !self.closed
        {
            self.closed = true;
            tls.send_close_notify();
            tls.write_tls(&mut self.sealed).unwrap();
            let written = self.tcp.write(&self.sealed);
            self.sealed.drain(..written);
        }
        if has_ended && self.sealed.is_empty() {
            self.tcp.close();
        }
        self.tcp.poll(now);
    }

    fn serve(&mut self) {
        let Some(request) = Request::parse(&self.got).unwrap() else { return };
        let behind = &self.got[request.length..];
        let (taken, got) = match request.body {
            Body::Length(length) if behind.len() < length as usize => return,
            Body::Length(length) => (length as usize, behind[..length as usize].to_vec()),
            Body::Chunked => {
                let (mut chunked, mut data) = (Chunked::default(), Vec::new());
                let taken = chunked.read_data(behind, |own| data.extend_from_slice(own)).unwrap();
                if !chunked.is_done() {
                    return;
                }
                (taken, data)
            }
        };
        let (length, end) = (got.len(), request.length + taken);
        assert_eq!(request.values("x-forwarded-proto").next(), Some(&b"https"[..]));
        assert!(got == body(length, 1), "the request's body");
        assert_eq!(request.query(), format!("?{length}"));
        let wanted: usize = request.path[1..].parse().unwrap();
        let data = body(wanted, 2);
        // Every third answer ends the connection.
        self.answers += 1;
        let close = if self.answers % 3 == 0 { "Connection: close\r\n" } else { "" };
        // Every second one comes in chunks.
        if self.answers % 2 == 0
            && request.method != "HEAD"
            && request.values("x-chunks").next().is_some()
        {
            let head = format!("HTTP/1.1 200 OK\r\n{close}Transfer-Encoding: chunked\r\n\r\n");
            self.answer.extend(head.bytes());
            for piece in data.chunks(1_000) {
                self.answer.extend(format!("{:x};a=b\r\n", piece.len()).bytes());
                self.answer.extend(piece);
                self.answer.extend(b"\r\n");
            }
            self.answer.extend(b"0\r\n\r\n");
        } else {
            let head = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {wanted}\r\n\r\n");
            self.answer.extend(head.bytes());
            if request.method != "HEAD" {
                self.answer.extend(data);
            }
        }
        drop(request);
        self.got.drain(..end);
    }
}
