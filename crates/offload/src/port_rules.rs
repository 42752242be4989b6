//! The rules of one port: creating, destroying, settling.
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use admission::Budget;
use conntrack::ConnId;
use dpdk::flow::{Action, Counters, FlowError, FlowPort, Rule, RuleHandle};
use pipeline::encoding::Marked;
use pipeline::{PortId, Ticket};
use service::{Binding, Direction};
use wire::FlowKey;

use crate::backoff::{Backoff, Waits};
use crate::capacity::Capacity;
use crate::connections::PortTables;
use crate::engine::{Destroy, Engine};
use crate::entry::{Entry, Installed, Tag};
use crate::flow_type::Unsupported;
use crate::marks::Marks;
use crate::port_rewrite::{Ends, Frame};
use crate::queue_action::queue_action;
use crate::queues::Queues;
use crate::rewrite::Shape;
use crate::stats::Done;
use crate::{Encoding, FlowType, PortConfig};

/// A rule that the card won't destroy is tried again after 10 ms, then ever
/// more seldom up to 10 s.
const DESTROY_AGAIN: Waits = Waits { first_ms: 10, longest_ms: 10_000 };

/// The line is tidied up no more often.
const CLOSE_RANKS_MS: u64 = 1_000;

/// One direction of one connection.
pub(crate) type Owner = (ConnId, Direction);

/// All that a rule is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) owner: Owner,
    pub(crate) binding: Binding,
    pub(crate) any_port: bool,
    pub(crate) ends: Ends,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The rule is in the card.
    Created(Installed),
    /// There is no room now.
    NoRoom,
    /// It failed for once: it may be tried again.
    Failed,
    /// The card doesn't take it, or the encoding can't express it: the
    /// direction stays in software. The card was asked or not.
    Refused { asked: bool },
}

/// A rule as far as it concerns its end. Adopted ones have neither owner nor tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) owner: Option<(Owner, Tag)>,
    /// What it had counted when it was last looked at.
    pub(crate) counted: Counters,
    /// What it matches, if no other may match that.
    key: Option<FlowKey>,
    backoff: Backoff,
}

impl Name {
    pub(crate) fn of(owner: Option<(Owner, Tag)>) -> Self {
        Self {
            owner,
            counted: Counters::default(),
            key: None,
            backoff: Backoff::new(DESTROY_AGAIN),
        }
    }
}

/// A rule to be destroyed.
#[derive(Debug)]
struct Doomed {
    name: Name,
    handle: RuleHandle,
}

/// Tags whose rules were destroyed in the same tick.
#[derive(Debug)]
struct Batch {
    until_ms: u64,
    ticket: Option<Ticket>,
    tags: Vec<(Owner, Tag)>,
}

/// One port's rules and all they need.
#[derive(Debug)]
pub(crate) struct PortRules {
    pub(crate) port: PortId,
    pub(crate) encoding: Encoding,
    pub(crate) done: Done,
    pub(crate) capacity: Capacity,
    pub(crate) unsupported: Unsupported,
    pub(crate) marks: Marks,
    pub(crate) queues: Queues,
    /// Those in line, first come first served. An item counts only if the
    /// connection's entry says that it is waiting here.
    pub(crate) line: VecDeque<Owner>,
    closed_ranks_ms: u64,
    /// By the time it is due, then by age.
    doomed: BTreeMap<(u64, u64), Doomed>,
    sequence: u64,
    adopted: Vec<RuleHandle>,
    /// Destroyed in this tick; their settling begins with the next one, whose
    /// time is certainly later than the last of them was destroyed.
    fresh: Vec<(Owner, Tag)>,
    settling: VecDeque<Batch>,
    rule_queues: Vec<u16>,
    pub(crate) engine: Engine<Name>,
    /// Of encoding `rewrite`.
    pub(crate) frame: Frame,
    /// Whose rules of encoding `rewrite` are in the card, by the numbers of
    /// their handles.
    pub(crate) by_handle: HashMap<usize, Owner>,
    /// What the rules of encoding `rewrite` match that are in the card: in a
    /// queue of operations one can't tell a duplicate from a full table.
    pub(crate) keys: HashSet<FlowKey>,
    /// Rules that the card may be asked to create.
    pub(crate) budget: Budget,
    /// Nanoseconds from any start; `None`: what a creation takes isn't measured.
    pub(crate) clock: Option<fn() -> u64>,
}

impl PortRules {
    pub(crate) fn new(
        port: PortId,
        config: &PortConfig,
        (marks, tags): (usize, Range<u16>),
        budget: Budget,
    ) -> Self {
        let in_mark = config.encoding == Encoding::Mark;
        let in_queue = config.encoding == Encoding::Queue;
        let tags = if in_queue { tags } else { 0..0 };
        let own: &[u16] = if in_queue { &config.queues } else { &[] };
        Self {
            port,
            encoding: config.encoding,
            done: Done::default(),
            capacity: Capacity::default(),
            unsupported: Unsupported::default(),
            marks: Marks::new(if in_mark { marks } else { 0 }),
            queues: Queues::new(own, &config.shared_queues, tags, config.workers),
            line: VecDeque::new(),
            closed_ranks_ms: 0,
            doomed: BTreeMap::new(),
            sequence: 0,
            adopted: Vec::new(),
            fresh: Vec::new(),
            settling: VecDeque::new(),
            rule_queues: config.queues.clone(),
            engine: Engine::default(),
            frame: Frame::new(config.rewrite.clone()),
            by_handle: HashMap::new(),
            keys: HashSet::new(),
            budget,
            clock: None,
        }
    }

    /// Removes those from the line that have left it, at most once a second:
    /// it looks at all of them.
    pub(crate) fn close_ranks(&mut self, entries: &BTreeMap<ConnId, Entry>, now_ms: u64) {
        if now_ms < self.closed_ranks_ms.saturating_add(CLOSE_RANKS_MS) {
            return;
        }
        self.closed_ranks_ms = now_ms;
        let port = self.port;
        self.line.retain(|(conn, direction)| {
            entries.get(conn).is_some_and(|entry| entry.waits_on(*direction, port))
        });
    }

    /// Creates the rule for `job`, its tag's meaning first.
    pub(crate) fn create(
        &mut self,
        job: &Job,
        tables: PortTables<'_>,
        flows: &mut dyn FlowPort,
        now_ms: u64,
    ) -> Attempt {
        let Some(key) = job.binding.key(job.owner.1) else {
            self.done.refused.not_encodable += 1;
            return Attempt::Refused { asked: false };
        };
        let kind = FlowType::of(&key);
        if !self.unsupported.may_ask(kind, now_ms) {
            self.done.refused.unsupported += 1;
            return Attempt::Refused { asked: false };
        }
        let (tag, rule, shape) = match self.assign(job, &key, tables) {
            Ok(assigned) => assigned,
            Err(attempt) => return attempt,
        };
        let began = self.clock.map(|clock| clock());
        let made = self.make(flows, (&rule, shape), Some(job.owner), now_ms);
        let took = self.clock.zip(began).map(|(clock, began)| clock().saturating_sub(began));
        self.budget.asked(took);
        match made {
            Ok(handle) => {
                self.unsupported.taken(kind);
                if tag == Tag::Nothing {
                    self.by_handle.insert(handle.port_value(), job.owner);
                    self.keys.insert(key);
                }
                Attempt::Created(Installed {
                    port: self.port,
                    handle,
                    tag,
                    goal: job.ends.goal,
                    counted: Counters::default(),
                    key,
                    aged: false,
                })
            }
            Err(error) => {
                self.take_back(tag, tables);
                self.refused(&error, kind, now_ms)
            }
        }
    }

    fn refused(&mut self, error: &FlowError, kind: FlowType, now_ms: u64) -> Attempt {
        if error.is_full() {
            self.done.refused.full += 1;
            self.capacity.refused(now_ms);
            return Attempt::NoRoom;
        }
        if self.unsupported.refused(kind, error, now_ms) {
            self.done.refused.unsupported += 1;
            return Attempt::Refused { asked: true };
        }
        self.done.refused.other += 1;
        self.budget.refused();
        Attempt::Failed
    }

    /// A tag for `job`, already in the table that workers read, and its rule.
    fn assign(
        &mut self,
        job: &Job,
        key: &FlowKey,
        tables: PortTables<'_>,
    ) -> Result<(Tag, Rule, Shape), Attempt> {
        let (conn, direction) = job.owner;
        if self.rewrites() {
            return self.rewriting(job, key).map(|(rule, shape)| (Tag::Nothing, rule, shape));
        }
        let shape = Shape::Plain;
        if self.encoding == Encoding::Mark {
            let mark = self.marks.take().ok_or(Attempt::NoRoom)?;
            tables.marks.set(mark, Marked { conn, direction });
            // Both directions of a connection on one queue, the connections over all.
            let at = conn.raw() as usize % self.rule_queues.len().max(1);
            let queue = self.rule_queues.get(at).copied().unwrap_or(0);
            let actions = vec![Action::Queue(queue), Action::Mark(mark)];
            return Ok((Tag::Mark(mark), Rule::five_tuple(key, actions), shape));
        }
        let action = queue_action(&job.binding, direction, job.ends.goal.hop, job.any_port);
        let action = action.map_err(|_| {
            self.done.refused.not_encodable += 1;
            Attempt::Refused { asked: false }
        })?;
        let Some(taken) = self.queues.take(&action) else {
            self.done.refused.no_queue += 1;
            return Err(Attempt::Refused { asked: false });
        };
        if taken.is_new {
            tables.queues.set(taken.tag, Some(action));
        }
        let mark = taken.marked.then_some(Action::Mark(taken.tag.into()));
        let actions = std::iter::once(Action::Queue(taken.queue)).chain(mark).collect();
        Ok((Tag::Queue(taken.tag), Rule::five_tuple(key, actions), shape))
    }

    /// The rule with `tag` was refused: no packet ever carried it.
    fn take_back(&mut self, tag: Tag, tables: PortTables<'_>) {
        match tag {
            Tag::Mark(mark) => {
                tables.marks.clear(mark);
                self.marks.give_back(mark);
            }
            Tag::Queue(_) | Tag::Nothing => self.free(tag, tables),
        }
    }

    /// No packet carries `tag` for its rule any more.
    fn free(&mut self, tag: Tag, tables: PortTables<'_>) {
        match tag {
            Tag::Mark(mark) => {
                tables.marks.clear(mark);
                self.marks.release(mark);
            }
            Tag::Queue(tag) => {
                if self.queues.release(tag) {
                    tables.queues.set(tag, None);
                }
            }
            Tag::Nothing => {}
        }
    }

    /// `installed` is to be destroyed.
    pub(crate) fn doom(&mut self, owner: Owner, installed: Installed) {
        self.by_handle.remove(&installed.handle.port_value());
        let counted = installed.counted;
        let key = self.rewrites().then_some(installed.key);
        let name = Name { counted, key, ..Name::of(Some((owner, installed.tag))) };
        self.put(Doomed { name, handle: installed.handle });
    }

    /// The rule of `handle`, which is no connection's, is to be destroyed.
    pub(crate) fn doom_bare(&mut self, handle: RuleHandle) {
        self.put(Doomed { name: Name::of(None), handle });
    }

    /// A rule made elsewhere, to be destroyed at the end.
    pub(crate) fn adopt(&mut self, handle: RuleHandle) {
        self.done.created += 1;
        self.capacity.created();
        self.adopted.push(handle);
    }

    /// Rules that are no connection's.
    pub(crate) fn adopted(&self) -> usize {
        self.adopted.len() + self.frame.rules()
    }

    fn put(&mut self, doomed: Doomed) {
        self.sequence += 1;
        self.doomed.insert((doomed.name.backoff.until_ms(), self.sequence), doomed);
    }

    /// Destroys at most `budget` of the rules that are due at `now_ms`.
    pub(crate) fn destroy(&mut self, flows: &mut dyn FlowPort, budget: usize, now_ms: u64) {
        for _ in 0..budget {
            let Some(first) = self.doomed.first_entry() else { return };
            if first.key().0 > now_ms {
                return;
            }
            let doomed = first.remove();
            self.destroy_one(doomed, flows, now_ms);
        }
    }

    fn destroy_one(&mut self, doomed: Doomed, flows: &mut dyn FlowPort, now_ms: u64) {
        let Doomed { mut name, handle } = doomed;
        if matches!(name.owner, Some((_, Tag::Nothing))) {
            // What came since nobody reads later.
            self.read(&mut name.counted, &handle, flows);
        }
        match self.engine.destroy(flows, handle, name, now_ms) {
            Destroy::Done(name) => self.destroyed(name),
            Destroy::InLine => {}
            Destroy::Failed(name, _, error) if error.errno == FlowError::NOT_FOUND => {
                self.done.lost += 1;
                self.destroyed(name);
            }
            Destroy::Failed(name, handle, _) => self.not_destroyed(name, handle, now_ms),
        }
    }

    /// The card would not destroy a rule: again later.
    pub(crate) fn not_destroyed(&mut self, mut name: Name, handle: RuleHandle, now_ms: u64) {
        self.done.retries += 1;
        name.backoff.failed(now_ms);
        self.put(Doomed { name, handle });
    }

    pub(crate) fn destroyed(&mut self, name: Name) {
        let Name { owner, key, .. } = name;
        if let Some(key) = key {
            self.keys.remove(&key);
        }
        self.done.destroyed += 1;
        self.capacity.destroyed();
        if let Some((owner, tag)) = owner {
            if let Tag::Mark(mark) = tag {
                self.marks.quarantine(mark);
            }
            self.fresh.push((owner, tag));
        }
    }

    /// Begins to settle what the last tick destroyed, and frees the tags that
    /// no packet can carry any more: the card had `settle_ms` to let go of the
    /// rule, and all packets that were in the receive queues then have been
    /// processed. Returns their owners.
    pub(crate) fn settle(
        &mut self,
        tables: PortTables<'_>,
        settle_ms: u64,
        now_ms: u64,
    ) -> Vec<Owner> {
        if !self.fresh.is_empty() {
            let tags = std::mem::take(&mut self.fresh);
            let until_ms = now_ms.saturating_add(settle_ms);
            self.settling.push_back(Batch { until_ms, ticket: None, tags });
        }
        for batch in &mut self.settling {
            if now_ms < batch.until_ms {
                break;
            }
            batch.ticket.get_or_insert_with(|| tables.drained.ticket());
        }
        let mut owners = Vec::new();
        let passed = |batch: &Batch| batch.ticket.is_some_and(|t| tables.drained.passed(t));
        while self.settling.front().is_some_and(passed) {
            for (owner, tag) in self.settling.pop_front().map(|b| b.tags).unwrap_or_default() {
                self.free(tag, tables);
                owners.push(owner);
            }
        }
        owners
    }

    /// Rules that are to be destroyed.
    pub(crate) fn doomed(&self) -> usize {
        self.doomed.len() + self.engine.destroying()
    }

    /// Destroyed rules whose tag a packet may still carry.
    pub(crate) fn settling(&self) -> usize {
        self.fresh.len() + self.settling.iter().map(|batch| batch.tags.len()).sum::<usize>()
    }

    /// At the end: tries every doomed and adopted rule once, due or not. Their
    /// tags lose their meaning for good.
    pub(crate) fn destroy_all(
        &mut self,
        flows: &mut dyn FlowPort,
        tables: PortTables<'_>,
        now_ms: u64,
    ) {
        // They may stand behind the others, so they go last.
        std::mem::take(&mut self.adopted).into_iter().for_each(|handle| self.doom_bare(handle));
        for (_, doomed) in std::mem::take(&mut self.doomed) {
            if let Some((_, tag)) = doomed.name.owner {
                forget(tag, tables);
            }
            self.destroy_one(doomed, flows, now_ms);
        }
        self.finish(flows, now_ms);
        if self.doomed() == 0 {
            // No connection's rule is left that would need the guards.
            self.take_down();
        }
        let settling = self.settling.iter().flat_map(|batch| &batch.tags);
        settling.chain(&self.fresh).for_each(|&(_, tag)| forget(tag, tables));
    }
}

/// Packets with `tag` are looked up in software from now on.
fn forget(tag: Tag, tables: PortTables<'_>) {
    match tag {
        Tag::Mark(mark) => {
            tables.marks.clear(mark);
        }
        Tag::Queue(tag) => {
            tables.queues.set(tag, None);
        }
        Tag::Nothing => {}
    }
}
