//! The control thread's side of the links over which it is asked and told. A link is
//! a stream between two threads or two processes: lines of [`Asked`] come, lines of
//! [`Answered`] go, in any order. A peer that hangs or dies costs its own link.
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use control::{Answered, Asked, LONGEST_REQUEST, Refusal, Request};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::connections::Search;

/// Links that are served; more are refused.
const LINKS: usize = 8;
/// Requests of a link that are worked on at a time; others wait in the stream.
const PENDING: usize = 16;
/// Bytes of answers that wait for the peer; no request is taken up beyond them.
const WAITING: usize = 1 << 22;
/// Bytes read at once.
const CHUNK: usize = 1 << 14;

/// The outcome of a request, as JSON.
pub(crate) type Outcome = Result<Box<RawValue>, Refusal>;

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The version of the configuration.
    pub(crate) version: u64,
    /// The outcome of the request.
    pub(crate) outcome: Outcome,
}

/// Makes links.
#[derive(Clone, Debug)]
pub(crate) struct Connector(Sender<UnixStream>);

impl Connector {
    /// A new link; the peer's end.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.0.send(ours).map_err(|_| io::Error::from(ErrorKind::NotConnected))?;
        Ok(theirs)
    }
}

/// All links, served by turns.
#[derive(Debug)]
pub(crate) struct Links {
    new: Receiver<UnixStream>,
    links: Vec<Link>,
}

#[derive(Debug)]
struct Link {
    stream: UnixStream,
    /// The part that has arrived of the next lines.
    input: Vec<u8>,
    /// The requests without an answer yet, and how far each has been searched for.
    pending: Vec<(Asked, Search)>,
    /// Answers that the peer has not taken yet.
    output: Vec<u8>,
    open: bool,
}

impl Links {
    /// No links yet, and what makes them.
    pub(crate) fn new() -> (Self, Connector) {
        let (connector, new) = channel();
        (Self { new, links: Vec::new() }, Connector(connector))
    }

    /// Serves what waits, without ever waiting for a peer. `answer` is called for each
    /// request, in this turn and the next ones until it gives the outcome.
    pub(crate) fn serve(&mut self, mut answer: impl FnMut(&Asked, &mut Search) -> Option<Reply>) {
        for stream in self.new.try_iter() {
            if self.links.len() < LINKS {
                self.links.push(Link::new(stream));
            }
        }
        for link in &mut self.links {
            link.read();
            link.pending.retain_mut(|(asked, search)| match answer(asked, search) {
                None => true,
                Some(reply) => {
                    push(&mut link.output, asked.id, &reply);
                    false
                }
            });
            link.write();
        }
        self.links.retain(|link| link.open);
    }

    /// Waits until a peer asks something or takes an answer, for `most` at most. Does not
    /// wait for what is searched for: see [`Self::are_busy`].
    pub(crate) fn wait(&self, most: Duration) {
        let streams = self.links.iter().map(|own| PollFd::new(own.stream.as_fd(), own.awaited()));
        let mut streams: Vec<PollFd<'_>> = streams.collect();
        // An error is a signal's; the next turn looks in any case.
        let _ = poll(&mut streams, PollTimeout::try_from(most).unwrap_or(PollTimeout::ZERO));
    }

    /// Whether requests have been taken up and not answered yet.
    pub(crate) fn are_busy(&self) -> bool {
        self.links.iter().any(|own| !own.pending.is_empty())
    }
}

impl Link {
    const fn new(stream: UnixStream) -> Self {
        Self { stream, input: Vec::new(), pending: Vec::new(), output: Vec::new(), open: true }
    }

    /// What there is to wait for. A peer that does not read its answers is not listened to.
    fn awaited(&self) -> PollFlags {
        let mut awaited = PollFlags::empty();
        if self.pending.len() < PENDING && self.output.len() < WAITING {
            awaited |= PollFlags::POLLIN;
        }
        if !self.output.is_empty() {
            awaited |= PollFlags::POLLOUT;
        }
        awaited
    }

    /// Takes up lines as long as there is room for their answers.
    fn read(&mut self) {
        let mut bytes = [0; CHUNK];
        while self.open && self.take_lines() {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(read) => self.input.extend(bytes.iter().take(read)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.open = false,
            }
        }
    }

    /// Whether more is wanted from the stream.
    fn take_lines(&mut self) -> bool {
        while self.pending.len() < PENDING && self.output.len() < WAITING {
            let Some(end) = self.input.iter().position(|byte| *byte == b'\n') else {
                self.open = self.input.len() < LONGEST_REQUEST;
                return self.open;
            };
            let line: Vec<u8> = self.input.drain(..=end).collect();
            match serde_json::from_slice::<Asked>(&line) {
                Ok(asked) => self.pending.push((asked, Search::default())),
                Err(error) => {
                    tracing::error!(%error, "a request to the control thread is not understood");
                    self.open = false;
                    return false;
                }
            }
        }
        false
    }

    fn write(&mut self) {
        let mut sent = 0;
        while let Some(rest) = self.output.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => break,
                Ok(taken) => sent += taken,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.open = false;
                    break;
                }
            }
        }
        self.output.drain(..sent);
    }
}

fn push(output: &mut Vec<u8>, id: u64, reply: &Reply) {
    match Answered::line((id, reply.version), &reply.outcome) {
        Ok(line) => output.extend(line),
        Err(error) => tracing::error!(%error, "an answer can't be written"),
    }
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The link is gone.
    #[error("the control thread does not answer: {0}")]
    Link(#[from] io::Error),
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The answer is of another kind.
    #[error("the answer is not understood: {0}")]
    Answer(#[from] serde_json::Error),
}

/// A link's other end, for a caller that waits for each answer.
#[derive(Debug)]
pub struct Caller {
    stream: BufReader<UnixStream>,
    id: u64,
}

impl Caller {
    /// The caller at the end `stream` of a link.
    #[must_use]
    pub fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::new(stream), id: 0 }
    }

    /// The outcome of `request`.
    ///
    /// # Errors
    /// It is refused, or the load balancer has ended.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, CallError> {
        self.id += 1;
        let line = Asked { id: self.id, version: None, request: request.clone() }.line()?;
        self.stream.get_mut().write_all(&line)?;
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let answered: Answered = serde_json::from_str(&line)?;
        Ok(serde_json::from_str(answered.answer?.get())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Option<Reply> {
        let outcome = Ok(RawValue::from_string(text.to_owned()).unwrap());
        Some(Reply { version: 5, outcome })
    }

    #[test]
    fn requests_are_answered_by_their_numbers_and_searches_wait_for_none() {
        let (mut links, connector) = Links::new();
        let mut peer = connector.connect().unwrap();
        let search = Request::Connection { client: "192.0.2.1:5".parse().unwrap() };
        for (id, request) in [(7, search), (8, Request::Status)] {
            peer.write_all(&Asked { id, version: None, request }.line().unwrap()).unwrap();
        }
        let mut turns = 0;
        for _ in 0..5 {
            links.serve(|asked, _| match asked.request {
                Request::Status => raw("1"),
                _ => {
                    turns += 1;
                    (turns > 3).then(|| Reply {
                        version: 5,
                        outcome: Err(Refusal::Busy("the driver is".to_owned())),
                    })
                }
            });
        }
        drop(links);
        let lines: Vec<Answered> = BufReader::new(peer)
            .lines()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect();
        assert_eq!(lines.iter().map(|line| line.id).collect::<Vec<_>>(), [8, 7]);
        assert!(lines[1].answer.is_err());
        assert!(lines.iter().all(|line| line.version == 5));
    }

    /// Without its question, or with one that is waited for too long, this test would not end.
    #[test]
    fn waiting_ends_with_a_question_and_a_peer_that_does_not_read_is_not_listened_to() {
        let (mut links, connector) = Links::new();
        let mut peer = connector.connect().unwrap();
        links.serve(|_, _| None);
        let line = Asked { id: 1, version: None, request: Request::Status }.line().unwrap();
        peer.write_all(&line).unwrap();
        links.wait(Duration::from_secs(3600));
        links.serve(|_, _| None);
        assert!(links.are_busy());
        links.serve(|_, _| raw("1"));
        assert!(!links.are_busy());
        // The answers fill the stream and the room for them, and questions stay unread.
        let answer = format!("\"{}\"", "x".repeat(1 << 20));
        peer.set_nonblocking(true).unwrap();
        for _ in 0..200 {
            let _ = peer.write(&line);
            links.serve(|_, _| raw(&answer));
        }
        assert_eq!(links.links[0].awaited(), PollFlags::POLLOUT);
    }

    #[test]
    fn a_peer_that_does_not_read_costs_a_bounded_number_of_bytes() {
        let (mut links, connector) = Links::new();
        let mut peer = connector.connect().unwrap();
        peer.set_nonblocking(true).unwrap();
        let answer = format!("\"{}\"", "x".repeat(1 << 20));
        let line = Asked { id: 1, version: None, request: Request::Status }.line().unwrap();
        let mut answers = 0;
        for _ in 0..200 {
            let _ = peer.write(&line);
            links.serve(|_, _| {
                answers += 1;
                raw(&answer)
            });
        }
        assert!(answers < 8 + PENDING, "{answers}");
        assert!(links.links[0].open);
    }

    #[test]
    fn what_is_no_request_ends_its_link_alone() {
        let (mut links, connector) = Links::new();
        let mut bad = connector.connect().unwrap();
        let mut long = connector.connect().unwrap();
        let good = connector.connect().unwrap();
        bad.write_all(b"nonsense\n").unwrap();
        long.set_nonblocking(true).unwrap();
        for _ in 0..200 {
            let _ = long.write(&[b'x'; CHUNK]);
            links.serve(|_, _| raw("1"));
        }
        assert_eq!(links.links.len(), 1);
        drop(good);
        links.serve(|_, _| raw("1"));
        assert!(links.links.is_empty());
    }
}
