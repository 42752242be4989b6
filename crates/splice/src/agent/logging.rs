//! Requests are logged as soon as the last byte of their responses has passed.
use packet::PacketBuf;

use super::Common;
use crate::connection::Conn;
use crate::edits::before;
use crate::record::{Record, UNREAD};
use crate::request::Request;
use crate::response::{Heard, Whole};
use crate::segment::Received;
use crate::world::{Event, Peer, World};

impl Common {
    /// Begins the record of a request that goes to the backend, if it is logged. `bytes`:
    /// those that it has so far.
    pub(crate) fn begin_record<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        request: &Request<'_>,
        (id, bytes): (u64, u64),
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if !world.logs(conn.service) {
            return;
        }
        let mut record = Record::new((conn.client(), conn.service), Some(request), now_ms);
        record.route = world.route_of(conn.service, request);
        record.backend = conn.backend.map(|at| Peer { at, id: conn.id });
        (record.id, record.bytes) = (id, [bytes, 0]);
        if conn.blind || conn.guesses {
            // Which response is its own would be a guess.
            return world.log(&Record { why: UNREAD, ..record });
        }
        if !self.records.push(&mut conn.records, record, conn.responses.last()) {
            world.count(Event::Unlogged);
        }
    }

    /// More bytes of the last request have come.
    pub(crate) fn grow_record(&mut self, conn: &Conn, bytes: usize) {
        if let Some(record) = self.records.find(conn.records, conn.responses.last()) {
            let [up, _] = &mut record.bytes;
            *up += bytes as u64;
        }
    }

    /// Tells the world of what was read in the backend's bytes before `end`.
    pub(crate) fn hear<B: PacketBuf>(
        &mut self,
        conn: &Conn,
        heard: Heard,
        end: u32,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        match heard {
            Heard::Head(head, _) if head.is_interim() => {}
            Heard::Head(head, number) => {
                let waited_ms = conn.tell(&head, now_ms, world);
                self.records.begin(conn.records, number, end);
                if let Some(record) = self.records.find(conn.records, number) {
                    (record.status, record.first_byte_ms) = (head.status, Some(waited_ms));
                }
            }
            Heard::Whole(Whole { number, bytes }) => {
                self.records.end(conn.records, number, (end, bytes));
            }
        }
    }

    /// Notes a response that was read to its end, whose last byte may not have come yet.
    pub(crate) fn hear_end(&mut self, conn: &mut Conn) {
        if let Some(Whole { number, bytes }) = conn.responses.take_whole() {
            self.records.end(conn.records, number, (conn.response_next, bytes));
        }
    }

    /// Logs the requests whose responses end in the backend's segment, or before it.
    pub(super) fn log_passed<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        got: &Received,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let end = got.outline.sequence.wrapping_add((got.end - got.data) as u32);
        self.log_until(conn, end, now_ms, world);
    }

    /// Logs the requests whose responses end before the backend's number `end`.
    pub(crate) fn log_until<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        end: u32,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        while let Some((record, _)) = self.records.pop(&mut conn.records, Some(end)) {
            let duration_ms = now_ms.saturating_sub(record.at_ms);
            world.log(&Record { duration_ms, ..record });
        }
    }

    /// Logs all other requests: their responses end here, or are not read on. Those that are
    /// not whole have `why`.
    pub(crate) fn log_all<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        why: &'static str,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let [_, server_ended] = conn.ended;
        let is_all = server_ended && conn.responses.is_all();
        let acked = conn.to_server(conn.acked, false);
        while let Some((mut record, begun)) = self.records.pop(&mut conn.records, None) {
            record.duration_ms = now_ms.saturating_sub(record.at_ms);
            let [_, down] = &mut record.bytes;
            if *down == 0 {
                let passed = begun.filter(|begun| before(*begun, acked));
                *down = passed.map_or(0, |begun| acked.wrapping_sub(begun).into());
                // A response may end with its connection.
                record.why = if is_all && record.status > 0 { "" } else { why };
            }
            world.log(&record);
        }
    }

    /// Logs a request that the agent answers itself with `bytes` bytes.
    pub(super) fn log_answer<B: PacketBuf>(
        conn: &Conn,
        (status, why): (u16, &'static str),
        bytes: usize,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        if !world.logs(conn.service) {
            return;
        }
        let asked = conn.block.as_ref().map(|block| block.bytes()).unwrap_or_default();
        let request = Request::parse(asked).ok().flatten();
        let mut record = Record::new((conn.client(), conn.service), request.as_ref(), now_ms);
        record.route = request.and_then(|request| world.route_of(conn.service, &request));
        (record.status, record.why) = (status, why);
        record.bytes = [asked.len() as u64, bytes as u64];
        world.log(&record);
    }
}
