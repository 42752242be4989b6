//! The rules of one port: what they need, and how they are created.
mod capacity;
mod destroy;
mod entry_rules;
mod line;
mod quarantine;
pub(crate) mod rule_queue;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use admission::Budget;
use conntrack::ConnId;
use dpdk::flow::{Counters, FlowError, FlowPort, Rule, RuleHandle};
use flow::{Account, Direction, Encoding, PortId};
use state::BackendCounts;
use wire::FlowKey;

use self::capacity::Capacity;
use self::destroy::{Doomed, RuleLabel};
use self::entry_rules::EntryRules;
use self::line::Line;
use self::quarantine::Batch;
pub(crate) use self::quarantine::Gone;
use self::rule_queue::RuleQueue;
use crate::connection::{Fact, LineEnd};
use crate::encode::{Destination, Encoders, NotRewritten, RuleInput, Shape, Tag, Visibility, Why};
use crate::environment::PortTables;
use crate::stats::{Done, Level};
use crate::{FlowType, PortConfig, PortStats};

/// One direction of one connection.
pub(crate) type Owner = (ConnId, Direction);

/// A connection's rule in the card.
#[derive(Debug)]
pub(crate) struct PortRule {
    handle: RuleHandle,
    tag: Tag,
    to: Destination,
    /// What it had counted when it was last read, and for whom.
    counted: Counters,
    account: Account,
    /// What it matches.
    key: FlowKey,
    /// Whether it is a spliced connection's.
    spliced: bool,
}

impl PortRule {
    /// Where it sends its packets.
    pub(crate) const fn destination(&self) -> Destination {
        self.to
    }
}

/// The result of trying to create a rule.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The rule is in the card.
    Created(PortRule, Visibility),
    /// There is no room now.
    NoRoom,
    /// The creation failed, and may be tried again. `asked`: the card was asked.
    Failed { asked: bool },
    /// The card doesn't take the rule, or the encoding can't express it. `asked`: the
    /// card was asked. `fallback`: why, if the port's next encoding may do.
    Refused { asked: bool, fallback: Option<NotRewritten> },
}

/// One port's rules and everything that they need.
#[derive(Debug)]
pub(crate) struct PortRules {
    id: PortId,
    encoding: Encoding,
    encoders: Encoders,
    done: Done,
    /// What rules have sent on past the workers.
    counts: Arc<BackendCounts>,
    /// Of these counts only those that connections know are kept: directions that
    /// wait or have a rule.
    now: Level,
    capacity: Capacity,
    /// Rules that the card may be asked to create.
    budget: Budget,
    /// Nanoseconds from any start; `None`: what a creation takes isn't measured.
    clock: Option<fn() -> u64>,
    line: Line,
    rule_queue: RuleQueue<RuleLabel>,
    entry_rules: EntryRules,
    /// Rules that were made elsewhere.
    adopted: Vec<RuleHandle>,
    /// Rules to be destroyed, by the time it is due, then by age.
    doomed: BTreeMap<(u64, u64), Doomed>,
    /// The age of the last of them.
    sequence: u64,
    /// Destroyed in this tick; their settling begins with the next one, whose
    /// time is certainly later than the last of them was destroyed.
    fresh: Vec<(Owner, Tag)>,
    settling: VecDeque<Batch>,
    /// The owners of rules whose packets workers don't see, by the numbers of the
    /// rules' handles.
    by_handle: HashMap<usize, Owner>,
    /// What the rules of a rewriting port match: in a queue of operations a duplicate
    /// can't be told from a full table.
    keys: HashSet<FlowKey>,
}

impl PortRules {
    /// A port without rules, whose tables have room for so many marks and tags. What
    /// rules send on is noted in `counts`.
    pub(crate) fn new(
        id: PortId,
        config: &PortConfig,
        sizes: (usize, Range<u16>),
        budget: Budget,
        counts: Arc<BackendCounts>,
    ) -> Self {
        Self {
            id,
            encoding: config.encoding,
            encoders: Encoders::new(config, sizes),
            done: Done::default(),
            counts,
            now: Level::default(),
            capacity: Capacity::default(),
            budget,
            clock: None,
            line: Line::default(),
            rule_queue: RuleQueue::default(),
            entry_rules: EntryRules::new(
                config.rewrite.as_ref().is_some_and(|card| card.style.age),
            ),
            adopted: Vec::new(),
            doomed: BTreeMap::new(),
            sequence: 0,
            fresh: Vec::new(),
            settling: VecDeque::new(),
            by_handle: HashMap::new(),
            keys: HashSet::new(),
        }
    }

    /// Which port it is.
    pub(crate) const fn id(&self) -> PortId {
        self.id
    }

    /// Whether the port makes no rules.
    pub(crate) fn is_off(&self) -> bool {
        self.encoders.is_empty()
    }

    /// Whether rules rewrite packets, so that no worker sees them.
    pub(crate) fn rewrites(&self) -> bool {
        self.encoders.rewrites()
    }

    /// Measures what a creation takes by `clock`.
    pub(crate) fn measure(&mut self, clock: fn() -> u64) {
        self.clock = Some(clock);
    }

    /// Counts what has happened to a connection of the port.
    pub(crate) fn count(&mut self, fact: Fact) {
        match fact {
            Fact::Withdrawn | Fact::Orphaned => {}
            Fact::Late(_) => self.done.late += 1,
            Fact::Aged(_) => self.done.aged += 1,
            Fact::Astray(_) => self.done.astray += 1,
            Fact::Rerouted(_) => self.done.rerouted += 1,
        }
    }

    /// Counts a direction whose packets no rule can match.
    pub(crate) fn count_not_encodable(&mut self) {
        Why::NotEncodable.count(&mut self.done.refused);
    }

    /// A direction of a connection has got (`delta` 1) or left (-1) a rule here,
    /// or a place in the line.
    pub(crate) fn count_direction(&mut self, direction: Direction, installed: bool, delta: isize) {
        let count = match (installed, direction) {
            (false, _) => &mut self.now.pending,
            (true, Direction::Forward) => &mut self.now.rules_forward,
            (true, Direction::Reply) => &mut self.now.rules_reply,
        };
        *count = count.saturating_add_signed(delta);
    }

    /// So many rules more, or fewer, are of spliced connections.
    pub(crate) fn count_spliced(&mut self, delta: isize) {
        self.now.rules_spliced = self.now.rules_spliced.saturating_add_signed(delta);
    }

    /// Whether one more may wait for a rule, when `more` come beside it and
    /// `most` may wait. `waits` tells whether an owner in the line still waits.
    pub(crate) fn has_room_in_line(
        &mut self,
        more: usize,
        most: usize,
        waits: impl Fn(Owner) -> bool,
    ) -> bool {
        if self.line.len() > self.now.pending {
            self.line.tidy(waits);
        }
        let room = self.now.pending + more < most;
        self.done.refused.waiting += u64::from(!room);
        room
    }

    /// Puts `owner` in line.
    pub(crate) fn line_up(&mut self, owner: Owner, end: LineEnd) {
        self.line.push(owner, end);
    }

    /// How many are in line, those included that have left.
    pub(crate) fn in_line(&self) -> usize {
        self.line.len()
    }

    /// Whose turn it is, if the card may be asked for a rule now.
    pub(crate) fn next_in_line(&mut self, now_ms: u64) -> Option<Owner> {
        let may_ask =
            self.budget.available(now_ms) > 0 && self.is_ready() && self.capacity.may_ask(now_ms);
        if may_ask { self.line.pop() } else { None }
    }

    /// Creations that the card may be asked for beside those in line.
    pub(crate) fn free_budget(&mut self, now_ms: u64) -> usize {
        self.budget.available(now_ms).saturating_sub(self.now.pending)
    }

    /// Connections whose rules fit in the card, as far as is known: `held` have
    /// rules or wait for some, one each or two if both directions arrive here.
    pub(crate) fn connections_at_most(&self, held: usize, now_ms: u64) -> Option<usize> {
        let limit = match (self.capacity.limit(now_ms), self.encoders.most_rules()) {
            (Some(limit), Some(tags)) => limit.min(tags),
            (limit, tags) => limit.or(tags)?,
        };
        let ours = self.capacity.rules().saturating_sub(self.adopted());
        let each = (ours + self.now.pending).div_ceil(held.max(1)).clamp(1, 2);
        Some(limit.saturating_sub(self.adopted()) / each)
    }

    /// Creates the rule for `input`, its tag's meaning first. With `fallback`
    /// by the port's second encoding.
    pub(crate) fn create(
        &mut self,
        input: &RuleInput,
        fallback: bool,
        tables: PortTables<'_>,
        flows: &mut dyn FlowPort,
        now_ms: u64,
    ) -> Attempt {
        let rank = usize::from(fallback);
        let key = *input.key();
        let kind = FlowType::of(&key);
        if !self.encoders.may_ask(rank, kind, now_ms) {
            self.done.refused.unsupported += 1;
            return Attempt::Refused { asked: false, fallback: self.unsupported(rank) };
        }
        if self.keys.contains(&key) {
            // The card can't tell two connections apart, so only one gets a rule.
            self.done.refused.other += 1;
            return Attempt::Failed { asked: false };
        }
        let (tag, rule, shape) = match self.encoders.encode(rank, input, tables) {
            Ok(encoded) => encoded,
            Err(why) => return self.not_encoded(rank, why),
        };
        let began = self.clock.map(|clock| clock());
        let made = self.make(flows, (&rule, shape), Some((input.owner(), tag)), now_ms);
        let took = self.clock.zip(began).map(|(clock, began)| clock().saturating_sub(began));
        self.budget.asked(took);
        match made {
            Ok(handle) => {
                self.encoders.taken(rank, kind);
                let visibility = self.encoders.visibility(tag);
                if visibility == Visibility::None {
                    self.by_handle.insert(handle.port_value(), input.owner());
                }
                if self.rewrites() {
                    self.keys.insert(key);
                }
                self.done.marked_instead += u64::from(fallback);
                let (to, account) = (input.destination(), input.account());
                let counted = Counters::default();
                let spliced = input.is_spliced();
                let rule = PortRule { handle, tag, to, counted, account, key, spliced };
                Attempt::Created(rule, visibility)
            }
            Err(error) => {
                self.encoders.take_back(tag, tables);
                self.refused(rank, &error, kind, now_ms)
            }
        }
    }

    /// What the rule has counted since it was last read; `None`: the card has
    /// no such rule.
    pub(crate) fn read(
        &mut self,
        rule: &mut PortRule,
        flows: &mut dyn FlowPort,
    ) -> Option<Counters> {
        let PortRule { handle, counted, account, spliced, .. } = rule;
        let new = self.read_counters((counted, Some(*account)), handle, flows);
        self.carried(new.filter(|_| *spliced));
        new
    }

    /// The state of its rules.
    pub(crate) fn stats(&self) -> PortStats {
        let mut stats = PortStats {
            encoding: self.encoding,
            done: self.done,
            now: self.now,
            capacity_learnt: self.capacity.learnt(),
            queued: self.rule_queue.is_queued(),
            budget: Some(self.budget.per_second())
                .filter(|budget| budget.is_finite())
                .map(|budget| budget as u64),
            creation_ns: self.budget.cost_ns().map(|cost| cost as u64),
            ..PortStats::default()
        };
        self.encoders.describe(&mut stats);
        stats.now.rules = self.capacity.rules();
        stats.now.adopted = self.adopted();
        stats.now.doomed = self.doomed();
        stats.now.overdue = self.rule_queue.overdue();
        stats.now.settling = self.settling();
        stats
    }

    /// Creates a rule and counts it.
    fn make(
        &mut self,
        flows: &mut dyn FlowPort,
        rule: (&Rule, Shape),
        owner: Option<(Owner, Tag)>,
        now_ms: u64,
    ) -> Result<RuleHandle, FlowError> {
        let label = RuleLabel::new(owner);
        let handle = self.rule_queue.create(flows, rule, &label, now_ms)?;
        self.done.created += 1;
        self.capacity.created();
        Ok(handle)
    }

    /// Why the next encoding may do, if the card doesn't take the flow type in
    /// rules of `rank`.
    fn unsupported(&self, rank: usize) -> Option<NotRewritten> {
        self.fallback(rank, NotRewritten::Unsupported)
    }

    /// `why`, if there is another encoding than that of `rank` to fall back on.
    fn fallback(&self, rank: usize, why: NotRewritten) -> Option<NotRewritten> {
        (rank == 0 && self.encoders.has_fallback()).then_some(why)
    }

    /// There is no rule to ask the card for.
    fn not_encoded(&mut self, rank: usize, why: Why) -> Attempt {
        if why == Why::NoMark && rank == 0 {
            return Attempt::NoRoom;
        }
        why.count(&mut self.done.refused);
        match why {
            Why::Unresolved => Attempt::Failed { asked: false },
            Why::NotRewritten(why) => {
                Attempt::Refused { asked: false, fallback: self.fallback(rank, why) }
            }
            Why::NoMark | Why::NoQueue | Why::NotEncodable => {
                Attempt::Refused { asked: false, fallback: None }
            }
        }
    }

    /// The card refused a rule.
    fn refused(&mut self, rank: usize, error: &FlowError, kind: FlowType, now_ms: u64) -> Attempt {
        if error.is_full() {
            self.done.refused.full += 1;
            if rank > 0 {
                // Directions that can be rewritten don't wait for it: their rules are
                // in another table.
                return Attempt::Refused { asked: true, fallback: None };
            }
            self.capacity.refused(now_ms);
            return Attempt::NoRoom;
        }
        if self.encoders.refused(rank, kind, error, now_ms) {
            self.done.refused.unsupported += 1;
            return Attempt::Refused { asked: true, fallback: self.unsupported(rank) };
        }
        self.done.refused.other += 1;
        self.budget.refused();
        Attempt::Failed { asked: true }
    }

    /// Whether another encoding may do for what the card would not take.
    pub(crate) fn has_fallback(&self) -> bool {
        self.encoders.has_fallback()
    }
}
