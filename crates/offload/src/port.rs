//! The rules of one port: what they need, and creating them.
pub(crate) mod capacity;
pub(crate) mod destroy;
pub(crate) mod entry_rules;
pub(crate) mod quarantine;
pub(crate) mod rule_queue;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use admission::Budget;
use conntrack::ConnId;
use dpdk::flow::{Action, Counters, FlowError, FlowPort, Rule, RuleHandle};
use flow::{Direction, Encoding, PortId};
use service::Binding;
use state::Marked;
use wire::FlowKey;

use crate::connection::{Entry, Installed, Tag};
use crate::encode::mark::pool::Marks;
use crate::encode::queue::action::queue_action;
use crate::encode::queue::tags::Queues;
use crate::encode::rewrite::Shape;
use crate::environment::PortTables;
use crate::flow_type::Unsupported;
use crate::mark_fallback::NotRewritten;
use crate::port::capacity::Capacity;
use crate::port::destroy::{Doomed, Name};
use crate::port::entry_rules::{Ends, Frame};
use crate::port::quarantine::Batch;
use crate::port::rule_queue::Engine;
use crate::stats::Done;
use crate::{FlowType, PortConfig};

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
    /// It can't be rewritten: a mark will do.
    pub(crate) second_best: bool,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The rule is in the card.
    Created(Installed),
    /// There is no room now.
    NoRoom,
    /// It failed for once: it may be tried again. The card was asked or not.
    Failed { asked: bool },
    /// The card doesn't take it, or the encoding can't express it: the
    /// direction stays in software, or gets a mark if `why` says that it can't
    /// be rewritten. The card was asked or not.
    Refused { asked: bool, why: Option<NotRewritten> },
}

/// One port's rules and all they need.
#[derive(Debug)]
pub(crate) struct PortRules {
    pub(crate) port: PortId,
    pub(crate) encoding: Encoding,
    pub(crate) done: Done,
    pub(crate) capacity: Capacity,
    pub(crate) unsupported: Unsupported,
    /// Of marks on a port that rewrites.
    unsupported_marks: Unsupported,
    /// What can't be rewritten gets a mark.
    pub(crate) mark_instead: bool,
    pub(crate) marks: Marks,
    pub(crate) queues: Queues,
    /// Those in line, first come first served. An item counts only if the
    /// connection's entry says that it is waiting here.
    pub(crate) line: VecDeque<Owner>,
    closed_ranks_ms: u64,
    /// By the time it is due, then by age.
    pub(crate) doomed: BTreeMap<(u64, u64), Doomed>,
    pub(crate) sequence: u64,
    pub(crate) adopted: Vec<RuleHandle>,
    /// Destroyed in this tick; their settling begins with the next one, whose
    /// time is certainly later than the last of them was destroyed.
    pub(crate) fresh: Vec<(Owner, Tag)>,
    pub(crate) settling: VecDeque<Batch>,
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
        let in_mark = match config.encoding {
            Encoding::Mark => true,
            Encoding::Rewrite => config.mark_instead,
            Encoding::Queue | Encoding::Off => false,
        };
        let in_queue = config.encoding == Encoding::Queue;
        let tags = if in_queue { tags } else { 0..0 };
        let own: &[u16] = if in_queue { &config.queues } else { &[] };
        Self {
            port,
            encoding: config.encoding,
            done: Done::default(),
            capacity: Capacity::default(),
            unsupported: Unsupported::default(),
            unsupported_marks: Unsupported::default(),
            mark_instead: config.mark_instead,
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
            return Attempt::Refused { asked: false, why: None };
        };
        let kind = FlowType::of(&key);
        if !self.unsupported(job).may_ask(kind, now_ms) {
            self.done.refused.unsupported += 1;
            return self.cannot(job, false);
        }
        let (tag, rule, shape) = match self.assign(job, &key, tables) {
            Ok(assigned) => assigned,
            Err(attempt) => return attempt,
        };
        let began = self.clock.map(|clock| clock());
        let made = self.make(flows, (&rule, shape), Some((job.owner, tag)), now_ms);
        let took = self.clock.zip(began).map(|(clock, began)| clock().saturating_sub(began));
        self.budget.asked(took);
        match made {
            Ok(handle) => {
                self.unsupported(job).taken(kind);
                if tag == Tag::Nothing {
                    self.by_handle.insert(handle.port_value(), job.owner);
                }
                if self.rewrites() {
                    self.keys.insert(key);
                }
                self.done.marked_instead += u64::from(job.second_best);
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
                self.refused(job, &error, kind, now_ms)
            }
        }
    }

    /// Which flow types are refused in rules like `job`'s.
    fn unsupported(&mut self, job: &Job) -> &mut Unsupported {
        if job.second_best { &mut self.unsupported_marks } else { &mut self.unsupported }
    }

    /// The card takes no rules for the flow type.
    fn cannot(&self, job: &Job, asked: bool) -> Attempt {
        let rewriting = self.rewrites() && !job.second_best;
        Attempt::Refused { asked, why: rewriting.then_some(NotRewritten::Unsupported) }
    }

    fn refused(&mut self, job: &Job, error: &FlowError, kind: FlowType, now_ms: u64) -> Attempt {
        if error.is_full() {
            self.done.refused.full += 1;
            if job.second_best {
                // Those who can be rewritten don't wait for it: it is another table.
                return Attempt::Refused { asked: true, why: None };
            }
            self.capacity.refused(now_ms);
            return Attempt::NoRoom;
        }
        if self.unsupported(job).refused(kind, error, now_ms) {
            self.done.refused.unsupported += 1;
            return self.cannot(job, true);
        }
        self.done.refused.other += 1;
        self.budget.refused();
        Attempt::Failed { asked: true }
    }

    /// A tag for `job`, already in the table that workers read, and its rule.
    fn assign(
        &mut self,
        job: &Job,
        key: &FlowKey,
        tables: PortTables<'_>,
    ) -> Result<(Tag, Rule, Shape), Attempt> {
        if job.second_best {
            return self.second_best(job, key, tables);
        }
        if self.rewrites() {
            return self.rewriting(job, key).map(|(rule, shape)| (Tag::Nothing, rule, shape));
        }
        let shape = Shape::Plain;
        if self.encoding == Encoding::Mark {
            return self.marked(job, key, tables).map(|(tag, rule)| (tag, rule, shape));
        }
        let (_, direction) = job.owner;
        let action = queue_action(&job.binding, direction, job.ends.goal.hop, job.any_port);
        let action = action.map_err(|_| {
            self.done.refused.not_encodable += 1;
            Attempt::Refused { asked: false, why: None }
        })?;
        let Some(taken) = self.queues.take(&action) else {
            self.done.refused.no_queue += 1;
            return Err(Attempt::Refused { asked: false, why: None });
        };
        if taken.is_new {
            tables.queues.set(taken.tag, Some(action));
        }
        let mark = taken.marked.then_some(Action::Mark(taken.tag.into()));
        let actions = std::iter::once(Action::Queue(taken.queue)).chain(mark).collect();
        Ok((Tag::Queue(taken.tag), Rule::five_tuple(key, actions), shape))
    }

    /// A mark for `job` that is already in the table that workers read, and its
    /// rule.
    pub(crate) fn marked(
        &mut self,
        job: &Job,
        key: &FlowKey,
        tables: PortTables<'_>,
    ) -> Result<(Tag, Rule), Attempt> {
        let (conn, direction) = job.owner;
        let mark = self.marks.take().ok_or(Attempt::NoRoom)?;
        tables.marks.set(mark, Marked { conn, direction });
        // Both directions of a connection on one queue, the connections over all.
        let at = conn.raw() as usize % self.rule_queues.len().max(1);
        let queue = self.rule_queues.get(at).copied().unwrap_or(0);
        let actions = vec![Action::Queue(queue), Action::Mark(mark)];
        Ok((Tag::Mark(mark), Rule::five_tuple(key, actions)))
    }
}
