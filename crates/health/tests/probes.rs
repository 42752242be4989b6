//! Real probes of real servers on the loopback: what passes, and what does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use health::{Board, Check, HttpCheck, Settings, State, Target, TargetKey};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, UdpSocket};
use tokio_rustls::TlsAcceptor;

/// Longer than any of these tests takes: nothing depends on the speed of the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers on the loopback, until they are dropped.
struct Servers(tokio::runtime::Runtime);

impl Servers {
    fn new() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Self(builder.worker_threads(1).enable_all().build().unwrap())
    }

    fn listener(&self) -> (TcpListener, SocketAddr) {
        let listener = self.0.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    /// HTTP/1.1, over TLS with `tls`.
    fn web(&self, tls: Option<TlsAcceptor>) -> SocketAddr {
        let (listener, at) = self.listener();
        self.0.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                tokio::spawn(async move {
                    let http = http1::Builder::new();
                    match tls {
                        None => http.serve_connection(TokioIo::new(stream), service_fn(page)).await,
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            let stream = TokioIo::new(stream);
                            http.serve_connection(stream, service_fn(page)).await
                        }
                    }
                    .ok();
                });
            }
        });
        at
    }

    /// gRPC health: the service "dead" is not serving.
    fn grpc(&self) -> SocketAddr {
        let (listener, at) = self.listener();
        self.0.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let http = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service_fn(grpc)));
            }
        });
        at
    }

    /// DNS: a name that begins with a digit gets an answer of that code.
    fn dns(&self) -> SocketAddr {
        let socket = self.0.block_on(UdpSocket::bind("127.0.0.1:0")).unwrap();
        let at = socket.local_addr().unwrap();
        self.0.spawn(async move {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                let code = packet[13].saturating_sub(b'0') & 15;
                // A wrong id first: it must not count.
                let mut answer = packet[..length].to_vec();
                answer[2] |= 0x80;
                let mut other = answer.clone();
                other[0] ^= 1;
                answer[3] = (answer[3] & 0xf0) | code;
                let _ = socket.send_to(&other, from).await;
                let _ = socket.send_to(&answer, from).await;
            }
        });
        at
    }
}

async fn page(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let status = request.uri().path().trim_start_matches('/').parse().unwrap_or(200);
    let host = request.headers().get("host").map_or("", |host| host.to_str().unwrap());
    let probe = request.headers().get("x-probe").map_or("", |probe| probe.to_str().unwrap());
    let body = Bytes::from(format!("host {host} probe {probe} all is well"));
    Ok(Response::builder().status(status).body(Full::new(body)).unwrap())
}

type Body = StreamBody<futures_like::Frames>;

async fn grpc(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
    let question = request.into_body().collect().await.unwrap().to_bytes();
    let dead = question.ends_with(b"dead");
    let answer = Bytes::from(vec![0, 0, 0, 0, 2, 8, if dead { 2 } else { 1 }]);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = vec![Frame::data(answer), Frame::trailers(trailers)];
    Ok(Response::new(StreamBody::new(futures_like::Frames(frames.into_iter()))))
}

/// A stream of frames that are all there.
mod futures_like {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::{Bytes, Frame};

    pub(crate) struct Frames(pub(crate) std::vec::IntoIter<Frame<Bytes>>);

    impl futures_core::Stream for Frames {
        type Item = Result<Frame<Bytes>, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            Poll::Ready(self.0.next().map(Ok))
        }
    }
}

fn target(name: &str, at: SocketAddr, check: Check, timeout: Duration) -> Target {
    let key = TargetKey { service: name.to_owned(), address: at.ip(), port: Some(at.port()) };
    let timeout_ms = timeout.as_millis() as u64;
    let settings =
        Settings { interval_ms: 20, timeout_ms, rise: 1, fall: 1, jitter: 10, slow_start_ms: 0 };
    Target { key, at, check, settings }
}

/// What each target is after its first probe, and why.
fn first_of_each(targets: Vec<Target>) -> Vec<(String, State, String)> {
    let (want, wanted) = channel();
    let (tell, told) = channel();
    let (board, stop) = (Board::default(), AtomicBool::new(false));
    let mut left = targets.len();
    want.send(targets).unwrap();
    let mut all = std::thread::scope(|scope| {
        let (stop, board) = (&stop, &board);
        scope.spawn(move || health::run((&wanted, &tell), board, 1, stop).unwrap());
        let mut all = Vec::new();
        let began = Instant::now();
        while left > 0 {
            assert!(began.elapsed() < PATIENCE, "{left} targets have no state: {all:?}");
            let Ok(one) = told.recv_timeout(Duration::from_millis(100)) else { continue };
            let record = board.get(&one.key).unwrap();
            assert!(record.passed + record.failed >= 1);
            all.push((one.key.service, one.change.state, one.change.why));
            left -= 1;
        }
        stop.store(true, Ordering::Relaxed);
        all
    });
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn http(path: &str, body: &str) -> HttpCheck {
    HttpCheck {
        path: path.to_owned(),
        host: Some("www.example.com".to_owned()),
        headers: vec![("x-probe".to_owned(), "7".to_owned())],
        status: 200..=399,
        body: body.to_owned(),
    }
}

fn command(script: &str) -> Check {
    Check::Command { argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec() }
}

fn tls() -> TlsAcceptor {
    let own = rcgen::generate_simple_self_signed(vec!["other.example".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[test]
fn each_check_passes_and_fails_by_what_the_server_answers() {
    let servers = Servers::new();
    let (web, secure) = (servers.web(None), servers.web(Some(tls())));
    let (grpc, dns) = (servers.grpc(), servers.dns());
    // Bound and gone: nobody listens there.
    let gone = servers.listener().1;
    // Listens, and answers nothing.
    let (_silent, silent) = servers.listener();
    let grpc_of = |service: &str| Check::Grpc { service: service.to_owned() };
    let dns_of = |name: &str| Check::Dns { name: name.to_owned() };
    let short = Duration::from_millis(300);
    let cases = [
        ("tcp", web, Check::Tcp, None),
        ("tcp, nobody listens", gone, Check::Tcp, Some("refused")),
        ("http", web, Check::Http(http("/", "all is well")), None),
        ("http with headers", web, Check::Http(http("/", "host www.example.com probe 7 ")), None),
        ("http, 500", web, Check::Http(http("/500", "")), Some("status 500")),
        ("http, another body", web, Check::Http(http("/", "nonsense")), Some("'nonsense'")),
        ("http to tls", secure, Check::Http(http("/", "")), Some("HTTP")),
        ("https", secure, Check::Https(http("/204", "")), None),
        ("https, 503", secure, Check::Https(http("/503", "")), Some("status 503")),
        ("https to http", web, Check::Https(http("/", "")), Some("TLS")),
        ("grpc", grpc, grpc_of(""), None),
        ("grpc, not serving", grpc, grpc_of("dead"), Some("serving status 2")),
        ("grpc to http/1", web, grpc_of(""), Some("HTTP/2")),
        ("dns", dns, dns_of("0.example"), None),
        ("dns, no such name", dns, dns_of("3.example"), None),
        ("dns, server failure", dns, dns_of("2.example"), Some("code 2")),
        ("command", web, command("test \"$HNLB_ADDRESS\" = 127.0.0.1"), None),
        ("command fails", web, command("echo broken disk >&2; exit 3"), Some("broken disk")),
        ("command not there", web, Check::Command { argv: vec!["/no".into()] }, Some("/no")),
    ];
    let mut expected: Vec<_> = cases.iter().map(|case| (case.0, case.3)).collect();
    let mut targets: Vec<Target> = cases
        .iter()
        .map(|(name, at, check, _)| target(name, *at, check.clone(), PATIENCE))
        .collect();
    for (name, check) in [
        ("slow http", Check::Http(http("/", ""))),
        ("slow https", Check::Https(http("/", ""))),
        ("slow command", command("sleep 600")),
    ] {
        targets.push(target(name, silent, check, short));
        expected.push((name, Some("no answer within 300 ms")));
    }
    expected.sort_unstable();
    let found = first_of_each(targets);
    assert_eq!(found.len(), expected.len());
    for ((name, state, why), (wanted, reason)) in found.iter().zip(&expected) {
        assert_eq!(name, wanted);
        let right = match reason {
            None => *state == State::Up && why.is_empty(),
            Some(reason) => *state == State::Down && why.contains(reason),
        };
        assert!(right, "{name}: {state:?}, {why}");
    }
}

#[test]
fn an_echo_of_the_loopback_passes() {
    let allowed = socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::RAW,
        Some(socket2::Protocol::ICMPV4),
    );
    if allowed.is_err() {
        println!("skipped: ICMP sockets need root");
        return;
    }
    let at = |text: &str| text.parse().unwrap();
    let targets = vec![
        target("v4", at("127.0.0.1:0"), Check::Icmp, PATIENCE),
        // The kernel sends nothing there, whatever network this is.
        target("nobody", at("255.255.255.255:0"), Check::Icmp, PATIENCE),
    ];
    let states: Vec<State> = first_of_each(targets).into_iter().map(|one| one.1).collect();
    assert_eq!(states, [State::Down, State::Up]);
}
