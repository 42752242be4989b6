//! One stream: a request's body as the backend gets it, and the backend's response as the
//! client gets it.
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use splice::Chunked;

use super::translate::{self, Framing};
use crate::exchange::Client;
use crate::head;

/// Bytes of a body that are held, and that may be written at once.
const HELD: usize = 16 * 1024;

/// How far the response is.
enum Answer {
    /// Its header, as far as it has come.
    Head(SendResponse<Bytes>, Vec<u8>),
    /// Its body, in chunks or not.
    Body(SendStream<Bytes>, Option<Chunked>),
    /// It is whole, or there won't be one.
    Over,
}

/// One stream of a client's.
pub(crate) struct Stream {
    /// What is still to come of the body.
    body: Option<RecvStream>,
    framing: Framing,
    plain: Vec<u8>,
    consumed: usize,
    answer: Answer,
    is_head: bool,
    /// Whether the client has given the stream up, or must.
    failed: bool,
    /// Whether part of the response has gone out since it was asked last.
    written: bool,
}

impl Stream {
    /// The stream of a request with this `body` and `framing`; `is_head`: the method is HEAD.
    pub(crate) fn new(
        body: RecvStream,
        respond: SendResponse<Bytes>,
        framing: Framing,
        is_head: bool,
    ) -> Self {
        Self {
            body: Some(body),
            framing,
            plain: Vec::new(),
            consumed: 0,
            answer: Answer::Head(respond, Vec::new()),
            is_head,
            failed: false,
            written: false,
        }
    }

    /// Takes what has come of the body, as far as there is room, and asks for room for the
    /// response. Whether anything has come.
    pub(crate) fn pull(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        if let Answer::Body(send, _) = &mut self.answer {
            send.reserve_capacity(HELD);
        }
        while let Some(body) = &mut self.body
            && self.plain.len() - self.consumed < HELD
        {
            match body.poll_data(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(data))) => {
                    // The window grows by what the backend is about to take.
                    self.failed |= body.flow_control().release_capacity(data.len()).is_err();
                    self.take(&data);
                }
                Poll::Ready(Some(Err(_))) => (self.failed, self.body) = (true, None),
                Poll::Ready(None) => {
                    self.body = None;
                    if self.framing == Framing::Chunks {
                        self.plain.extend_from_slice(b"0\r\n\r\n");
                    }
                }
            }
            moved = true;
        }
        moved
    }

    fn take(&mut self, data: &[u8]) {
        if self.consumed == self.plain.len() {
            self.plain.clear();
            self.consumed = 0;
        }
        match self.framing {
            Framing::Plain => self.plain.extend_from_slice(data),
            // A chunk of no bytes would be the last.
            Framing::Chunks if data.is_empty() => {}
            Framing::Chunks => {
                self.plain.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
                self.plain.extend_from_slice(data);
                self.plain.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Whether the client has given the stream up.
    pub(crate) fn is_given_up(&mut self, cx: &mut Context<'_>) -> bool {
        let reset = match &mut self.answer {
            Answer::Head(respond, _) => respond.poll_reset(cx),
            Answer::Body(send, _) => send.poll_reset(cx),
            Answer::Over => Poll::Pending,
        };
        self.failed || reset.is_ready()
    }

    /// Whether part of the response has gone out since the last question.
    pub(crate) const fn has_written(&mut self) -> bool {
        std::mem::replace(&mut self.written, false)
    }

    /// The response is whole.
    pub(crate) fn finish(&mut self) {
        match std::mem::replace(&mut self.answer, Answer::Over) {
            Answer::Head(mut respond, _) => respond.send_reset(Reason::INTERNAL_ERROR),
            Answer::Body(mut send, _) => {
                // Without the stream there is nothing to be ended.
                let _ = send.send_data(Bytes::new(), true);
            }
            Answer::Over => {}
        }
    }

    /// The response will not be whole.
    pub(crate) fn fail(&mut self) {
        match std::mem::replace(&mut self.answer, Answer::Over) {
            Answer::Head(mut respond, _) => respond.send_reset(Reason::INTERNAL_ERROR),
            Answer::Body(mut send, _) => send.send_reset(Reason::INTERNAL_ERROR),
            Answer::Over => {}
        }
    }

    /// Sends the headers that are whole; `None`: one can't be sent.
    fn headers(&mut self) -> Option<()> {
        while let Answer::Head(respond, gathered) = &mut self.answer {
            let Some(end) = head::end(gathered, 0) else { return Some(()) };
            let rest = gathered.split_off(end);
            let (response, chunked) = translate::response(gathered)?;
            let status = response.status();
            *gathered = rest;
            if status.is_informational() {
                // One that is lost changes nothing.
                let _ = respond.send_informational(response);
                continue;
            }
            let is_empty = response.headers().get("content-length").is_some_and(|own| own == "0");
            let ends = self.is_head || is_empty || matches!(status.as_u16(), 204 | 304);
            let send = respond.send_response(response, ends).ok()?;
            let rest = std::mem::take(gathered);
            self.answer = match ends {
                true => Answer::Over,
                false => Answer::Body(send, chunked.then(Chunked::default)),
            };
            return self.data(&rest);
        }
        Some(())
    }

    /// Sends part of the body.
    fn data(&mut self, bytes: &[u8]) -> Option<()> {
        let Answer::Body(send, chunked) = &mut self.answer else { return Some(()) };
        if bytes.is_empty() {
            return Some(());
        }
        match chunked {
            None => send.send_data(Bytes::copy_from_slice(bytes), false).ok()?,
            Some(chunked) => {
                let mut sent = Ok(());
                let read = chunked.read_data(bytes, |data| {
                    if sent.is_ok() && !data.is_empty() {
                        sent = send.send_data(Bytes::copy_from_slice(data), false);
                    }
                });
                read.ok()?;
                sent.ok()?;
            }
        }
        send.reserve_capacity(HELD);
        Some(())
    }
}

impl Client for Stream {
    fn plain(&self) -> &[u8] {
        self.plain.get(self.consumed..).unwrap_or_default()
    }

    fn consume(&mut self, n: usize) {
        self.consumed = (self.consumed + n).min(self.plain.len());
    }

    fn has_ended(&self) -> bool {
        self.body.is_none()
    }

    fn room(&self) -> usize {
        match &self.answer {
            Answer::Head(..) | Answer::Over => HELD,
            Answer::Body(send, _) => send.capacity().min(HELD),
        }
    }

    /// Takes a response of HTTP/1.1.
    fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.written = true;
        match &mut self.answer {
            Answer::Head(_, gathered) => {
                gathered.extend_from_slice(bytes);
                self.headers()
            }
            Answer::Body(..) => self.data(bytes),
            Answer::Over => Some(()),
        }
    }
}
