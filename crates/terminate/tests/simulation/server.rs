//! A server: HTTP/1.1 over smoltcp, which checks what it is sent.
use std::net::SocketAddr;

use splice::{Body, Chunked, Request};
use terminate::{Buffers, Endpoint, Stack, Stage};

use crate::client::body;

pub(crate) struct Server {
    pub(crate) tcp: Stack,
    got: Vec<u8>,
    answer: Vec<u8>,
    answers: usize,
}

impl Server {
    pub(crate) fn new(at: SocketAddr, seed: u64) -> Self {
        let buffers = Buffers { receive: 30_000, send: 30_000 };
        let tcp = Stack::listen(at, buffers, 1_400, seed).unwrap();
        Self { tcp, got: Vec::new(), answer: Vec::new(), answers: 0 }
    }

    pub(crate) fn poll(&mut self, now: u64) {
        self.tcp.poll(now);
        while self.tcp.stage() == Stage::Open {
            let bytes = self.tcp.readable().to_vec();
            if bytes.is_empty() {
                break;
            }
            self.got.extend(&bytes);
            self.tcp.consume(bytes.len());
        }
        self.serve();
        let written = self.tcp.write(&self.answer);
        self.answer.drain(..written);
        if self.tcp.has_ended() && self.answer.is_empty() {
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
