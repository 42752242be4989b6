//! The rules of one port that are to be destroyed.
use dpdk::flow::{Counters, FlowError, FlowPort, RuleHandle};
use flow::Account;
use wire::FlowKey;

use super::rule_queue::Destroy;
use super::{Owner, PortRule, PortRules};
use crate::backoff::{Backoff, Waits};
use crate::encode::{Tag, Visibility};
use crate::environment::PortTables;

/// A rule that the card won't destroy is tried again after 10 ms, then at growing
/// intervals of up to 10 s.
const DESTROY_AGAIN: Waits = Waits::new(10, 10_000);

/// A rule as far as it concerns its end. Adopted ones have neither owner nor tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleLabel {
    pub(super) owner: Option<(Owner, Tag)>,
    /// What it had counted when it was last looked at.
    counted: Counters,
    /// For whom it counts.
    account: Option<Account>,
    /// What it matches, if no other may match that.
    key: Option<FlowKey>,
    backoff: Backoff,
}

impl RuleLabel {
    pub(super) fn new(owner: Option<(Owner, Tag)>) -> Self {
        Self {
            owner,
            counted: Counters::default(),
            account: None,
            key: None,
            backoff: Backoff::new(DESTROY_AGAIN),
        }
    }
}

/// A rule to be destroyed.
#[derive(Debug)]
pub(super) struct Doomed {
    label: RuleLabel,
    handle: RuleHandle,
}

impl PortRules {
    /// `rule` is to be destroyed.
    pub(crate) fn doom(&mut self, owner: Owner, rule: PortRule) {
        let PortRule { handle, tag, counted, account, key, .. } = rule;
        self.by_handle.remove(&handle.port_value());
        let key = self.rewrites().then_some(key);
        let account = Some(account);
        let label = RuleLabel { counted, account, key, ..RuleLabel::new(Some((owner, tag))) };
        self.put(Doomed { label, handle });
    }

    /// The rule of `handle`, which is no connection's, is to be destroyed.
    pub(super) fn doom_bare(&mut self, handle: RuleHandle) {
        self.put(Doomed { label: RuleLabel::new(None), handle });
    }

    /// A rule made elsewhere, to be destroyed at the end.
    pub(crate) fn adopt(&mut self, handle: RuleHandle) {
        self.done.created += 1;
        self.capacity.created();
        self.adopted.push(handle);
    }

    /// Rules that are no connection's.
    pub(super) fn adopted(&self) -> usize {
        self.adopted.len() + self.entry_rules.rules()
    }

    fn put(&mut self, doomed: Doomed) {
        self.sequence += 1;
        self.doomed.insert((doomed.label.backoff.until_ms(), self.sequence), doomed);
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
        let Doomed { mut label, handle } = doomed;
        let visibility = label.owner.map(|(_, tag)| self.encoders.visibility(tag));
        if visibility == Some(Visibility::None) {
            // Packets that come from now on are in no later reading.
            let new = self.read_counters((&mut label.counted, label.account), &handle, flows);
            let spliced = label.owner.is_some_and(|((conn, _), _)| conn.lent_number().is_some());
            self.carried(new.filter(|_| spliced));
        }
        match self.rule_queue.destroy(flows, handle, label, now_ms) {
            Destroy::Done(label) => self.destroyed(label),
            Destroy::InLine => {}
            Destroy::Failed(label, _, error) if error.errno == FlowError::NOT_FOUND => {
                self.done.lost += 1;
                self.destroyed(label);
            }
            Destroy::Failed(label, handle, _) => self.not_destroyed(label, handle, now_ms),
        }
    }

    /// Notes that the card would not destroy a rule, which is tried again later.
    pub(super) fn not_destroyed(&mut self, mut label: RuleLabel, handle: RuleHandle, now_ms: u64) {
        self.done.retries += 1;
        label.backoff.failed(now_ms);
        self.put(Doomed { label, handle });
    }

    pub(super) fn destroyed(&mut self, label: RuleLabel) {
        let RuleLabel { owner, key, .. } = label;
        if let Some(key) = key {
            self.keys.remove(&key);
        }
        self.done.destroyed += 1;
        self.capacity.destroyed();
        if let Some((owner, tag)) = owner {
            self.encoders.quarantine(tag);
            self.fresh.push((owner, tag));
        }
    }

    /// Rules that are to be destroyed.
    pub(crate) fn doomed(&self) -> usize {
        self.doomed.len() + self.rule_queue.destroying()
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
            if let Some((_, tag)) = doomed.label.owner {
                self.encoders.silence(tag, tables);
            }
            self.destroy_one(doomed, flows, now_ms);
        }
        self.finish(flows, now_ms);
        if self.doomed() == 0 {
            // No connection's rule is left that would need the guards.
            self.take_down();
        }
        self.silence_all(tables);
    }
}
