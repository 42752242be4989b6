//! The policy: which connections get an entry, and which ones lose theirs.
use std::collections::HashMap;

use flow::AdmissionPolicy;

use crate::counters::Counters;
use crate::held::{Held, Stage};
use crate::order::Order;
use crate::{CardRefusal, Cause, Key, Meter, Reason, Settings, Sketch, Standing};

/// Number of samples below which a rate is not known.
const SAMPLES: u64 = 3;

/// Milliseconds of measurement below which a rate is not known either: one burst
/// earns no entry.
const MEASURED_MS: u64 = 250;

/// A sample in the sketch weighs 1/e of what it did after this time.
const DECAY_MS: u64 = 20_000;

/// The worth of every entry is brought up to date in so many decisions, unless
/// there are very many entries.
const REFRESHED_IN: usize = 32;

/// Entries whose worth is brought up to date in one decision at most.
const REFRESHED: usize = 256;

/// Candidates or entries examined again in one decision, beyond those chosen.
const LOOKS: usize = 64;

/// Entries given up in one decision, if the card holds fewer than before.
const GIVEN_UP: usize = 64;

/// A connection that the card refused is not chosen again for this time.
const REFUSED_MS: u64 = 10_000;

/// Refused connections that are remembered.
const REFUSED: usize = 1 << 16;

/// The time over which the share of matched packets is taken, in milliseconds.
const WINDOW_MS: u64 = 1_000;

/// What the card allows at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Connections that it holds at most; `None`: unknown, since it has never been
    /// full.
    pub entries: Option<usize>,
    /// Connections that may be chosen now.
    pub budget: usize,
}

/// Which connections go in and which come out, in the order of importance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Connections that get an entry.
    pub admit: Vec<Key>,
    /// Connections whose rules are to be taken back.
    pub evict: Vec<Key>,
}

/// Measures connections. With the policy [`AdmissionPolicy::Heavy`] it decides which
/// of them have an entry; with `All` and `FirstPacket` the caller decides and this
/// type keeps the record.
#[derive(Clone, Debug)]
pub struct Admission {
    settings: Settings,
    sketch: Sketch,
    /// The connections in the sketch that are measured well enough, by the rate they
    /// have at least, as of their last sample. The rate only falls until the next
    /// sample.
    candidates: Order,
    scores: HashMap<Key, f64>,
    held: Held,
    refused: HashMap<Key, (CardRefusal, u64)>,
    /// Packets that the last sample stood for.
    packets: u32,
    counters: Counters,
    window: Window,
}

/// Counts at the start of the present window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since_ms: u64,
    samples: u64,
    matched: u64,
    admitted: u64,
}

impl Admission {
    /// An admission without connections.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            sketch: Sketch::new(settings.tracked, DECAY_MS),
            candidates: Order::default(),
            scores: HashMap::new(),
            held: Held::default(),
            refused: HashMap::new(),
            packets: 1,
            counters: Counters::default(),
            window: Window::default(),
            settings,
        }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes a sample of an established connection, in software or in hardware, which
    /// stands for `packets` packets.
    pub fn seen(&mut self, key: Key, packets: u32, now_ms: u64) {
        self.counters.samples += 1;
        self.packets = packets;
        if self.held.add(key, packets, now_ms) {
            let matched = self.held.get(key).is_some_and(|entry| entry.stage == Stage::Hardware);
            self.counters.samples_matched += u64::from(matched);
            return;
        }
        if self.settings.policy == AdmissionPolicy::Off {
            return;
        }
        if let Some((lost, _)) = self.sketch.add(key, packets, now_ms) {
            self.score(lost, None);
        }
        let Some(score) = self.measured(key, now_ms) else {
            self.counters.passed.too_young += 1;
            return;
        };
        if self.is_refused(key, now_ms) {
            self.counters.passed.refused_by_card += 1;
            return self.score(key, None);
        }
        self.score(key, Some(score));
        if score < self.counters.threshold {
            self.counters.passed.too_light += 1;
        } else {
            self.counters.passed.in_turn += 1;
        }
    }

    /// The connections that go in and that come out now. From now on they count as in
    /// line or as leaving; the caller reports when they are [`installed`],
    /// [`refused`] or [`ended`], or have [`left`], and which ones to [`forget`].
    ///
    /// [`installed`]: Self::installed
    /// [`refused`]: Self::refused
    /// [`ended`]: Self::ended
    /// [`left`]: Self::left
    /// [`forget`]: Self::forget
    pub fn decide(&mut self, now_ms: u64, room: Room) -> Decisions {
        let mut decisions = Decisions::default();
        self.counters.limit = room.entries;
        self.close_window(now_ms);
        if self.settings.policy != AdmissionPolicy::Heavy {
            return decisions;
        }
        let refreshed = (self.held.len() / REFRESHED_IN + 1).min(REFRESHED);
        self.held.refresh(refreshed, self.settings.stay_ms, now_ms);
        self.give_up(room, now_ms, &mut decisions);
        for _ in 0..room.budget {
            let Some((key, score)) = self.best(now_ms) else { break };
            let newcomer_fits = match self.threshold(room, now_ms) {
                Threshold::NoEntry => false,
                Threshold::Free => true,
                Threshold::Taken { victim, needed } if score >= needed => {
                    self.evict(victim, now_ms, &mut decisions);
                    true
                }
                Threshold::Taken { .. } => false,
            };
            if !newcomer_fits {
                break;
            }
            self.admit(key, now_ms);
            decisions.admit.push(key);
        }
        self.counters.threshold = match self.threshold(room, now_ms) {
            Threshold::Free => 0.0,
            Threshold::Taken { needed, .. } => needed,
            // The threshold stays: all spare entries are on their way.
            Threshold::NoEntry => self.counters.threshold,
        };
        decisions
    }

    /// Notes that `key` is given an entry without having been chosen: it was asked
    /// for, or another instance gave it.
    pub fn admit(&mut self, key: Key, now_ms: u64) {
        if self.held.get(key).is_some() {
            return;
        }
        self.score(key, None);
        let known = self.sketch.remove(key);
        let meter = known.map_or_else(|| Meter::unseen(now_ms), |tracked| tracked.meter);
        self.held.insert(key, meter, now_ms);
        self.counters.admitted += 1;
    }

    /// Notes that a rule of `key` is in the card.
    pub fn installed(&mut self, key: Key, now_ms: u64) {
        self.held.advance(key, Stage::Hardware, now_ms);
    }

    /// Notes that the rules of `key` are being taken back, for whatever reason.
    pub fn leaving(&mut self, key: Key, now_ms: u64) {
        self.held.advance(key, Stage::Leaving, now_ms);
    }

    /// Notes that `key` has no rules any more, and is measured in software again.
    pub fn left(&mut self, key: Key, now_ms: u64) {
        let Some(entry) = self.held.remove(key) else { return };
        if entry.meter.samples() == 0 || self.settings.policy == AdmissionPolicy::Off {
            return;
        }
        if let Some((lost, _)) = self.sketch.restore(key, entry.meter, now_ms) {
            self.score(lost, None);
        }
        let score = self.measured(key, now_ms).filter(|_| !self.is_refused(key, now_ms));
        self.score(key, score);
    }

    /// Notes that the card has refused the rules of `key`, which is served in
    /// software.
    pub fn refused(&mut self, key: Key, why: CardRefusal, now_ms: u64) {
        self.counters.refused_by_card += 1;
        if self.refused.len() >= REFUSED {
            self.refused.retain(|_, (_, until_ms)| *until_ms > now_ms);
        }
        if self.refused.len() < REFUSED {
            self.refused.insert(key, (why, now_ms.saturating_add(REFUSED_MS)));
        }
        self.left(key, now_ms);
    }

    /// Notes that `key` was chosen but is gone, or not established.
    pub fn ended(&mut self, key: Key) {
        self.counters.ended += 1;
        self.forget(key);
    }

    /// Forgets what was measured of `key`, which has no rules any more.
    pub fn forget(&mut self, key: Key) {
        self.held.remove(key);
        self.score(key, None);
        self.sketch.remove(key);
        self.refused.remove(&key);
    }

    /// Where `key` stands at `now_ms`, and why.
    #[must_use]
    pub fn standing(&self, key: Key, now_ms: u64) -> Standing {
        let threshold = self.counters.threshold;
        if let Some(entry) = self.held.get(key) {
            let (since_ms, rate) = (entry.since_ms, entry.meter.rate(now_ms));
            return match entry.stage {
                Stage::InLine => Standing::InLine { since_ms, rate },
                Stage::Leaving => Standing::Leaving { since_ms, rate },
                Stage::Hardware => {
                    let rank = self.held.rank(rate, now_ms);
                    Standing::Hardware { since_ms, rate, rank, threshold }
                }
            };
        }
        let tracked = self.sketch.get(key);
        Standing::Software {
            reason: self.reason(key, now_ms, true),
            since_ms: tracked.map(|tracked| tracked.since_ms),
            rate: tracked.map(|tracked| tracked.meter.rate(now_ms)),
        }
    }

    /// The packets per second of every connection whose rate is measured, in no order.
    pub fn rates(&self, now_ms: u64) -> impl Iterator<Item = (Key, f64)> {
        let held = self.held.iter().map(move |(key, entry)| (key, entry.meter.rate(now_ms)));
        let others = self.sketch.iter().filter(|(key, _)| self.held.get(*key).is_none());
        held.chain(others.map(move |(key, tracked)| (key, tracked.meter.rate(now_ms))))
    }

    /// The packets per second of `key`; `None`: they are not measured.
    #[must_use]
    pub fn rate(&self, key: Key, now_ms: u64) -> Option<f64> {
        let held = self.held.get(key).map(|entry| entry.meter.rate(now_ms));
        held.or_else(|| self.sketch.get(key).map(|tracked| tracked.meter.rate(now_ms)))
    }

    /// The decisions so far, in numbers.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            held: self.held.len(),
            tracked: self.sketch.len(),
            candidates: self.candidates.len(),
            ..self.counters
        }
    }

    /// Why `key` has no entry, in a word; `None`: it has one, or is in line for it or
    /// leaving it. Takes a fraction of the time of [`Self::standing`], which ranks.
    #[must_use]
    pub fn cause(&self, key: Key, now_ms: u64) -> Option<Cause> {
        match self.held.get(key) {
            Some(_) => None,
            None => Some(self.reason(key, now_ms, false).cause()),
        }
    }

    /// Why `key` has no entry; without `ranked` all ranks are 0.
    fn reason(&self, key: Key, now_ms: u64, ranked: bool) -> Reason {
        if let Some((why, until_ms)) = self.refused.get(&key).filter(|(_, until)| *until > now_ms) {
            return Reason::Refused { why: *why, again_in_ms: until_ms - now_ms };
        }
        match self.settings.policy {
            AdmissionPolicy::Off => return Reason::Off,
            AdmissionPolicy::All | AdmissionPolicy::FirstPacket => return Reason::NotAsked,
            AdmissionPolicy::Heavy => {}
        }
        let Some(tracked) = self.sketch.get(key) else {
            let below = self.sketch.least(now_ms).max(1.0) * 1000.0 / DECAY_MS as f64;
            return Reason::Unseen { below: below * f64::from(self.packets) };
        };
        let (samples, measured_ms) = (tracked.meter.samples(), tracked.meter.span_ms(now_ms));
        if samples < SAMPLES || measured_ms < MEASURED_MS {
            let (needed, needed_ms) = (SAMPLES, MEASURED_MS);
            return Reason::TooYoung { samples, needed, measured_ms, needed_ms };
        }
        if tracked.meter.has_ended(now_ms) {
            return Reason::Silent { for_ms: tracked.meter.silence_ms(now_ms) };
        }
        let (rate, threshold) = (tracked.meter.at_least(now_ms), self.counters.threshold);
        let before = || self.candidates.above(rate);
        if rate < threshold {
            let rank = if ranked { before() + self.held.rank(rate, now_ms) } else { 0 };
            Reason::TooLight { rate, threshold, rank }
        } else {
            Reason::InTurn { rate, threshold, rank: if ranked { before() + 1 } else { 0 } }
        }
    }

    fn is_refused(&self, key: Key, now_ms: u64) -> bool {
        self.refused.get(&key).is_some_and(|(_, until_ms)| *until_ms > now_ms)
    }

    /// The rate that `key` has at least; `None`: it is not known well enough.
    fn measured(&self, key: Key, now_ms: u64) -> Option<f64> {
        let meter = &self.sketch.get(key)?.meter;
        let enough = meter.samples() >= SAMPLES && meter.span_ms(now_ms) >= MEASURED_MS;
        (enough && !meter.has_ended(now_ms)).then(|| meter.at_least(now_ms))
    }

    /// Sets the score of `key` among the candidates; `None`: it is no candidate.
    fn score(&mut self, key: Key, score: Option<f64>) {
        let before = match score {
            Some(score) => self.scores.insert(key, score),
            None => self.scores.remove(&key),
        };
        if let Some(before) = before {
            self.candidates.remove(before, key);
        }
        if let Some(score) = score {
            self.candidates.insert(score, key);
        }
    }

    /// The heaviest candidate and the rate it has at least now.
    fn best(&mut self, now_ms: u64) -> Option<(Key, f64)> {
        for _ in 0..LOOKS {
            let (before, key) = self.candidates.last()?;
            let score = self.measured(key, now_ms);
            match score {
                Some(score) if score >= before => return Some((key, score)),
                _ => self.score(key, score),
            }
        }
        self.candidates.last().map(|(score, key)| (key, score))
    }

    /// What keeps a newcomer out, and the rate that it needs.
    fn threshold(&mut self, room: Room, now_ms: u64) -> Threshold {
        let Some(entries) = room.entries else { return Threshold::Free };
        if self.held.len() < entries - self.reserve(entries) {
            return Threshold::Free;
        }
        if self.held.len() >= entries {
            return Threshold::NoEntry;
        }
        // Fewer entries stay than it seems: those of the leaving connections are free
        // soon.
        if self.held.staying() < entries - self.reserve(entries) {
            return Threshold::Free;
        }
        match self.held.least(LOOKS, now_ms) {
            Some((victim, worth)) => {
                let factor = f64::from(self.settings.factor_percent.max(100)) / 100.0;
                Threshold::Taken { victim, needed: worth * factor }
            }
            None => Threshold::NoEntry,
        }
    }

    /// The number of entries kept free out of so many.
    fn reserve(&self, entries: usize) -> usize {
        let reserve = entries * usize::from(self.settings.reserve_percent) / 100;
        reserve.max(1).min(entries / 2)
    }

    /// The card holds fewer connections than there are: connections that are not in
    /// it yet give up their turn, then those of the least worth leave.
    fn give_up(&mut self, room: Room, now_ms: u64, decisions: &mut Decisions) {
        let Some(entries) = room.entries else { return };
        let level = entries - self.reserve(entries);
        for _ in 0..GIVEN_UP.min(self.held.staying().saturating_sub(level)) {
            let mut least = self.held.at(Stage::InLine);
            least = least.or_else(|| self.held.least(LOOKS, now_ms).map(|(key, _)| key));
            let Some(key) = least.or_else(|| self.held.at(Stage::Hardware)) else { return };
            self.evict(key, now_ms, decisions);
        }
    }

    fn evict(&mut self, key: Key, now_ms: u64, decisions: &mut Decisions) {
        self.held.advance(key, Stage::Leaving, now_ms);
        self.counters.evicted += 1;
        decisions.evict.push(key);
    }

    fn close_window(&mut self, now_ms: u64) {
        if now_ms < self.window.since_ms.saturating_add(WINDOW_MS) {
            return;
        }
        let counters = &mut self.counters;
        let samples = counters.samples - self.window.samples;
        let matched = counters.samples_matched - self.window.matched;
        counters.share_matched = if samples == 0 { 0.0 } else { matched as f64 / samples as f64 };
        counters.admitted_last_second = counters.admitted - self.window.admitted;
        self.window = Window {
            since_ms: now_ms,
            samples: counters.samples,
            matched: counters.samples_matched,
            admitted: counters.admitted,
        };
    }
}

/// What keeps a newcomer out.
enum Threshold {
    /// Nothing.
    Free,
    /// The entry of this connection, until the newcomer's rate is so much.
    Taken { victim: Key, needed: f64 },
    /// No entry is free now.
    NoEntry,
}
