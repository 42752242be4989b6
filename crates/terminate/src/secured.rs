//! The client's side of a connection: records over a TCP end point.
use std::net::IpAddr;

use tls::{
    Alert, ClientCertificate, Established, Finished, Handshake, Incoming, OVERHEAD, Progress,
    Session, Started, Successor, Tls,
};

use crate::endpoint::{Endpoint, Stage};
use crate::event::Event;

/// Plain bytes that are held before more records are opened: a record's worth.
const HELD: usize = tls::MAX_PAYLOAD;

/// How far the client and the service are with each other.
enum Phase {
    /// The handshake waits for the client's bytes; `None`: it is with the pool.
    Handshake(Option<Box<Handshake>>),
    /// Records go both ways.
    Open(Box<Session>, Box<Successor>),
    /// Nothing is read or written any more.
    Over,
}

/// A client's TLS connection.
pub(crate) struct Secured<E> {
    pub(crate) tcp: E,
    phase: Phase,
    /// Bytes of records that are not open yet.
    sealed: Vec<u8>,
    /// The client's data, and how much of it was consumed.
    plain: Vec<u8>,
    consumed: usize,
    /// Sealed bytes that the end point has no room for yet.
    unsent: Vec<u8>,
    /// Whether the client has said that it sends no more.
    ended: bool,
    /// Whether it ended without saying so: what has come may not be all (RFC 8446 section
    /// 6.1).
    cut: bool,
    closing: bool,
    pub(crate) name: Option<String>,
    pub(crate) alpn: Option<String>,
    pub(crate) certificate: Option<Box<ClientCertificate>>,
}

impl<E: Endpoint> Secured<E> {
    /// A connection over `tcp`; `None`: the service's configuration is refused.
    pub(crate) fn new(tcp: E, tls: &Tls) -> Option<Self> {
        let handshake = Handshake::new(tls).ok()?;
        Some(Self {
            tcp,
            phase: Phase::Handshake(Some(handshake)),
            sealed: Vec::new(),
            plain: Vec::new(),
            consumed: 0,
            unsent: Vec::new(),
            ended: false,
            cut: false,
            closing: false,
            name: None,
            alpn: None,
            certificate: None,
        })
    }

    /// Whether the handshake is done.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(..))
    }

    /// The version of TLS; empty before the handshake is done.
    pub(crate) const fn version(&self) -> &'static str {
        match &self.phase {
            Phase::Open(session, _) => session.version().name(),
            _ => "",
        }
    }

    /// Takes a step of the handshake, if the client has said something: what goes to the
    /// pool.
    pub(crate) fn handshake(&mut self, of: (u64, u32, IpAddr)) -> Option<Started> {
        let Phase::Handshake(waiting) = &mut self.phase else { return None };
        let bytes = self.tcp.readable();
        if waiting.is_none() || bytes.is_empty() {
            return None;
        }
        let (handshake, bytes) = (waiting.take()?, bytes.to_vec());
        self.tcp.consume(bytes.len());
        let (connection, service, client) = of;
        Some(Started { connection, service, client, handshake, bytes })
    }

    /// Takes a handshake back from the pool.
    pub(crate) fn finished(&mut self, finished: Finished) -> Option<Event> {
        if !matches!(self.phase, Phase::Handshake(None)) {
            return None;
        }
        self.unsent.extend(finished.out);
        match finished.progress {
            Ok(Progress::More(handshake)) => {
                self.phase = Phase::Handshake(Some(handshake));
                None
            }
            Ok(Progress::Established(established)) => {
                let Established { secrets, successor, data, rest, .. } = *established;
                (self.name, self.alpn) = (established.server_name, established.alpn);
                self.certificate = established.client_certificate;
                self.plain.extend(data);
                self.ended |= established.closed;
                self.sealed.extend(rest);
                match Session::new(&secrets) {
                    Some(session) => {
                        self.phase = Phase::Open(Box::new(session), Box::new(successor));
                        Some(Event::Established)
                    }
                    None => Some(self.fail()),
                }
            }
            Err(error) => {
                let failed = self.fail();
                Some(error.client().map_or(failed, Event::ClientRefused))
            }
        }
    }

    /// Ends a connection whose client gets nothing more but what is unsent.
    fn fail(&mut self) -> Event {
        self.phase = Phase::Over;
        self.closing = true;
        Event::HandshakeFailed
    }

    /// Opens what records have come, and hands what is sealed to TCP. Returns whether
    /// there was anything, and an error.
    pub(crate) fn pump(&mut self) -> (bool, Option<Event>) {
        let mut moved = self.flush();
        let (mut event, mut lacks) = (None, false);
        while self.unread() < HELD && event.is_none() {
            match self.open_one() {
                Ok(true) => moved = true,
                Ok(false) => {
                    lacks = true;
                    break;
                }
                Err(alert) => {
                    self.alert(alert);
                    event = Some(Event::BadRecord);
                }
            }
        }
        // Before that the pool may have the client's last bytes, or records that are whole wait.
        if lacks && self.is_open() && self.tcp.has_ended() && !self.ended {
            // Without close_notify data may be missing, which HTTP's own framing tells.
            (self.ended, self.cut, moved) = (true, true, true);
        }
        (moved | self.flush(), event)
    }

    /// Opens the next record, if it is whole.
    fn open_one(&mut self) -> Result<bool, Option<Alert>> {
        let Self { tcp, phase: Phase::Open(session, successor), sealed, plain, unsent, .. } = self
        else {
            return Ok(false);
        };
        let wanted = loop {
            let record =
                session.peek(sealed).map_err(|error| tls::SessionError::from(error).alert())?;
            let wanted = record.map_or(tls::HEADER_LEN, |record| record.len);
            if record.is_some() && sealed.len() >= wanted {
                break wanted;
            }
            let bytes = tcp.readable();
            let missing = wanted.saturating_sub(sealed.len()).min(bytes.len());
            if missing == 0 {
                return Ok(false);
            }
            sealed.extend_from_slice(bytes.get(..missing).unwrap_or_default());
            tcp.consume(missing);
        };
        let Some(record) = sealed.get_mut(..wanted) else { return Ok(false) };
        match session.open(record).map_err(tls::SessionError::alert)? {
            Incoming::Data(place) => {
                if self.consumed == plain.len() {
                    plain.clear();
                    self.consumed = 0;
                }
                plain.extend_from_slice(record.get(place).unwrap_or_default());
            }
            Incoming::Close => self.ended = true,
            Incoming::KeyUpdate { answer } => {
                let key = successor.next_receive().ok_or(None)?;
                session.set_receive(&key).map_err(tls::SessionError::alert)?;
                if answer {
                    renew(session, successor, unsent)?;
                }
            }
            Incoming::Nothing => {}
        }
        if sealed.len() == wanted {
            sealed.clear();
        } else {
            sealed.drain(..wanted);
        }
        Ok(true)
    }

    fn unread(&self) -> usize {
        self.plain.len() - self.consumed
    }

    /// The client's data that was not consumed.
    pub(crate) fn plain(&self) -> &[u8] {
        self.plain.get(self.consumed..).unwrap_or_default()
    }

    /// Forgets data.
    pub(crate) fn consume(&mut self, n: usize) {
        self.consumed = (self.consumed + n).min(self.plain.len());
    }

    /// Whether the client sends no more than [`Secured::plain`].
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the client's data may have been cut short.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }

    /// How many sealed bytes the client has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.unsent.len() + self.tcp.unacknowledged()
    }

    /// How many bytes of data [`Secured::write`] takes.
    pub(crate) fn room(&self) -> usize {
        if self.closing || !self.is_open() || !self.unsent.is_empty() {
            return 0;
        }
        self.tcp.room().saturating_sub(OVERHEAD).min(tls::MAX_PAYLOAD)
    }

    /// Seals data, [`Secured::room`] bytes at most, into one record.
    pub(crate) fn write(&mut self, data: &[u8]) -> Option<()> {
        let Self { phase: Phase::Open(session, successor), unsent, .. } = self else {
            return None;
        };
        if session.is_worn() && renew(session, successor, unsent).is_err() {
            // TLS 1.2 has no other key.
            self.close();
            return None;
        }
        let at = unsent.len();
        unsent.resize(at + data.len() + OVERHEAD, 0);
        let sealed = session.seal(data, unsent.get_mut(at..).unwrap_or_default()).ok();
        unsent.truncate(at + sealed.unwrap_or(0));
        self.flush();
        sealed.map(|_| ())
    }

    /// Ends this direction behind what was written.
    pub(crate) fn close(&mut self) {
        if !self.closing {
            self.alert(Some(Alert::CLOSE));
        }
    }

    /// Ends the connection with a fatal alert.
    pub(crate) fn refuse(&mut self, alert: Alert) {
        if !self.closing {
            self.alert(Some(alert));
        }
    }

    /// Tells the client why the connection ends, and ends it.
    fn alert(&mut self, alert: Option<Alert>) {
        if let (Phase::Open(session, _), Some(alert)) = (&mut self.phase, alert) {
            let mut out = [0; 2 + OVERHEAD];
            if let Ok(length) = session.seal_alert(alert, &mut out) {
                self.unsent.extend_from_slice(out.get(..length).unwrap_or_default());
            }
        }
        if alert != Some(Alert::CLOSE) {
            self.phase = Phase::Over;
        }
        self.closing = true;
        self.flush();
    }

    /// Hands sealed bytes to TCP, and the end behind them.
    fn flush(&mut self) -> bool {
        if !self.unsent.is_empty() {
            let written = self.tcp.write(&self.unsent);
            self.unsent.drain(..written);
            return written > 0;
        }
        if self.closing && self.tcp.stage() == Stage::Open {
            self.tcp.close();
        }
        false
    }
}

/// Goes over to the service's next key.
fn renew(
    session: &mut Session,
    successor: &mut Successor,
    unsent: &mut Vec<u8>,
) -> Result<(), Option<Alert>> {
    let key = successor.next_transmit().ok_or(None)?;
    let mut out = [0; 5 + OVERHEAD];
    let length = session.update_transmit(&key, &mut out).map_err(tls::SessionError::alert)?;
    unsent.extend_from_slice(out.get(..length).unwrap_or_default());
    Ok(())
}
