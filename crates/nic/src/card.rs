//! The NIC itself, which shares the match table between wire and host.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::CardProfile;
use packet::PacketBuf;

use crate::config::{NicConfig, NicError};
use crate::director::Director;
use crate::edits::Edits;
use crate::encap::Encap;
use crate::fault::Fault;
use crate::flows::NicFlows;
use crate::frame_key::FrameKey;

use crate::profile::{PortFacts, Profile, Rates, Target};
use crate::queues::Queues;
use crate::rss::{Place, Rss};
use crate::rules::Rules;
use crate::stats::NicStats;
use crate::steering::{Steering, Verdict};
use crate::tables::Tables;

/// Why the NIC delivers a frame to no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// A rule with DROP matched.
    Rule,
    /// The port is stopped.
    Stopped,
    /// A rule sent the frame on to a group of which no rule matched.
    Unmatched,
}

/// Where the NIC puts one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disposition {
    /// The receive queue; meaningless if the frame is dropped or forwarded.
    pub queue: u16,
    /// The port that the NIC sends the frame out of, past the host.
    pub forward: Option<u16>,
    /// What the NIC changes in the frame, whether it is forwarded or received.
    pub edits: Edits,
    /// The headers that it then puts in front, in the place of Ethernet's.
    pub encap: Option<Encap>,
    /// What the mbuf reports: the RSS hash, if the NIC computed one.
    pub hash: Option<u32>,
    /// What the mbuf reports: the matching rule's mark.
    pub mark: Option<u32>,
    /// Why the frame isn't delivered.
    pub dropped: Option<DropReason>,
    /// Whether a rule decided where it goes. A rule with JUMP decides nothing.
    pub matched: bool,
}

impl Disposition {
    #[inline]
    fn at(self, place: Place) -> Self {
        Self { queue: place.queue, hash: place.hash, ..self }
    }

    /// Changes `packet` as the NIC does. `false`: there is no room in front for the
    /// new headers.
    #[must_use]
    #[inline]
    pub fn change<P: PacketBuf>(&self, packet: &mut P) -> bool {
        self.edits.apply(packet.bytes_mut());
        self.encap.as_ref().is_none_or(|encap| encap.apply(packet))
    }
}

/// What the receive path counts.
#[derive(Default)]
struct Received {
    frames: u64,
    matched: u64,
    missed: u64,
    dropped: u64,
    forwarded: u64,
    forwarded_bytes: u64,
    tunnelled: u64,
    unmatched: u64,
    stopped: u64,
    per_queue: Vec<u64>,
}

struct State {
    rules: Rules,
    rss: Rss,
    queues: Queues,
    received: Received,
}

struct Shared {
    profile: CardProfile,
    queues: u16,
    report_marks: bool,
    switch: Vec<u16>,
    play_insertion: bool,
    state: Mutex<State>,
}

/// An emulated NIC. Clones are the same NIC. The receive path takes one lock a
/// burst; the programming side holds it for one table operation at a time.
#[derive(Clone)]
pub struct Nic {
    shared: Arc<Shared>,
}

impl Nic {
    /// A started NIC without rules.
    ///
    /// # Errors
    /// [`NicError`] says what the card does not have.
    pub fn new(config: &NicConfig) -> Result<Self, NicError> {
        let card = Profile::of(config.profile);
        let capacity = config.checked_capacity()?;
        let reta = config.checked_reta(card)?;
        let received =
            Received { per_queue: vec![0; usize::from(config.queues)], ..Received::default() };
        let shared = Shared {
            profile: config.profile,
            queues: config.queues,
            report_marks: config.report_marks,
            switch: config.switch.clone(),
            play_insertion: config.play_insertion,
            state: Mutex::new(State {
                rules: Rules::new(card, capacity),
                rss: Rss::new(&config.rss_key, reta),
                queues: Queues::default(),
                received,
            }),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Decides where `frames` go, the first into `out[0]`. Frames that `out`
    /// has no room for aren't taken from the iterator. Returns how many
    /// frames were taken. `now_ns` is the NIC's clock, as for [`Self::advance`].
    pub fn receive_burst<'f>(
        &self,
        frames: impl IntoIterator<Item = &'f [u8]>,
        now_ns: u64,
        out: &mut [Disposition],
    ) -> usize {
        let mut state = self.lock();
        let State { rules, rss, received, .. } = &mut *state;
        rules.advance(now_ns);
        rss.reta().advance(rules.now_ns());
        let mut taken = 0;
        for (disposition, frame) in out.iter_mut().zip(frames) {
            *disposition = self.deliver(rules, rss, frame);
            received.count(disposition, frame.len());
            taken += 1;
        }
        taken
    }

    #[inline]
    fn deliver(&self, rules: &mut Rules, rss: &mut Rss, frame: &[u8]) -> Disposition {
        if !rules.running() {
            return Disposition { dropped: Some(DropReason::Stopped), ..Disposition::default() };
        }
        let now_ns = rules.now_ns();
        match &mut rules.tables {
            Tables::Director(director) => self.direct(director, rss, frame),
            Tables::Steering(steering) => self.steer(steering, rss, frame, now_ns),
        }
    }

    #[inline]
    fn direct(&self, director: &mut Director, rss: &mut Rss, frame: &[u8]) -> Disposition {
        let frame = FrameKey::parse(frame);
        let Some(entry) = director.find(&frame) else {
            return Disposition::default().at(rss.place(&frame));
        };
        entry.counters.packets += 1;
        let mark = if self.shared.report_marks { entry.mark } else { None };
        let disposition = Disposition { mark, matched: true, ..Disposition::default() };
        match entry.target {
            Target::Queue(queue) => Disposition { queue, ..disposition },
            Target::Drop => Disposition { dropped: Some(DropReason::Rule), ..disposition },
            Target::Rss => disposition.at(rss.place(&frame)),
        }
    }

    /// RSS hashes the packet as the rules have changed it, since its place is behind
    /// all tables.
    fn steer(
        &self,
        steering: &mut Steering,
        rss: &mut Rss,
        frame: &[u8],
        now_ns: u64,
    ) -> Disposition {
        let decision = steering.decide(frame, now_ns);
        let disposition = Disposition {
            mark: if self.shared.report_marks { decision.mark } else { None },
            edits: decision.edits,
            encap: decision.encap,
            matched: !matches!(decision.verdict, Verdict::Default | Verdict::Unmatched),
            ..Disposition::default()
        };
        let hashed = || {
            if decision.edits.is_empty() { FrameKey::parse(frame) } else { decision.key.frame() }
        };
        match decision.verdict {
            Verdict::Queue(queue) => Disposition { queue, ..disposition },
            Verdict::Rss(queues) => disposition.at(rss.place_among(&hashed(), queues)),
            Verdict::Default => disposition.at(rss.place(&hashed())),
            Verdict::Drop => Disposition { dropped: Some(DropReason::Rule), ..disposition },
            Verdict::Unmatched => {
                Disposition { dropped: Some(DropReason::Unmatched), ..disposition }
            }
            Verdict::Port(port) => Disposition { forward: Some(port), ..disposition },
        }
    }

    /// The programming side.
    #[must_use]
    pub fn flows(&self) -> NicFlows {
        NicFlows::new(self.clone())
    }

    /// Moves the NIC's clock to `now_ns`, never back: delayed completions that
    /// are due take effect. Needed only while no frames arrive.
    pub fn advance(&self, now_ns: u64) {
        let State { rules, rss, .. } = &mut *self.lock();
        rules.advance(now_ns);
        rss.reta().advance(rules.now_ns());
    }

    /// Changes entries of the redirection table, given as pairs of an entry's number and
    /// its new queue, while frames arrive. Frames that were received before stay where
    /// they are.
    ///
    /// # Errors
    /// There is no such entry or queue, an ordered fault refuses the update, or the
    /// port is stopped. Nothing has changed then.
    pub fn update_reta(&self, entries: &[(u16, u16)]) -> Result<(), NicError> {
        let profile = self.shared.profile;
        let State { rules, rss, .. } = &mut *self.lock();
        let (size, max) = (rss.reta().written().len(), self.shared.queues.min(profile.queues()));
        for &(entry, queue) in entries {
            if usize::from(entry) >= size {
                return Err(NicError::RetaEntry { profile, entry, size });
            }
            if queue >= max {
                return Err(NicError::RetaQueue { profile, queue, max });
            }
        }
        let late = rules.reta_update().ok_or(NicError::RetaRefused { profile })?;
        rss.reta().update(entries, rules.now_ns(), late);
        Ok(())
    }

    /// The queue of each entry of the redirection table, as the host has written it.
    #[must_use]
    pub fn reta(&self) -> Vec<u16> {
        self.lock().rss.reta().written().to_vec()
    }

    /// Orders a fault; it is in force until [`Self::clear_faults`].
    pub fn order_fault(&self, fault: Fault) {
        self.lock().rules.order_fault(fault);
    }

    /// Ends all faults. Delayed effects that they have caused still happen, and lost
    /// rules stay lost.
    pub fn clear_faults(&self) {
        self.lock().rules.clear_faults();
    }

    /// Stops the port: all rules are gone and frames are dropped.
    pub fn stop(&self) {
        let state = &mut *self.lock();
        state.rules.stop();
        state.queues.stop();
    }

    /// Starts the port again, without rules.
    pub fn start(&self) {
        self.lock().rules.start();
    }

    /// Stops and starts the port.
    pub fn reset(&self) {
        self.stop();
        self.start();
    }

    /// What the NIC has done so far.
    #[must_use]
    pub fn stats(&self) -> NicStats {
        let mut state = self.lock();
        let reta_updates = state.rss.reta().updated();
        let received = &state.received;
        let mut stats = NicStats {
            received: received.frames,
            matched: received.matched,
            missed: received.missed,
            dropped: received.dropped,
            forwarded: received.forwarded,
            forwarded_bytes: received.forwarded_bytes,
            tunnelled: received.tunnelled,
            unmatched: received.unmatched,
            stopped: received.stopped,
            per_queue: received.per_queue.clone(),
            reta_updates,
            ..NicStats::default()
        };
        state.rules.fill(&mut stats);
        stats
    }

    /// The card it plays.
    #[must_use]
    pub fn profile(&self) -> CardProfile {
        self.shared.profile
    }

    /// Number of receive queues.
    #[must_use]
    pub fn queues(&self) -> u16 {
        self.shared.queues
    }

    pub(crate) fn facts(&self, queued: bool) -> PortFacts<'_> {
        let Shared { queues, switch, .. } = &*self.shared;
        PortFacts { queues: *queues, switch, queued, highest_group: self.card().highest_group }
    }

    /// The time that inserting a rule takes, if the NIC plays it.
    pub(crate) fn insertion(&self) -> Rates {
        let rates = self.card().rates;
        if self.shared.play_insertion {
            return rates;
        }
        Rates { insert_ns: 0, queued_insert_ns: 0, ..rates }
    }

    pub(crate) fn card(&self) -> &'static Profile {
        Profile::of(self.shared.profile)
    }

    pub(crate) fn with_rules<T>(&self, act: impl FnOnce(&mut Rules) -> T) -> T {
        act(&mut self.lock().rules)
    }

    pub(crate) fn with_queues<T>(&self, act: impl FnOnce(&mut Queues, &mut Rules) -> T) -> T {
        let state = &mut *self.lock();
        act(&mut state.queues, &mut state.rules)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Received {
    #[inline]
    fn count(&mut self, disposition: &Disposition, len: usize) {
        self.frames += 1;
        match disposition.dropped {
            Some(DropReason::Stopped) => self.stopped += 1,
            _ if disposition.matched => self.matched += 1,
            _ => self.missed += 1,
        }
        match disposition.dropped {
            Some(DropReason::Rule) => self.dropped += 1,
            Some(DropReason::Unmatched) => self.unmatched += 1,
            Some(DropReason::Stopped) => {}
            None if disposition.forward.is_some() => {
                self.forwarded += 1;
                self.forwarded_bytes += len as u64;
                self.tunnelled += u64::from(disposition.encap.is_some());
            }
            None => self.count_queue(disposition.queue),
        }
    }

    #[inline]
    fn count_queue(&mut self, queue: u16) {
        if let Some(count) = self.per_queue.get_mut(usize::from(queue)) {
            *count += 1;
        }
    }
}
