//! Handshakes in memory: how long the server's side takes.
use rustls::{ClientConnection, HandshakeKind, ServerConnection};

use super::certificate::{Ends, KeyExchange, Signature};
use super::options::{CryptoBenchError, Options};
use super::records::Times;
use super::row::{Row, What};

/// Turns until a handshake counts as stuck: a full one takes three.
const TURNS: usize = 16;

/// A kind of handshake, and the server's times for it.
pub(super) struct Handshakes {
    ends: Ends,
    algorithm: String,
    resumed: bool,
    times: Times,
}

impl Handshakes {
    /// Every certificate and key exchange, full and resumed.
    pub(super) fn all() -> Result<Vec<Self>, CryptoBenchError> {
        let mut all = Vec::new();
        for signature in Signature::ALL {
            for exchange in KeyExchange::ALL {
                let ends = Ends::new(signature, exchange)?;
                for (resumed, kind) in [(false, "full"), (true, "resumed")] {
                    let algorithm = format!("{} {} {kind}", signature.name(), exchange.name());
                    let (ends, times) = (ends.clone(), Times::default());
                    all.push(Self { ends, algorithm, resumed, times });
                }
            }
        }
        Ok(all)
    }

    /// One repetition.
    pub(super) fn repeat(&mut self, options: Options) -> Result<(), CryptoBenchError> {
        let mut times = Vec::with_capacity(options.handshakes());
        // The first one gives the client its tickets.
        connect(&self.ends, self.resumed)?;
        for _ in 0..options.handshakes() {
            let (server, cycles) = connect(&self.ends, self.resumed)?;
            let kind = server.handshake_kind();
            if (kind == Some(HandshakeKind::Resumed)) != self.resumed {
                return Err(rustls::Error::General(format!("a handshake was {kind:?}")).into());
            }
            times.push(cycles);
        }
        self.times.add(times, 1.0);
        Ok(())
    }

    pub(super) fn row(&self) -> Row {
        self.times.row(What::Handshake, "rustls", &self.algorithm, 0)
    }
}

/// A handshake up to its end on both sides; the server and the cycles of its side.
pub(super) fn connect(
    ends: &Ends,
    resumes: bool,
) -> Result<(ServerConnection, u64), CryptoBenchError> {
    let mut client = ends.client(resumes)?;
    let begin = dpdk::cycles();
    let mut server = ServerConnection::new(ends.server.clone())?;
    let mut cycles = dpdk::cycles() - begin;
    let mut wire = Vec::with_capacity(8192);
    for _ in 0..TURNS {
        send(&mut client, &mut wire)?;
        let begin = dpdk::cycles();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest)?;
            server.process_new_packets()?;
        }
        wire.clear();
        while server.wants_write() {
            server.write_tls(&mut wire)?;
        }
        cycles += dpdk::cycles() - begin;
        let idle = wire.is_empty();
        receive(&mut client, &mut wire)?;
        if idle && !client.is_handshaking() && !server.is_handshaking() {
            return Ok((server, cycles));
        }
    }
    Err(rustls::Error::General("a handshake has no end".to_owned()).into())
}

fn send(client: &mut ClientConnection, wire: &mut Vec<u8>) -> Result<(), CryptoBenchError> {
    while client.wants_write() {
        client.write_tls(wire)?;
    }
    Ok(())
}

fn receive(client: &mut ClientConnection, wire: &mut Vec<u8>) -> Result<(), CryptoBenchError> {
    let mut rest = wire.as_slice();
    while !rest.is_empty() {
        client.read_tls(&mut rest)?;
        client.process_new_packets()?;
    }
    wire.clear();
    Ok(())
}
