//! The rules of one port that are to be destroyed.
use dpdk::flow::{Counters, FlowError, FlowPort, RuleHandle};
use wire::FlowKey;

use crate::backoff::{Backoff, Waits};
use crate::connection::{Installed, Tag};
use crate::environment::PortTables;
use crate::port::quarantine::forget;
use crate::port::rule_queue::Destroy;
use crate::port::{Owner, PortRules};

/// A rule that the card won't destroy is tried again after 10 ms, then ever
/// more seldom up to 10 s.
const DESTROY_AGAIN: Waits = Waits { first_ms: 10, longest_ms: 10_000 };

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
pub(crate) struct Doomed {
    name: Name,
    handle: RuleHandle,
}

impl PortRules {
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

    /// Rules that are to be destroyed.
    pub(crate) fn doomed(&self) -> usize {
        self.doomed.len() + self.engine.destroying()
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
        self.forget_all(tables);
    }
}
