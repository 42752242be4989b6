//! Clients of HTTP/2: the library's own, and one that sends frames as it likes.
use std::collections::VecDeque;
use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, StatusCode};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use terminate::{Buffers, Endpoint, Event, Stack, Stage};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::{Peer, body};
use crate::net::{Net, Plan};
use crate::plan;

type Reply =
    Pin<Box<dyn Future<Output = Result<(SendRequest<Bytes>, Connection<Pipe, Bytes>), h2::Error>>>>;

/// The bytes between rustls and the library.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<[VecDeque<u8>; 2]>>);

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let incoming = &mut self.0.lock().unwrap()[0];
        let length = incoming.len().min(into.remaining());
        if length == 0 {
            return Poll::Pending;
        }
        into.put_slice(&incoming.drain(..length).collect::<Vec<u8>>());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.0.lock().unwrap()[1].extend(from);
        Poll::Ready(Ok(from.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// rustls over smoltcp.
struct Line {
    tcp: Stack,
    tls: ClientConnection,
    unsent: Vec<u8>,
    closed: bool,
}

impl Line {
    fn new(ends: [SocketAddr; 2], config: Arc<ClientConfig>, seed: u64) -> Self {
        let buffers = Buffers { receive: 40_000, send: 40_000 };
        let tcp = Stack::connect(ends, buffers, 1_400, seed).unwrap();
        let mut config = (*config).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("www.example.org").unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        tls.set_buffer_limit(None);
        Self { tcp, tls, unsent: Vec::new(), closed: false }
    }

    /// What has come since.
    fn read(&mut self, now: u64) -> Vec<u8> {
        self.tcp.poll(now);
        let mut got = Vec::new();
        loop {
            let bytes = self.tcp.readable().to_vec();
            if bytes.is_empty() {
                return got;
            }
            let taken = self.tls.read_tls(&mut &bytes[..]).unwrap();
            if taken == 0 {
                return got;
            }
            self.tls.process_new_packets().unwrap();
            let mut plain = vec![0; 1 << 16];
            while let Ok(n @ 1..) = self.tls.reader().read(&mut plain) {
                got.extend(&plain[..n]);
            }
            self.tcp.consume(taken);
        }
    }

    fn close(&mut self) {
        if !self.closed {
            self.tls.send_close_notify();
            self.closed = true;
        }
    }

    fn write(&mut self, bytes: &[u8], now: u64) {
        if !self.closed {
            self.tls.writer().write_all(bytes).unwrap();
        }
        while self.tls.wants_write() && self.unsent.len() < 100_000 {
            self.tls.write_tls(&mut self.unsent).unwrap();
        }
        let written = self.tcp.write(&self.unsent);
        self.unsent.drain(..written);
        if self.closed && self.unsent.is_empty() && self.tcp.stage() == Stage::Open {
            self.tcp.close();
        }
        self.tcp.poll(now);
    }
}

/// A request of its own stream.
struct Flight {
    response: Option<ResponseFuture>,
    send: SendStream<Bytes>,
    unsent: Vec<u8>,
    body: Option<RecvStream>,
    got: Vec<u8>,
    wanted: usize,
    done: bool,
}

/// A client that asks for everything at once.
pub(crate) struct Client {
    line: Line,
    pipe: Pipe,
    begins: Option<Reply>,
    runs: Option<(SendRequest<Bytes>, Connection<Pipe, Bytes>)>,
    requests: Vec<(usize, usize)>,
    /// Whether requests say how long they are.
    says_length: bool,
    flights: Vec<Flight>,
}

impl Client {
    pub(crate) fn new(
        ends: [SocketAddr; 2],
        config: Arc<ClientConfig>,
        plan: &Plan,
        says_length: bool,
    ) -> Self {
        let pipe = Pipe::default();
        let begins = Builder::new().initial_window_size(20_000).handshake(pipe.clone());
        Self {
            line: Line::new(ends, config, plan.seed),
            pipe,
            begins: Some(Box::pin(begins)),
            runs: None,
            requests: plan.requests.clone(),
            says_length,
            flights: Vec::new(),
        }
    }

    fn begin(&mut self, cx: &mut Context<'_>) {
        if let Some(begins) = &mut self.begins
            && let Poll::Ready(runs) = begins.as_mut().poll(cx)
        {
            (self.begins, self.runs) = (None, Some(runs.unwrap()));
        }
        let Some((send, _)) = &mut self.runs else { return };
        while self.flights.len() < self.requests.len() && send.poll_ready(cx).is_ready() {
            let (length, wanted) = self.requests[self.flights.len()];
            let mut request = Request::post(format!("https://www.example.org/{wanted}?{length}"));
            request = request.header("x-chunks", "1").header("cookie", "a=1").header("cookie", "b");
            if self.says_length {
                request = request.header("content-length", length);
            }
            let (response, stream) = send.send_request(request.body(()).unwrap(), false).unwrap();
            self.flights.push(Flight {
                response: Some(response),
                send: stream,
                unsent: body(length, 1),
                body: None,
                got: Vec::new(),
                wanted,
                done: false,
            });
        }
    }
}

impl Flight {
    fn poll(&mut self, cx: &mut Context<'_>) {
        let length = self.send.capacity().min(self.unsent.len());
        if length > 0 {
            let data: Vec<u8> = self.unsent.drain(..length).collect();
            self.send.send_data(data.into(), self.unsent.is_empty()).unwrap();
        } else if self.unsent.is_empty() && self.got.capacity() == 0 && length == 0 {
            // Ends a body of no bytes once.
            let _ = self.send.send_data(Bytes::new(), true);
            self.got.reserve(1);
        }
        self.send.reserve_capacity(self.unsent.len());
        if let Some(response) = &mut self.response
            && let Poll::Ready(found) = Pin::new(response).poll(cx)
        {
            let found = found.unwrap();
            assert_eq!(found.status(), StatusCode::OK);
            let fields: &HeaderMap = found.headers();
            assert_eq!(fields["strict-transport-security"], "max-age=9");
            assert!(
                !fields.contains_key("transfer-encoding") && !fields.contains_key("connection")
            );
            (self.response, self.body) = (None, Some(found.into_body()));
        }
        while let Some(from) = &mut self.body
            && let Poll::Ready(data) = from.poll_data(cx)
        {
            match data {
                Some(data) => {
                    let data = data.unwrap();
                    from.flow_control().release_capacity(data.len()).unwrap();
                    self.got.extend_from_slice(&data);
                }
                None => {
                    assert!(self.got == body(self.wanted, 2), "the answer's body has changed");
                    (self.body, self.done) = (None, true);
                }
            }
        }
    }
}

impl Peer for Client {
    fn tcp(&mut self) -> &mut Stack {
        &mut self.line.tcp
    }

    fn is_done(&self) -> bool {
        let all = self.flights.len() == self.requests.len();
        all && self.flights.iter().all(|own| own.done) && self.line.tcp.stage() == Stage::Closed
    }

    fn poll(&mut self, now: u64) {
        let mut cx = Context::from_waker(Waker::noop());
        let got = self.line.read(now);
        self.pipe.0.lock().unwrap()[0].extend(got);
        self.begin(&mut cx);
        for _ in 0..2 {
            self.flights.iter_mut().for_each(|own| own.poll(&mut cx));
            if let Some((_, connection)) = &mut self.runs {
                let _ = Pin::new(connection).poll(&mut cx);
            }
        }
        let all = self.flights.len() == self.requests.len();
        let out: Vec<u8> = self.pipe.0.lock().unwrap()[1].drain(..).collect();
        self.line.write(&out, now);
        if all && self.flights.iter().all(|own| own.done) {
            self.line.close();
            self.line.write(&[], now);
        }
        let ends = self.line.closed;
        assert!(ends || !self.line.tcp.is_reset(), "the client was reset");
    }
}

fn run(plan: &Plan, says_length: bool) -> Net {
    let client =
        |ends, config| -> Box<dyn Peer> { Box::new(Client::new(ends, config, plan, says_length)) };
    Net::with(plan, client).run()
}

#[test]
fn streams_come_back_byte_for_byte() {
    for (v6, tls12, says_length) in
        [(false, false, true), (true, true, false), (false, false, false)]
    {
        let mut requests = vec![(0, 0), (1, 1), (0, 16_384), (70_000, 3), (16_385, 300_000)];
        requests.extend((0..60).map(|n| (n * 100, n * 300)));
        let plan = Plan { v6, tls12, requests, ..plan() };
        let net = run(&plan, says_length);
        assert_eq!(net.count(Event::Request), plan.requests.len());
        assert_eq!((net.count(Event::Http2), net.count(Event::Flood)), (1, 0));
        let told = net.told();
        assert_eq!(told.responses.len(), plan.requests.len(), "counted by request");
        assert_eq!(told.records.len(), plan.requests.len());
        let down: u64 = told.records.iter().map(|own| own.bytes[1]).sum();
        assert_eq!(down, net.answered_bytes());
        assert!(told.records.iter().all(|own| own.why.is_empty() && own.status == 200));
    }
}

#[test]
fn no_stream_is_left_behind() {
    let net = run(&plan(), true);
    assert_eq!((net.usage(), net.claimed()), (terminate::Usage::default(), 0));
}

#[test]
fn a_stream_passes_over_backends_that_refuse() {
    let net = run(&Plan { dead: 2, ..plan() }, true);
    assert_eq!(net.count(Event::BackendFailed), 2);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 16, ..Default::default() })]
    #[test]
    fn bad_links_change_no_byte_of_a_stream(
        seed in proptest::prelude::any::<u64>(),
        lost in 0_u32..30,
        repeated in 0_u32..60,
        delay_ms in 0_u64..30,
        says_length in proptest::prelude::any::<bool>(),
        requests in proptest::collection::vec((0_usize..40_000, 0_usize..40_000), 1..6),
    ) {
        let faults = crate::Faults { lost, repeated, delay_ms };
        run(&Plan { faults, seed, requests, ..plan() }, says_length);
    }
}

/// How long such a client waits to be told to go.
const PATIENCE_MS: u64 = 200_000;

/// Makes the bytes of each round.
type Next = Box<dyn FnMut(u32) -> Vec<u8>>;

/// A client that sends frames that a test makes, until it is told to go.
struct Rough {
    line: Line,
    next: Next,
    count: u32,
    most: u32,
    got: Arc<Mutex<Vec<u8>>>,
}

impl Peer for Rough {
    fn tcp(&mut self) -> &mut Stack {
        &mut self.line.tcp
    }

    fn is_done(&self) -> bool {
        self.line.tcp.stage() == Stage::Closed
    }

    fn poll(&mut self, now: u64) {
        let got = self.line.read(now);
        self.got.lock().unwrap().extend(got);
        let mut bytes = Vec::new();
        if !self.line.tls.is_handshaking() && !self.line.tcp.has_ended() {
            if self.count == 0 {
                bytes.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                bytes.extend(frame(4, 0, 0, &[]));
            }
            let end = self.most.min(self.count + 50);
            for n in self.count..end {
                bytes.extend((self.next)(n));
            }
            self.count = end;
        }
        if self.line.tcp.has_ended() || now > PATIENCE_MS {
            self.line.close();
            bytes.clear();
        }
        self.line.write(&bytes, now);
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len().to_be_bytes();
    let mut frame = vec![length[5], length[6], length[7], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// GET / of www.example.org, in HPACK.
fn get() -> Vec<u8> {
    let mut fields = vec![0x82, 0x87, 0x84, 0x41, 15];
    fields.extend(b"www.example.org");
    fields
}

/// What the terminator answers to frames, and what has happened.
fn rough(most: u32, next: impl FnMut(u32) -> Vec<u8> + 'static) -> (Vec<u8>, Net) {
    rough_with(&plan(), most, next)
}

fn rough_with(
    plan: &Plan,
    most: u32,
    next: impl FnMut(u32) -> Vec<u8> + 'static,
) -> (Vec<u8>, Net) {
    let got = Arc::<Mutex<Vec<u8>>>::default();
    let theirs = Arc::clone(&got);
    let client = |ends, config| -> Box<dyn Peer> {
        let line = Line::new(ends, config, 1);
        Box::new(Rough { line, next: Box::new(next), count: 0, most, got: theirs })
    };
    let net = Net::with(plan, client).run();
    let got = got.lock().unwrap().clone();
    (got, net)
}

/// The frames of `bytes`: type, stream and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u32, Vec<u8>)> {
    let mut all = Vec::new();
    while bytes.len() >= 9 {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        all.push((bytes[3], stream, bytes[9..9 + length].to_vec()));
        bytes = &bytes[9 + length..];
    }
    all
}

/// The code of GOAWAY, if the client was sent one.
fn gone(bytes: &[u8]) -> Option<u32> {
    let all = frames(bytes);
    let (_, _, payload) = all.iter().rfind(|(kind, ..)| *kind == 7)?;
    Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()))
}

const CALM: u32 = 11;

#[test]
fn floods_of_frames_end_the_connection() {
    let window = |_| frame(8, 0, 0, &[0, 0, 0, 1]);
    let settings = |_| frame(4, 0, 0, &[]);
    let ping = |_| frame(6, 0, 0, &[1; 8]);
    let priority = |n: u32| frame(2, 0, n * 2 + 1, &[0; 5]);
    let unknown = |_| frame(0x77, 0, 0, &[]);
    let floods: [(&str, Next); 5] = [
        ("WINDOW_UPDATE", Box::new(window)),
        ("SETTINGS", Box::new(settings)),
        ("PING", Box::new(ping)),
        ("PRIORITY", Box::new(priority)),
        ("unknown", Box::new(unknown)),
    ];
    for (what, next) in floods {
        let (got, net) = rough(20_000, next);
        assert_eq!((gone(&got), net.count(Event::Flood)), (Some(CALM), 1), "{what}");
    }
}

#[test]
fn rapid_resets_end_the_connection() {
    let (got, net) = rough(20_000, |n| {
        let stream = n * 2 + 1;
        [frame(1, 5, stream, &get()), frame(3, 0, stream, &[0, 0, 0, 8])].concat()
    });
    assert_eq!(gone(&got), Some(CALM));
    let asked = net.count(Event::Request);
    assert!(asked <= 200, "{asked} requests went to backends");
}

#[test]
fn a_header_without_an_end_ends_the_connection() {
    let (got, net) = rough(20_000, |n| match n {
        0 => frame(1, 1, 1, &get()),
        _ => frame(9, 0, 1, &[0x00, 1, b'a', 1, b'b']),
    });
    assert_eq!(gone(&got), Some(CALM));
    assert_eq!(net.count(Event::Request), 0);
}

#[test]
fn a_header_that_rests_ends_the_connection() {
    let (got, net) = rough(1, |_| frame(1, 1, 1, &get()));
    assert_eq!((gone(&got), net.count(Event::Flood)), (Some(CALM), 1));
}

#[test]
fn empty_frames_of_a_body_end_the_connection() {
    let (got, _) = rough(20_000, |n| match n {
        0 => frame(1, 4, 1, &get()),
        _ => frame(0, 0, 1, &[]),
    });
    assert_eq!(gone(&got), Some(CALM));
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    // All of them have bodies that never come.
    let (got, net) = rough(150, |n| frame(1, 4, n * 2 + 1, &get()));
    let all = frames(&got);
    let refused: Vec<u32> = all
        .iter()
        .filter(|(kind, _, payload)| *kind == 3 && payload[..] == [0, 0, 0, 7])
        .map(|(_, stream, _)| *stream)
        .collect();
    assert_eq!(refused, (100..150).map(|n| n * 2 + 1).collect::<Vec<u32>>());
    assert_eq!(net.count(Event::Request), 16);
}

#[test]
fn a_header_that_is_too_long_is_answered() {
    let field = |n: u32| {
        let mut field = vec![0x00, 2, b'a', b'a' + n as u8, 0x7f, 0xd1, 0x0e];
        field.extend(vec![b'x'; 2_000]);
        field
    };
    let fields = [get(), (0..6).flat_map(field).collect()].concat();
    let (got, net) = rough(1, move |_| frame(1, 5, 1, &fields));
    assert_eq!(net.count(Event::Request), 0, "{:?}", frames(&got));
    assert!(frames(&got).iter().any(|(kind, stream, _)| *kind == 1 && *stream == 1));
}

#[test]
fn a_backend_that_is_not_believed_gets_no_request() {
    let plan = Plan { sealed: Some(false), ..plan() };
    let (got, net) = rough_with(&plan, 1, |_| frame(1, 5, 1, &get()));
    assert_eq!((net.distrusted().len(), net.count(Event::BackendFailed)), (1, 1));
    // A literal :status of 502 in HPACK, its digits in Huffman's code.
    let all = frames(&got);
    let (_, _, fields) = all.iter().find(|(kind, ..)| *kind == 1).unwrap();
    assert!(fields.windows(4).any(|own| own == [0x48, 0x82, 0x6c, 0x02]), "{fields:02x?}");
    assert_eq!(net.served(), 0);
}

#[test]
fn a_quiet_connection_ends() {
    let (got, _) = rough(1, |_| frame(6, 0, 0, &[1; 8]));
    assert_eq!(gone(&got), Some(0));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 48, ..Default::default() })]
    /// Whatever frames a client sends, everything is given back in the end.
    #[test]
    fn no_frames_do_harm(
        sent in proptest::collection::vec(
            (0_u8..11, 0_u8..64, 0_u32..8, proptest::collection::vec(0_u8.., 0..40)),
            0..40,
        ),
        begins in proptest::prelude::any::<bool>(),
    ) {
        let most = sent.len() as u32;
        let (_, net) = rough(most, move |n| {
            let (kind, flags, stream, payload) = &sent[n as usize];
            let payload = if *kind == 1 && begins { get() } else { payload.clone() };
            frame(*kind, *flags, *stream, &payload)
        });
        proptest::prop_assert_eq!((net.usage(), net.claimed()), (terminate::Usage::default(), 0));
    }
}
