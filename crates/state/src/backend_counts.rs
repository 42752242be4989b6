//! What one thread has sent on for each backend.
use std::sync::atomic::{AtomicU64, Ordering};

use flow::{Account, BackendId, Direction, ServiceId};

use crate::status_codes::{self, Codes, PLACES};

/// Ids that a backend, or a service, can have.
const IDS: usize = 1 << 16;

/// Milliseconds that an answer took less than, by place of [`AnswerTimes::counts`]; the last
/// place has all others.
pub const ANSWER_BOUNDS_MS: [u16; 13] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 3000, 10_000, 30_000];
/// Numbers of a histogram of answers: a count for each bound and one beyond, and the sum.
const ANSWER_NUMBERS: usize = ANSWER_BOUNDS_MS.len() + 2;

/// Classes of status codes: 1xx to 5xx.
pub const CLASSES: usize = 5;

/// How soon first answers came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerTimes {
    /// Answers, by [`ANSWER_BOUNDS_MS`].
    pub counts: [u64; ANSWER_BOUNDS_MS.len() + 1],
    /// The milliseconds of all of them together. Times are differences of whole
    /// milliseconds; since connections begin at any moment of one, the mean of many is
    /// right to a fraction.
    pub sum_ms: u64,
}

impl AnswerTimes {
    fn by_number(self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let mut counts = self.counts;
        counts.iter_mut().zip(other.counts).for_each(|(own, other)| *own = op(*own, other));
        Self { counts, sum_ms: op(self.sum_ms, other.sum_ms) }
    }
}

/// What was counted for a backend, or for several together. Pairs are by direction:
/// towards the backend first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames of connections that were sent on, ICMP errors about them included.
    pub packets: [u64; 2],
    /// Bytes of those from the Ethernet header on, without VLAN tag, and without the
    /// outer header of a tunnel.
    pub bytes: [u64; 2],
    /// Connections put into the table.
    pub opened: u64,
    /// RSTs among the packets: the client's, the backend's.
    pub resets: [u64; 2],
    /// New connections whose first answer was waited for.
    pub asked: u64,
    /// Of those, the ones whose first answer was a RST.
    pub refused: u64,
    /// How soon backends answered new connections, in modes in which answers pass the load
    /// balancer.
    pub answers: AnswerTimes,
    /// Final responses to requests, by their status code.
    pub responses: Codes,
    /// How soon they came: from the request's departure to the end of the response's header.
    pub first_bytes: AnswerTimes,
}

impl Carried {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.by_number(other, u64::wrapping_add)
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.by_number(earlier, u64::saturating_sub)
    }

    fn by_number(self, other: Self, op: impl Fn(u64, u64) -> u64 + Copy) -> Self {
        let both = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [op(a, c), op(b, d)];
        Self {
            packets: both(self.packets, other.packets),
            bytes: both(self.bytes, other.bytes),
            opened: op(self.opened, other.opened),
            resets: both(self.resets, other.resets),
            asked: op(self.asked, other.asked),
            refused: op(self.refused, other.refused),
            answers: self.answers.by_number(other.answers, op),
            responses: self.responses.by_number(other.responses, op),
            first_bytes: self.first_bytes.by_number(other.first_bytes, op),
        }
    }
}

/// One thread's counts, by backend's id: written by that thread, read by anybody. 94 MiB
/// of addresses, of which the system gives memory to the ids that are in use.
#[derive(Debug)]
pub struct BackendCounts {
    /// By id and direction: packets and bytes. Its size is a power of two that no id is
    /// beyond, so that the compiler needs no test of an index.
    ways: Box<[[AtomicU64; 2]; 2 * IDS]>,
    /// By id: connections, those whose answer is waited for, those that were refused, and
    /// RSTs by direction.
    events: Box<[[AtomicU64; 5]; IDS]>,
    /// By id: answers by time, and the sum of their times.
    answers: Box<[[AtomicU64; ANSWER_NUMBERS]; IDS]>,
    /// By id: final responses by status code, and as `answers` how soon they came.
    responses: Box<[[AtomicU64; PLACES]; IDS]>,
    first_bytes: Box<[[AtomicU64; ANSWER_NUMBERS]; IDS]>,
    /// By a service's id: what was answered without a backend, by status code.
    own: Box<[[AtomicU64; PLACES]; IDS]>,
}

impl Default for BackendCounts {
    fn default() -> Self {
        let (ways, events) = (bytemuck::zeroed_box(), bytemuck::zeroed_box());
        let [answers, first_bytes] = std::array::from_fn(|_| bytemuck::zeroed_box());
        let [responses, own] = std::array::from_fn(|_| bytemuck::zeroed_box());
        Self { ways, events, answers, responses, first_bytes, own }
    }
}

impl BackendCounts {
    /// Where packets are counted.
    #[inline(always)]
    #[must_use]
    pub fn ways(&self) -> Ways<'_> {
        Ways(&self.ways)
    }

    /// Counts a connection put into the table.
    #[inline]
    pub fn opened(&self, backend: BackendId) {
        if let Some([opened, ..]) = self.events.get(usize::from(backend.0)) {
            add(opened, 1);
        }
    }

    /// Counts a new connection whose first answer is waited for.
    #[inline]
    pub fn asked(&self, backend: BackendId) {
        if let Some([_, asked, ..]) = self.events.get(usize::from(backend.0)) {
            add(asked, 1);
        }
    }

    /// Counts a connection whose first answer was a RST.
    pub fn refused(&self, backend: BackendId) {
        if let Some([_, _, refused, ..]) = self.events.get(usize::from(backend.0)) {
            add(refused, 1);
        }
    }

    /// Counts a RST that goes this way.
    pub fn reset(&self, Account { backend, direction }: Account) {
        if let Some([.., to, from]) = self.events.get(usize::from(backend.0)) {
            add(if direction == Direction::Forward { to } else { from }, 1);
        }
    }

    /// Counts the first answer of a connection, which took `after_ms` milliseconds.
    pub fn answered(&self, backend: BackendId, after_ms: u16) {
        note(&self.answers, backend, after_ms.into());
    }

    /// Counts a final response with this status code, whose header was whole `after_ms`
    /// milliseconds behind its request.
    pub fn responded(&self, backend: BackendId, status: u16, after_ms: u32) {
        count_code(&self.responses, backend.0, status);
        note(&self.first_bytes, backend, after_ms);
    }

    /// Counts a request to `service` that was answered with this status code, and by no
    /// backend.
    pub fn answered_alone(&self, service: ServiceId, status: u16) {
        count_code(&self.own, service.0, status);
    }

    /// What was counted for `backend`.
    #[must_use]
    pub fn of(&self, backend: BackendId) -> Carried {
        let get = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let ways = Direction::BOTH
            .map(|direction| self.ways[place(Account { backend, direction })].each_ref().map(get));
        let events = self.events.get(usize::from(backend.0));
        let [opened, asked, refused, to, from] =
            events.map_or([0; 5], |numbers| numbers.each_ref().map(get));
        let [[packets_to, bytes_to], [packets_from, bytes_from]] = ways;
        Carried {
            packets: [packets_to, packets_from],
            bytes: [bytes_to, bytes_from],
            opened,
            resets: [to, from],
            asked,
            refused,
            answers: times(&self.answers, backend),
            responses: codes(&self.responses, backend.0),
            first_bytes: times(&self.first_bytes, backend),
        }
    }

    /// What of `service` was answered by no backend, by status code.
    #[must_use]
    pub fn alone(&self, service: ServiceId) -> Codes {
        codes(&self.own, service.0)
    }
}

/// Histograms, by a backend's id.
type Histograms = [[AtomicU64; ANSWER_NUMBERS]; IDS];

fn note(histograms: &Histograms, backend: BackendId, after_ms: u32) {
    let Some([counts @ .., sum]) = histograms.get(usize::from(backend.0)) else { return };
    let place = ANSWER_BOUNDS_MS.iter().take_while(|bound| after_ms >= u32::from(**bound)).count();
    if let Some(count) = counts.get(place) {
        add(count, 1);
        add(sum, after_ms.into());
    }
}

fn times(histograms: &Histograms, backend: BackendId) -> AnswerTimes {
    let mut times = AnswerTimes::default();
    if let Some([counts @ .., sum]) = histograms.get(usize::from(backend.0)) {
        let all = times.counts.iter_mut().zip(counts);
        all.for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        times.sum_ms = sum.load(Ordering::Relaxed);
    }
    times
}

/// Counts of responses by status code, by an id.
type ById = [[AtomicU64; PLACES]; IDS];

fn count_code(all: &ById, id: u16, status: u16) {
    let own = all.get(usize::from(id)).zip(status_codes::place(status));
    if let Some(count) = own.and_then(|(own, place)| own.get(place)) {
        add(count, 1);
    }
}

fn codes(all: &ById, id: u16) -> Codes {
    let own = all.get(usize::from(id));
    let get = |own: &[AtomicU64; PLACES]| own.each_ref().map(|count| count.load(Ordering::Relaxed));
    own.map(|own| Codes(get(own))).unwrap_or_default()
}

/// The packets of all backends.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a>(&'a [[AtomicU64; 2]; 2 * IDS]);

impl Ways<'_> {
    /// Counts a packet of `bytes` bytes that was sent on.
    #[inline(always)]
    pub fn carry(self, account: Account, bytes: usize) {
        self.carry_many(account, 1, bytes as u64);
    }

    /// Counts `packets` packets of `bytes` bytes together that were sent on.
    #[inline(always)]
    pub fn carry_many(self, account: Account, packets: u64, bytes: u64) {
        let [all, size] = &self.0[place(account)];
        add(all, packets);
        add(size, bytes);
    }
}

#[inline(always)]
const fn place(account: Account) -> usize {
    (account.backend.0 as usize) << 1 | (account.direction as usize & 1)
}

/// Only one thread writes, so a load and a store do.
#[inline(always)]
fn add(value: &AtomicU64, by: u64) {
    value.store(value.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
