//! A small card: an exact-match table with faults, behind it a switch that sends
//! packets on, and receive queues that hold what it has classified until a
//! worker polls them.
use std::collections::{BTreeMap, VecDeque};

use dpdk::flow::{
    Action, Counters, FlowError, FlowErrorKind, FlowPort, Item, Match, Rule, RuleHandle,
};
use wire::FlowKey;

/// A received packet, as the worker gets it.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub key: FlowKey,
    pub queue: u16,
    pub mark: Option<u32>,
}

#[derive(Default)]
pub struct Card {
    rules: BTreeMap<usize, Rule>,
    /// Destroyed rules that still match, until then.
    lingering: Vec<(u64, Rule)>,
    /// Ids of rules that the card forgot.
    pub lost: Vec<usize>,
    next: usize,
    pub capacity: usize,
    pub ipv6: bool,
    pub no_mark: bool,
    pub nothing: bool,
    pub refuse_creates: usize,
    pub refuse_destroys: usize,
    /// How long a destroyed rule still matches.
    pub linger_ms: u64,
    pub now_ms: u64,
    pub creates: usize,
    pub destroys: usize,
    pub received: VecDeque<Received>,
    /// What the switch has sent on.
    pub forwarded: VecDeque<FlowKey>,
    counters: BTreeMap<usize, u64>,
}

/// The 5-tuple that the items name, whatever else they say.
fn tuple(items: &[Item]) -> Option<(u128, u128, bool, u16, u16)> {
    let (src, dst) = items.iter().find_map(|item| match item {
        Item::Ipv4(Match::Fields(ip)) => Some((ip.src.spec.into(), ip.dst.spec.into())),
        Item::Ipv6(Match::Fields(ip)) => Some((ip.src.spec, ip.dst.spec)),
        _ => None,
    })?;
    let (tcp, sport, dport) = items.iter().find_map(|item| match item {
        Item::Tcp(Match::Fields(ports)) => Some((true, ports.sport.spec, ports.dport.spec)),
        Item::Udp(Match::Fields(ports)) => Some((false, ports.sport.spec, ports.dport.spec)),
        _ => None,
    })?;
    Some((src, dst, tcp, sport, dport))
}

fn error(errno: i32) -> FlowError {
    FlowError { kind: FlowErrorKind::Unspecified, errno, message: "no".into() }
}

impl Card {
    pub fn new(capacity: usize) -> Self {
        Self { capacity, ipv6: true, ..Self::default() }
    }

    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Those of them that are no connection's.
    pub fn bare(&self) -> usize {
        self.rules.values().filter(|rule| tuple(&rule.pattern).is_none()).count()
    }

    /// A rule that matches `key` now.
    fn find(&self, key: &FlowKey) -> Option<&Rule> {
        self.find_in(key, false)
    }

    /// A rule of the switch, or of the port, that matches `key` now.
    fn find_in(&self, key: &FlowKey, transfer: bool) -> Option<&Rule> {
        let wanted = tuple(&Rule::five_tuple(key, Vec::new()).pattern);
        let lingering = self.lingering.iter().filter(|(until, _)| *until > self.now_ms);
        let mut all = self.rules.values().chain(lingering.map(|(_, rule)| rule));
        all.find(|rule| rule.attributes.transfer == transfer && tuple(&rule.pattern) == wanted)
    }

    pub fn has(&self, key: &FlowKey) -> bool {
        self.find(key).or_else(|| self.find_in(key, true)).is_some()
    }

    /// The queue that the rule for `key` names.
    pub fn queue(&self, key: &FlowKey) -> Option<u16> {
        self.find(key)?.actions.iter().find_map(|action| match action {
            Action::Queue(queue) => Some(*queue),
            _ => None,
        })
    }

    /// A packet comes from the wire.
    pub fn receive(&mut self, key: FlowKey) {
        if self.find_in(&key, true).is_some() {
            let wanted = tuple(&Rule::five_tuple(&key, Vec::new()).pattern);
            let is = |rule: &Rule| rule.attributes.transfer && tuple(&rule.pattern) == wanted;
            if let Some((id, _)) = self.rules.iter().find(|(_, rule)| is(rule)) {
                *self.counters.entry(*id).or_default() += 1;
            }
            return self.forwarded.push_back(key);
        }
        let mut received = Received { key, queue: 0, mark: None };
        for action in self.find(&key).map(|rule| rule.actions.clone()).unwrap_or_default() {
            match action {
                Action::Queue(queue) => received.queue = queue,
                Action::Mark(mark) => received.mark = Some(mark),
                _ => {}
            }
        }
        self.received.push_back(received);
    }

    /// Loses one rule without a word.
    pub fn lose(&mut self, pick: usize) {
        let id = self.rules.keys().nth(pick % self.rules.len().max(1)).copied();
        if let Some(id) = id {
            self.rules.remove(&id);
            self.lost.push(id);
        }
    }
}

impl FlowPort for Card {
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
        let v6 = rule.pattern.iter().any(|item| matches!(item, Item::Ipv6(_)));
        let mark = rule.actions.iter().any(|action| matches!(action, Action::Mark(_)));
        if self.nothing || (v6 && !self.ipv6) || (mark && self.no_mark) {
            return Err(error(FlowError::NOT_SUPPORTED));
        }
        Ok(())
    }

    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
        self.creates += 1;
        self.validate(rule)?;
        if self.refuse_creates > 0 {
            self.refuse_creates -= 1;
            return Err(error(5));
        }
        if self.rules.len() >= self.capacity {
            return Err(error(FlowError::NO_SPACE));
        }
        let same =
            |other: &&Rule| other.pattern == rule.pattern && other.attributes == rule.attributes;
        if self.rules.values().any(|other| same(&other)) {
            return Err(error(FlowError::EXISTS));
        }
        self.next += 1;
        self.rules.insert(self.next, rule.clone());
        Ok(RuleHandle::from_port(self.next))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        self.destroys += 1;
        if self.refuse_destroys > 0 {
            self.refuse_destroys -= 1;
            return Err((handle, error(5)));
        }
        let id = handle.port_value();
        match self.rules.remove(&id) {
            Some(rule) => {
                self.lingering.retain(|(until, _)| *until > self.now_ms);
                self.lingering.push((self.now_ms + self.linger_ms, rule));
                Ok(())
            }
            None if self.lost.contains(&id) => Err((handle, error(FlowError::NOT_FOUND))),
            None => panic!("destroyed a rule that is not there: {id}"),
        }
    }

    fn query(&mut self, handle: &RuleHandle) -> Result<Counters, FlowError> {
        let id = handle.port_value();
        match self.rules.get(&id) {
            None => Err(error(FlowError::NOT_FOUND)),
            Some(rule) if rule.actions.contains(&Action::Count) => {
                let packets = self.counters.get(&id).copied().unwrap_or(0);
                Ok(Counters { packets, bytes: packets * 64 })
            }
            Some(_) => Err(error(FlowError::NOT_SUPPORTED)),
        }
    }
}
