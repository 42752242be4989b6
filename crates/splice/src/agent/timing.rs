//! What is due on a connection without a packet.
use packet::PacketBuf;

use super::Common;
use crate::connection::{Conn, Reading, State};
use crate::refusal::Refusal;
use crate::world::{Event, Speaks, World};

const HALF_MS: u64 = 10_000;
const LINGER_MS: u64 = 30_000;
/// How long a client may take to its first byte; browsers open connections in advance.
const SILENT_MS: u64 = 60_000;
const ANSWER_MS: u64 = 1_000;
const SYN_MS: u64 = 1_000;
/// How often an answer is sent.
const ANSWERS: u8 = 5;
/// How often a backend is sent a SYN.
const SYNS: u8 = 2;

impl Common {
    /// What is due without a packet.
    pub(super) fn timers<B: PacketBuf>(
        &mut self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let age = now_ms.saturating_sub(conn.since_ms);
        let silent = now_ms.saturating_sub(conn.seen_ms.max(conn.since_ms));
        match conn.state {
            State::Half if age >= HALF_MS => conn.become_(State::Gone, now_ms),
            State::Half if conn.speaks == Speaks::Any => self.repeat_syn_ack(conn, now_ms, world),
            State::Front if age >= self.settings.header_ms => match &conn.block {
                Some(_) => self.answer(conn, Refusal::Slow, now_ms, world),
                None if age >= self.settings.idle_ms.min(SILENT_MS) => {
                    world.count(Event::Silent);
                    Self::dismiss(conn, now_ms, world);
                }
                None => {}
            },
            State::Connecting(sent) if age >= SYN_MS * u64::from(sent) => {
                if sent < SYNS {
                    self.connect(conn, world);
                } else {
                    self.reset_backend(conn, world);
                    self.next_backend(conn, Refusal::BackendSilent, now_ms, world);
                }
            }
            State::Answering(sent) if age >= ANSWER_MS => {
                if sent < ANSWERS {
                    self.send_answer(conn, now_ms, world);
                } else {
                    conn.become_(State::Gone, now_ms);
                }
            }
            State::Answered | State::Closing | State::Reset if silent >= LINGER_MS => {
                conn.become_(State::Gone, now_ms);
            }
            State::Open if silent >= self.settings.idle_ms => conn.become_(State::Gone, now_ms),
            State::Closing => self.repeat_insertion(conn, now_ms, world),
            State::Open => {
                if conn.speaks == Speaks::Any && conn.reading == Reading::Header {
                    // There was no room for the header of the PROXY protocol.
                    self.pass_first(conn, now_ms, world);
                }
                self.repeat_insertion(conn, now_ms, world);
                self.repeat_owned(conn, now_ms, world);
                self.repeat_response(conn, now_ms, world);
            }
            _ => {}
        }
    }

    /// Answers the SYN again. A client that waits for the server to speak does not send its
    /// acknowledgement again if it got lost; other clients repeat their first bytes.
    fn repeat_syn_ack<B: PacketBuf>(
        &self,
        conn: &mut Conn,
        now_ms: u64,
        world: &mut impl World<B>,
    ) {
        let waited = conn.repeated_ms.saturating_sub(conn.since_ms).max(SYN_MS);
        if now_ms >= conn.repeated_ms + waited {
            conn.repeated_ms = now_ms;
            self.syn_ack(conn, world);
        }
    }
}
