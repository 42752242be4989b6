//! What smoltcp lacks as a sender: smoltcp 0.13 sends all that the peer's window has room
//! for at once, whatever its own congestion control says, and after a loss all of it again.
//! The segments that it makes wait here until the path may have them, and those that the
//! peer has got meanwhile (RFC 2018) are not sent.
//!
//! ```text
//! smoltcp ── segments ──► held ── window, losses ──► network
//! smoltcp ◄──────────── acknowledgements (read) ──── network
//! ```
//!
//! Losses are found here (RFC 6675, RFC 5827, RFC 6298), and smoltcp, which has the bytes, is
//! made to begin again with the oldest segment by the duplicate acknowledgements that it
//! would do so for. Which of the segments that it makes then are sent is decided here, too;
//! when it begins again of its own accord, none is.
use std::collections::VecDeque;

use crate::outline::{Outline, acknowledgement, cut, headers, renumber};
use crate::timer::Timer;
use crate::window::Window;

/// How long nothing is sent before the window is the first again.
const RESTED_MS: u64 = 1_000;
/// Duplicate acknowledgements behind which a segment counts as lost.
const DUPLICATES: u32 = 3;
/// Ranges that are remembered of those that have come out of order.
const RANGES: usize = 64;

/// Why smoltcp is made to begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The peer lacks a segment, and has got others behind it.
    Gap,
    /// It has not answered in time.
    Late,
}

/// What a loss has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was lost.
    Open,
    /// Segments before this number were under way when one was lost.
    Repair(u32),
    /// Segments before this number were under way when the peer fell silent.
    Silence(u32),
}

/// A segment that waits.
struct Held {
    sequence: u32,
    end: u32,
    packet: Vec<u8>,
}

/// Sends segments as the path can take them.
pub(crate) struct Sender {
    window: Window,
    /// Bytes of the longest packet that the path takes.
    longest: usize,
    /// Whether the numbers below are known.
    has_opened: bool,
    /// The oldest number that the peer has not acknowledged.
    oldest: u32,
    /// Behind the last number that was sent.
    sent: u32,
    /// Behind the last number that smoltcp has made a segment of.
    made: u32,
    /// Up to where segments were sent again since the loss.
    repaired: u32,
    phase: Phase,
    duplicates: u32,
    /// Why smoltcp begins again next.
    cause: Option<Cause>,
    timer: Timer,
    /// Ranges behind `oldest` that the peer has got, in order.
    got: Vec<(u32, u32)>,
    held: VecDeque<Held>,
    /// Our SYN, until it is answered or was sent a second time at once.
    syn: Option<Vec<u8>>,
    /// The last packet of the peer's, the number behind it, and its window; empty before it
    /// has acknowledged our SYN.
    peer: Vec<u8>,
    peer_next: u32,
    peer_window: u16,
    sent_ms: u64,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let from = |at: u32| at.wrapping_sub(self.oldest) as i32;
        f.debug_struct("Sender")
            .field("window", &self.window)
            .field("phase", &self.phase)
            .field("oldest", &self.oldest)
            .field("sent", &from(self.sent))
            .field("made", &from(self.made))
            .field("repaired", &from(self.repaired))
            .field("duplicates", &self.duplicates)
            .field("got", &self.got.len())
            .field("held", &self.held.len())
            .finish()
    }
}

/// Whether `a` is before `b`: numbers wrap.
const fn is_before(a: u32, b: u32) -> bool {
    b.wrapping_sub(a).wrapping_sub(1) < u32::MAX / 2
}

impl Sender {
    /// A sender of packets of `longest` bytes at most, with so many of headers.
    pub(crate) fn new(longest: usize, headers: usize) -> Self {
        let segment = longest.saturating_sub(headers).try_into().unwrap_or(u32::MAX);
        Self {
            window: Window::new(segment),
            longest,
            has_opened: false,
            oldest: 0,
            sent: 0,
            made: 0,
            repaired: 0,
            phase: Phase::Open,
            duplicates: 0,
            cause: None,
            timer: Timer::default(),
            got: Vec::new(),
            held: VecDeque::new(),
            syn: None,
            peer: Vec::new(),
            peer_next: 0,
            peer_window: 0,
            sent_ms: 0,
        }
    }

    /// How many bytes may be under way.
    pub(crate) const fn window(&self) -> usize {
        self.window.size() as usize
    }

    /// Whether a segment with this number was sent and not acknowledged.
    pub(crate) const fn has_under_way(&self, sequence: u32) -> bool {
        self.has_opened && !is_before(sequence, self.oldest) && is_before(sequence, self.sent)
    }

    /// The path takes no packets longer than this.
    pub(crate) fn shorten(&mut self, longest: usize, headers: usize) {
        if longest < self.longest {
            self.longest = longest;
            let segment = longest.saturating_sub(headers).try_into().unwrap_or(u32::MAX);
            self.window.shorten(segment);
        }
    }

    /// Bytes that are under way, as far as that can be told (RFC 6675 section 4).
    fn under_way(&self) -> u32 {
        let (oldest, sent) = (self.oldest, self.sent);
        let out = sent.wrapping_sub(oldest);
        let segment = self.window.segment();
        let behind = self.got.last().map_or(oldest, |range| range.1);
        match self.phase {
            // Each of the first two lets a segment follow (RFC 3042).
            Phase::Open => out.saturating_sub(self.duplicates.min(2).saturating_mul(segment)),
            Phase::Repair(_) if self.got.is_empty() => {
                out.saturating_sub(self.duplicates.saturating_mul(segment))
            }
            Phase::Repair(_) => {
                let repaired =
                    if is_before(self.repaired, behind) { self.repaired } else { behind };
                let out_again = repaired.wrapping_sub(oldest);
                let missed = out_again.saturating_sub(self.got_in(oldest, repaired));
                missed.saturating_add(sent.wrapping_sub(behind))
            }
            Phase::Silence(until) => {
                let repaired = self.repaired.wrapping_sub(oldest);
                let new = if is_before(until, sent) { sent.wrapping_sub(until) } else { 0 };
                let missed = repaired.saturating_sub(self.got_in(oldest, self.repaired));
                missed.saturating_add(new).min(out)
            }
        }
    }

    /// How many bytes of a range the peer has got.
    fn got_in(&self, from: u32, to: u32) -> u32 {
        let own = |&(a, b): &(u32, u32)| {
            let (a, b) = (a.wrapping_sub(from), b.wrapping_sub(from));
            b.min(to.wrapping_sub(from)).saturating_sub(a)
        };
        self.got.iter().map(own).sum()
    }

    /// Reads a packet of the peer's.
    pub(crate) fn read(&mut self, packet: &[u8], now_ms: u64) {
        let Some(seen) = Outline::of(packet) else { return };
        if seen.opens {
            // Without the option segments have 536 bytes (RFC 9293 section 3.7.1).
            let most = seen.most_data.unwrap_or(536);
            let own = self.window.segment();
            if u32::from(most) < own {
                self.window = Window::new(most.into());
            }
        }
        let Some(acknowledged) = seen.acknowledged.filter(|_| self.has_opened && !seen.resets)
        else {
            return;
        };
        // A FIN has a number, too.
        let behind = self.sent.wrapping_add(1);
        let acknowledged = if acknowledged == behind { self.sent } else { acknowledged };
        if is_before(self.sent, acknowledged) || is_before(acknowledged, self.oldest) {
            return;
        }
        self.meet(packet, &seen);
        for (from, to) in seen.selected.into_iter().flatten() {
            self.note(from, to);
        }
        let is_bare = seen.data == 0 && !seen.opens && !seen.ends;
        if is_before(self.oldest, acknowledged) {
            self.advance(acknowledged, now_ms);
        } else if is_bare && self.oldest != self.sent {
            self.duplicates = self.duplicates.saturating_add(1);
            if self.phase == Phase::Open && (self.duplicates >= DUPLICATES || self.is_over()) {
                self.cause = Some(Cause::Gap);
            }
        }
    }

    /// Keeps what acknowledgements of the peer's look like.
    fn meet(&mut self, packet: &[u8], seen: &Outline) {
        let taken = seen.data + u32::from(seen.opens) + u32::from(seen.ends);
        let next = seen.sequence.wrapping_add(taken);
        self.syn = None;
        if self.peer.is_empty() {
            let front = headers(packet).unwrap_or(0);
            self.peer = packet.get(..front).unwrap_or_default().to_vec();
            self.peer_next = next;
        }
        if is_before(self.peer_next, next) {
            self.peer_next = next;
        }
        self.peer_window = seen.window;
    }

    /// Whether all that is under way has come but what is lost, and nothing can follow: then
    /// there will be no third duplicate acknowledgement (RFC 5827).
    fn is_over(&self) -> bool {
        let is_last = self.got.last().is_some_and(|range| range.1 == self.sent);
        is_last && !self.held.iter().any(|own| matches!(self.fate(own), Fate::Goes))
    }

    /// When [`Sender::ask`] is due if nothing comes.
    pub(crate) const fn due_ms(&self) -> Option<u64> {
        self.timer.due_ms()
    }

    /// What smoltcp is to read so that it begins again, if it is to. The first changes the
    /// window, so that smoltcp counts duplicates from the beginning.
    pub(crate) fn ask(&mut self, now_ms: u64) -> Option<[Vec<u8>; 4]> {
        if self.timer.is_late(now_ms) {
            self.timer.wait_longer(now_ms);
            self.cause = Some(Cause::Late);
        }
        // Behind a closed window smoltcp asks by itself.
        if self.cause.is_none() || self.peer_window == 0 || self.oldest == self.sent {
            self.cause = None;
            return None;
        }
        let window = if self.peer_window > 1 { self.peer_window - 1 } else { 2 };
        let numbers = [self.peer_next, self.oldest];
        let one = acknowledgement(&self.peer, numbers, window)?;
        Some([one.clone(), one.clone(), one.clone(), one])
    }

    fn advance(&mut self, to: u32, now_ms: u64) {
        let under_way = self.under_way();
        let count = to.wrapping_sub(self.oldest);
        (self.oldest, self.duplicates, self.cause) = (to, 0, None);
        self.timer.acknowledged(to, to == self.sent, now_ms);
        if is_before(self.repaired, to) {
            self.repaired = to;
        }
        if is_before(self.made, to) {
            self.made = to;
        }
        self.got.retain(|range| is_before(to, range.1));
        match self.phase {
            Phase::Repair(until) if is_before(to, until) => {}
            Phase::Repair(_) => self.phase = Phase::Open,
            Phase::Silence(until) => {
                if !is_before(to, until) {
                    self.phase = Phase::Open;
                }
                self.window.grow(count, under_way.max(count), now_ms);
            }
            Phase::Open => self.window.grow(count, under_way, now_ms),
        }
    }

    /// The peer has got a range out of order.
    fn note(&mut self, from: u32, to: u32) {
        let is_known = |at: u32| !is_before(at, self.oldest) && !is_before(self.sent, at);
        if !is_known(from) || !is_known(to) || !is_before(from, to) || from == self.oldest {
            return;
        }
        let (mut from, mut to) = (from, to);
        self.got.retain(|&(a, b)| {
            let is_apart = is_before(b, from) || is_before(to, a);
            if !is_apart {
                from = if is_before(a, from) { a } else { from };
                to = if is_before(to, b) { b } else { to };
            }
            is_apart
        });
        if self.got.len() < RANGES {
            let at = self.got.iter().take_while(|range| is_before(range.0, from)).count();
            self.got.insert(at, (from, to));
        }
    }

    /// Takes a packet that smoltcp has made; it is put into `out` if nothing holds it up.
    pub(crate) fn take(&mut self, mut packet: Vec<u8>, out: &mut VecDeque<Vec<u8>>) {
        let Some(made) = Outline::of(&packet) else { return out.push_back(packet) };
        if made.opens {
            let first = made.sequence.wrapping_add(1);
            (self.oldest, self.sent, self.made, self.repaired) = (first, first, first, first);
            (self.phase, self.duplicates, self.cause) = (Phase::Open, 0, None);
            self.timer = Timer::default();
            self.peer.clear();
            self.held.clear();
            self.got.clear();
            self.has_opened = true;
            self.syn = made.acknowledged.is_none().then(|| packet.clone());
        }
        if made.resets && self.has_opened && self.peer.is_empty() {
            return self.refuse(packet, made.sequence, out);
        }
        if made.resets && self.has_opened && is_before(self.sent, made.sequence) {
            // The peer believes no reset behind data that it lacks (RFC 5961 section 3).
            renumber(&mut packet, self.sent);
            self.held.clear();
        }
        let end = made.sequence.wrapping_add(made.data);
        // Questions have a byte that is known, or one that is too much for a closed window.
        let asks = !is_before(self.oldest, end) || (made.data == 1 && self.peer_window == 0);
        if made.data == 0 || asks || !self.has_opened {
            return out.push_back(packet);
        }
        if is_before(made.sequence, self.made) {
            self.begin_again();
        }
        self.made = end;
        self.hold(packet, made.sequence);
    }

    /// Sends a reset before the peer has acknowledged our SYN. If it has acknowledged another
    /// number, it still has an earlier connection between the same ends, in TIME-WAIT most
    /// often, and the reset ends that: it has the peer's number and no other. The SYN follows
    /// at once, as Linux sends it, instead of a second later.
    fn refuse(&mut self, packet: Vec<u8>, sequence: u32, out: &mut VecDeque<Vec<u8>>) {
        let is_ours = self.sent.wrapping_sub(sequence) <= 1;
        out.push_back(packet);
        if !is_ours {
            out.extend(self.syn.take());
        }
    }

    /// Puts a packet, or what it is cut into, behind those that wait.
    fn hold(&mut self, mut packet: Vec<u8>, mut sequence: u32) {
        loop {
            let rest = cut(&mut packet, self.longest);
            let data = packet.len() - headers(&packet).unwrap_or(0).min(packet.len());
            let end = sequence.wrapping_add(data as u32);
            self.held.push_back(Held { sequence, end, packet });
            match rest {
                None => return,
                Some(rest) => (packet, sequence) = (rest, end),
            }
        }
    }

    /// smoltcp begins again with the oldest segment.
    fn begin_again(&mut self) {
        self.held.clear();
        match self.cause.take() {
            Some(Cause::Gap) if self.phase == Phase::Open => {
                self.window.lost();
                self.phase = Phase::Repair(self.sent);
                self.repaired = self.oldest;
            }
            Some(Cause::Late) => {
                self.window.silent(matches!(self.phase, Phase::Silence(_)));
                // The peer may have forgotten what was out of order (RFC 2018 section 8).
                self.got.clear();
                self.repaired = self.oldest;
                self.phase = Phase::Silence(self.sent);
            }
            _ => return,
        }
        self.timer.forget();
    }

    /// Sends what the path can take now.
    pub(crate) fn send(&mut self, now_ms: u64, out: &mut VecDeque<Vec<u8>>) {
        if self.oldest == self.sent && now_ms.saturating_sub(self.sent_ms) > RESTED_MS {
            self.window.rested();
        }
        let mut at = 0;
        while let Some(next) = self.held.get(at) {
            match self.fate(next) {
                Fate::Later => at += 1,
                Fate::Full => return,
                Fate::Needless => {
                    self.held.remove(at);
                }
                Fate::Goes => {
                    let Some(Held { end, packet, .. }) = self.held.remove(at) else { return };
                    if is_before(self.sent, end) {
                        self.sent = end;
                        self.timer.sent(Some(end), now_ms);
                    } else {
                        self.repaired = end;
                        self.timer.sent(None, now_ms);
                    }
                    self.sent_ms = now_ms;
                    out.push_back(packet);
                }
            }
        }
    }

    fn fate(&self, &Held { sequence, end, .. }: &Held) -> Fate {
        let has_got = |&(a, b): &(u32, u32)| !is_before(sequence, a) && !is_before(b, end);
        if !is_before(self.oldest, end) || self.got.iter().any(has_got) {
            return Fate::Needless;
        }
        let under_way = self.under_way();
        let fits = under_way == 0
            || under_way.saturating_add(end.wrapping_sub(sequence)) <= self.window.size();
        let by_room = if fits { Fate::Goes } else { Fate::Full };
        // smoltcp does not begin again at the same places: some of it may be new.
        if is_before(self.sent, end) {
            return by_room;
        }
        match self.phase {
            // The first of its kind has come, or will be missed again.
            Phase::Open => Fate::Needless,
            Phase::Silence(_) => by_room,
            Phase::Repair(_) if is_before(sequence, self.repaired) => Fate::Needless,
            Phase::Repair(_) if !is_before(self.oldest, sequence) => Fate::Goes,
            Phase::Repair(_) if self.is_lost(end) => by_room,
            Phase::Repair(_) => Fate::Later,
        }
    }

    /// Whether the peer has got so much behind a segment that it is lost (RFC 6675 section 4).
    fn is_lost(&self, end: u32) -> bool {
        let most = (DUPLICATES - 1) * self.window.segment();
        self.got.last().is_some_and(|range| is_before(end.wrapping_add(most), range.1))
    }
}

/// What becomes of a segment that waits.
enum Fate {
    Goes,
    /// Nobody needs it any more.
    Needless,
    /// Others go first.
    Later,
    /// The path can take no more.
    Full,
}
