//! Encoding `queue`: the rule's receive queue names service, backend and next
//! hop (HNLB paper, section III). Connections with the same action share one.
mod action;
mod tags;

use std::ops::Range;

use dpdk::flow::{Action, Rule};

use self::action::queue_action;
use self::tags::Queues;
use super::{Encoded, Encoder, RuleInput, Shape, Visibility, Why};
use crate::environment::PortTables;
use crate::stats::PortStats;
use crate::{FlowType, PortConfig};

/// Gives the rules of each action a queue, or a mark in a shared queue.
#[derive(Debug)]
pub(super) struct QueueEncoder {
    queues: Queues,
}

impl QueueEncoder {
    /// The queues of `config`, and `tags` in its shared queues.
    pub(super) fn new(config: &PortConfig, tags: Range<u16>) -> Self {
        let PortConfig { queues, shared_queues, workers, .. } = config;
        Self { queues: Queues::new(queues, shared_queues, tags, *workers) }
    }
}

impl Encoder for QueueEncoder {
    fn visibility(&self) -> Visibility {
        Visibility::Sampled
    }

    fn encode(&mut self, input: &RuleInput, tables: PortTables<'_>) -> Result<Encoded, Why> {
        let RuleInput { direction, any_port, worker, .. } = *input;
        let action = queue_action(&input.binding, direction, input.to.hop(), any_port)
            .map_err(|_| Why::NotEncodable)?;
        let taken = self.queues.take(&action, worker).ok_or(Why::NoQueue)?;
        if taken.is_new {
            tables.queues.set(taken.tag, Some(action));
        }
        let mark = taken.marked.then_some(Action::Mark(taken.tag.into()));
        let actions = std::iter::once(Action::Queue(taken.queue)).chain(mark).collect();
        let kind = FlowType::of(&input.key).index();
        let shape = Shape::Queue { kind, marked: taken.marked };
        Ok(Encoded { rule: Rule::five_tuple(&input.key, actions), shape, tag: taken.tag.into() })
    }

    fn take_back(&mut self, tag: u32, tables: PortTables<'_>) {
        self.release(tag, tables);
    }

    /// A tag is in use as long as one rule, or one packet, may refer to it.
    fn quarantine(&mut self, _: u32) {}

    fn release(&mut self, tag: u32, tables: PortTables<'_>) {
        let Ok(tag) = u16::try_from(tag) else { return };
        if self.queues.release(tag) {
            tables.queues.set(tag, None);
        }
    }

    fn silence(&self, tag: u32, tables: PortTables<'_>) {
        if let Ok(tag) = u16::try_from(tag) {
            tables.queues.set(tag, None);
        }
    }

    fn describe(&self, stats: &mut PortStats) {
        stats.queues = self.queues.uses().collect();
        stats.now.queues_assigned = self.queues.assigned();
        stats.now.queues = self.queues.size();
    }
}
