//! Encoding `mark`: the rule's mark names the connection and its direction, in
//! whichever receive queue the packet is.
mod pool;

use dpdk::flow::{Action, Rule};
use state::Marked;

use self::pool::Marks;
use super::{Encoded, Encoder, RuleInput, Shape, Visibility, Why};
use crate::FlowType;
use crate::environment::PortTables;
use crate::stats::PortStats;

/// Gives each rule a mark of its own.
#[derive(Debug)]
pub(super) struct MarkEncoder {
    marks: Marks,
    queues: Vec<u16>,
}

impl MarkEncoder {
    /// Marks below `marks`; packets come to `queues`, or to queue 0 if there
    /// are none.
    pub(super) fn new(marks: usize, queues: Vec<u16>) -> Self {
        Self { marks: Marks::new(marks), queues }
    }
}

impl Encoder for MarkEncoder {
    fn visibility(&self) -> Visibility {
        Visibility::All
    }

    fn encode(&mut self, input: &RuleInput, tables: PortTables<'_>) -> Result<Encoded, Why> {
        let RuleInput { conn, direction, worker, .. } = *input;
        let mark = self.marks.take().ok_or(Why::NoMark)?;
        tables.marks.set(mark, Marked { conn, direction });
        // Both directions of a connection on one queue, the connections over all.
        let at = worker.map_or(conn.raw() as usize, usize::from) % self.queues.len().max(1);
        let queue = self.queues.get(at).copied().unwrap_or(0);
        let actions = vec![Action::Queue(queue), Action::Mark(mark)];
        let shape = Shape::Mark { kind: FlowType::of(&input.key).index() };
        Ok(Encoded { rule: Rule::five_tuple(&input.key, actions), shape, tag: mark })
    }

    fn take_back(&mut self, tag: u32, tables: PortTables<'_>) {
        tables.marks.clear(tag);
        self.marks.give_back(tag);
    }

    fn quarantine(&mut self, tag: u32) {
        self.marks.quarantine(tag);
    }

    fn release(&mut self, tag: u32, tables: PortTables<'_>) {
        tables.marks.clear(tag);
        self.marks.release(tag);
    }

    fn silence(&self, tag: u32, tables: PortTables<'_>) {
        tables.marks.clear(tag);
    }

    fn most_rules(&self) -> Option<usize> {
        Some(self.marks.size())
    }

    fn describe(&self, stats: &mut PortStats) {
        stats.now.marks_in_use = self.marks.in_use();
        stats.now.marks_quarantined = self.marks.quarantined();
    }
}
