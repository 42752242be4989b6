//! Connections whose records are not read: what goes in comes out at a server that sends
//! all back, and ends are handed on as they come.
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use proptest::prelude::*;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection, Error};
use splice::Rejection;
use terminate::{Buffers, Carries, Endpoint, Event, Stack, Stage, Usage};

use crate::client::{Peer, body};
use crate::link::Faults;
use crate::net::{Net, Plan};
use crate::plan;

/// How a client ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// close_notify and FIN behind the last byte; it reads on.
    Sealed,
    /// FIN alone.
    Cut,
    /// It waits for the end of the server's, which does not come in order.
    Refused(AlertDescription),
}

/// A client that sends bytes and wants them back.
struct Speaker {
    tcp: Stack,
    tls: ClientConnection,
    unsent: Vec<u8>,
    length: usize,
    asked: bool,
    got: Vec<u8>,
    ending: Ending,
    /// Whether the server has said within TLS that it has ended.
    told: bool,
    failed: Option<Error>,
}

impl Speaker {
    fn boxed(
        ends: [SocketAddr; 2],
        config: Arc<ClientConfig>,
        length: usize,
        ending: Ending,
    ) -> Box<dyn Peer> {
        let buffers = Buffers { receive: 40_000, send: 40_000 };
        let tcp = Stack::connect(ends, buffers, 1_400, 5).unwrap();
        let name = ServerName::try_from("WWW.example.org").unwrap();
        let mut tls =
            ClientConnection::new_with_alpn(config, name, vec![b"http/1.1".to_vec()]).unwrap();
        tls.set_buffer_limit(None);
        let (unsent, got) = (Vec::new(), Vec::new());
        let (asked, told, failed) = (false, false, None);
        Box::new(Self { tcp, tls, unsent, length, asked, got, ending, told, failed })
    }

    fn read(&mut self) {
        while self.failed.is_none() && !self.told {
            let bytes = self.tcp.readable().to_vec();
            if bytes.is_empty() {
                break;
            }
            let taken = self.tls.read_tls(&mut &bytes[..]).unwrap();
            self.tcp.consume(taken);
            match self.tls.process_new_packets() {
                Ok(state) => {
                    self.told |= state.peer_has_closed();
                    let mut plain = vec![0; state.plaintext_bytes_to_read()];
                    let n = self.tls.reader().read(&mut plain).unwrap_or(0);
                    self.got.extend(&plain[..n]);
                }
                Err(error) => self.failed = Some(error),
            }
        }
    }
}

impl Peer for Speaker {
    fn tcp(&mut self) -> &mut Stack {
        &mut self.tcp
    }

    fn is_done(&self) -> bool {
        let is_over = self.tcp.stage() == Stage::Closed;
        match self.ending {
            Ending::Sealed if is_over => {
                assert!(self.got == body(self.length, 1), "{} bytes came back", self.got.len());
                // Over a bad link a reset may follow: the last acknowledgement was lost.
                assert_eq!((self.told, &self.failed), (true, &None), "the end was not in order");
                true
            }
            Ending::Refused(alert) if is_over => {
                assert_eq!(self.failed, Some(Error::AlertReceived(alert)));
                true
            }
            _ => is_over,
        }
    }

    fn poll(&mut self, now: u64) {
        self.tcp.poll(now);
        self.read();
        if !self.asked && !self.tls.is_handshaking() {
            self.tls.writer().write_all(&body(self.length, 1)).unwrap();
            if self.ending == Ending::Sealed {
                self.tls.send_close_notify();
            }
            self.asked = true;
        }
        while self.tls.wants_write() && self.unsent.len() < 100_000 {
            self.tls.write_tls(&mut self.unsent).unwrap();
        }
        let written = self.tcp.write(&self.unsent);
        self.unsent.drain(..written);
        let ends = match self.ending {
            Ending::Refused(_) => self.failed.is_some(),
            _ => self.asked,
        };
        if ends && self.unsent.is_empty() && self.tcp.stage() == Stage::Open {
            self.tcp.close();
        }
        self.tcp.poll(now);
    }
}

fn run(plan: &Plan, length: usize, ending: Ending) -> Net {
    Net::with(plan, |ends, config| Speaker::boxed(ends, config, length, ending)).run()
}

fn bytes() -> Plan {
    Plan { carries: Carries::Bytes, ..plan() }
}

#[test]
fn bytes_come_back_and_ends_are_handed_on() {
    for (v6, tls12, sealed, length) in [
        (false, false, None, 0),
        (true, false, None, 1),
        (false, true, None, 300_000),
        (false, false, Some(true), 300_000),
        (true, true, Some(true), 16_385),
    ] {
        let net = run(&Plan { v6, tls12, sealed, ..bytes() }, length, Ending::Sealed);
        assert_eq!((net.usage(), net.claimed(), net.resets()), (Usage::default(), 0, 0));
        assert_eq!(net.count(Event::Directed), 1);
        let wish = (Some("www.example.org".to_owned()), Some("http/1.1".to_owned()));
        assert_eq!(net.wishes(), [wish]);
    }
}

#[test]
fn a_backend_that_refuses_is_passed_over() {
    let net = run(&Plan { dead: 2, ..bytes() }, 1000, Ending::Sealed);
    assert_eq!(net.count(Event::BackendFailed), 2);
    let alert = Ending::Refused(AlertDescription::InternalError);
    let net = run(&Plan { dead: 3, ..bytes() }, 1000, alert);
    assert_eq!(net.count(Event::Rejected(Rejection::BackendRefused)), 1, "{:?}", net.events());
    assert_eq!((net.usage(), net.claimed()), (Usage::default(), 0));
}

#[test]
fn a_backend_that_is_not_believed_gets_no_byte() {
    let alert = Ending::Refused(AlertDescription::InternalError);
    let net = run(&Plan { sealed: Some(false), ..bytes() }, 1000, alert);
    assert_eq!((net.distrusted().len(), net.count(Event::BackendFailed)), (1, 1));
}

#[test]
fn an_end_that_is_not_sealed_resets_the_backend() {
    let net = run(&bytes(), 10_000, Ending::Cut);
    assert_eq!((net.count(Event::Cut), net.resets()), (1, 1), "{:?}", net.events());
    assert_eq!((net.usage(), net.claimed()), (Usage::default(), 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]
    #[test]
    fn bad_links_change_no_byte(
        seed in any::<u64>(),
        tls12 in any::<bool>(),
        lost in 0_u32..40,
        repeated in 0_u32..40,
        delay_ms in 0_u64..40,
        sealed in any::<bool>(),
        length in 0_usize..120_000,
    ) {
        let faults = Faults { lost, repeated, delay_ms };
        let sealed = sealed.then_some(true);
        run(&Plan { faults, tls12, seed, sealed, ..bytes() }, length, Ending::Sealed);
    }
}
