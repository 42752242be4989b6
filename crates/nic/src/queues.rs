//! Template tables and queues of operations, as hardware steering has them.
use std::collections::{HashMap, HashSet, VecDeque};

use dpdk::flow::{
    Action, Completion, FlowError, FlowErrorKind, Item, Match, Modify, QueueConfig, Rule,
    RuleHandle, Template,
};

use crate::profile::{Parsed, Profile, check_template, refuse};
use crate::rules::Rules;

/// Tables of a port at most.
const TABLES: usize = 1024;

/// An operation in line, or done and not yet reported.
#[derive(Debug)]
struct Operation {
    token: u64,
    /// The rule that it creates, or with `destroys` the one it destroys.
    id: u64,
    destroys: bool,
    /// Whether the card has carried it out, and when it says so; `None`: it
    /// waits for a push.
    end: Option<(u64, bool)>,
}

/// A table and how many rules it has.
#[derive(Debug)]
struct Table {
    template: Template,
    rules: u32,
}

/// The setup made by `rte_flow_configure`.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    depth: usize,
    queues: Vec<VecDeque<Operation>>,
    tables: HashMap<u64, Table>,
    /// The table of each rule made through a queue.
    table_of: HashMap<u64, u64>,
    /// Rules to be created by the next push.
    waiting: HashMap<u64, Parsed>,
    /// Handles of rules that could not be created.
    failed: HashSet<u64>,
    last_table: u64,
}

fn unspecified(errno: i32, message: &str) -> FlowError {
    refuse(FlowErrorKind::Unspecified, errno, message)
}

/// ENOMEM, mlx5's answer when a queue has no job left.
const NO_MEMORY: i32 = 12;

impl Queues {
    /// Whether rules are created through queues only.
    pub(crate) fn configured(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Whether rule `id` was made through a queue.
    pub(crate) fn made(&self, id: u64) -> bool {
        self.table_of.contains_key(&id)
    }

    pub(crate) fn configure(&mut self, config: &QueueConfig) -> Result<(), FlowError> {
        if config.queues == 0 || config.depth == 0 {
            let message = "invalid queue attributes: at least one queue of one operation";
            return Err(unspecified(FlowError::INVALID, message));
        }
        if !self.tables.is_empty() {
            let message = "the port has tables: it keeps its configuration";
            return Err(unspecified(FlowError::INVALID, message));
        }
        self.depth = config.depth as usize;
        self.queues = (0..config.queues).map(|_| VecDeque::new()).collect();
        Ok(())
    }

    pub(crate) fn create_table(
        &mut self,
        template: &Template,
        profile: &Profile,
    ) -> Result<u64, FlowError> {
        // The driver says what it lacks before it looks at the port.
        check_template(template, profile)?;
        self.check_configured()?;
        if template.rules == 0 {
            return Err(unspecified(FlowError::INVALID, "number of flows must be non-zero"));
        }
        if self.tables.len() >= TABLES {
            return Err(unspecified(NO_MEMORY, "fail to create rte table"));
        }
        self.last_table += 1;
        self.tables.insert(self.last_table, Table { template: template.clone(), rules: 0 });
        Ok(self.last_table)
    }

    pub(crate) fn destroy_table(&mut self, table: u64) -> Result<(), FlowError> {
        match self.tables.get(&table) {
            None => Err(no_such_table()),
            Some(found) if found.rules > 0 => {
                Err(unspecified(16, "the table has rules: destroy them first"))
            }
            Some(_) => {
                self.tables.remove(&table);
                Ok(())
            }
        }
    }

    /// The rule in full, if it is one of `table`.
    pub(crate) fn check_rule(&self, table: u64, rule: &Rule) -> Result<(), FlowError> {
        let found = self.tables.get(&table).ok_or_else(no_such_table)?;
        let template = &found.template;
        if template.hash.is_some() {
            return Err(unspecified(FlowError::INVALID, "the table's rules are inserted by index"));
        }
        let same_items = rule.pattern.len() == template.pattern.len()
            && rule.pattern.iter().zip(&template.pattern).all(|(a, b)| masks(a) == masks(b));
        if rule.attributes != template.attributes || !same_items {
            let message = "the rule's attributes, items and masks are not its table's";
            return Err(refuse(FlowErrorKind::Item, FlowError::INVALID, message));
        }
        check_actions(&rule.actions, template)?;
        if found.rules >= template.rules {
            return Err(unspecified(NO_MEMORY, "fail to create rte flow: the table is full"));
        }
        Ok(())
    }

    /// The rule in full with `actions` at row `index` of `table`, and how many
    /// rows there are.
    pub(crate) fn rule_by_index(
        &self,
        table: u64,
        index: u32,
        actions: &[Action],
    ) -> Result<(Rule, u32), FlowError> {
        let template = &self.tables.get(&table).ok_or_else(no_such_table)?.template;
        let rows = template.rules.next_power_of_two();
        if template.hash.is_none() || index >= rows {
            let message = "the table has no rules by index, or not so many rows";
            return Err(unspecified(FlowError::INVALID, message));
        }
        check_actions(actions, template)?;
        let (attributes, pattern) = (template.attributes, template.pattern.clone());
        Ok((Rule { attributes, pattern, actions: actions.to_vec() }, rows))
    }

    /// A rule of `table` with the values of `pattern`, for its hash.
    pub(crate) fn rule_to_hash(&self, table: u64, pattern: &[Item]) -> Result<Rule, FlowError> {
        let template = &self.tables.get(&table).ok_or_else(no_such_table)?.template;
        let (attributes, actions) = (template.attributes, template.actions.clone());
        Ok(Rule { attributes, pattern: pattern.to_vec(), actions })
    }

    /// Puts the creation of `parsed` in line, as rule `id`.
    pub(crate) fn enqueue_create(
        &mut self,
        queue: u16,
        table: u64,
        (id, parsed): (u64, Parsed),
        token: u64,
    ) -> Result<(), FlowError> {
        self.enqueue(queue, Operation { token, id, destroys: false, end: None })?;
        if let Some(table) = self.tables.get_mut(&table) {
            table.rules += 1;
        }
        self.table_of.insert(id, table);
        self.waiting.insert(id, parsed);
        Ok(())
    }

    /// Puts the destruction of rule `id` in line.
    pub(crate) fn enqueue_destroy(
        &mut self,
        queue: u16,
        id: u64,
        token: u64,
    ) -> Result<(), FlowError> {
        if !self.table_of.contains_key(&id) {
            let message = "the rule was not made through a queue, or is gone";
            return Err(refuse(FlowErrorKind::Handle, FlowError::NOT_FOUND, message));
        }
        self.enqueue(queue, Operation { token, id, destroys: true, end: None })
    }

    fn enqueue(&mut self, queue: u16, operation: Operation) -> Result<(), FlowError> {
        let depth = self.depth;
        let line = self.line(queue)?;
        if line.len() >= depth {
            return Err(unspecified(NO_MEMORY, "fail to create rte flow: the queue is full"));
        }
        line.push_back(operation);
        Ok(())
    }

    /// Carries out the operations that wait in `queue`.
    pub(crate) fn push(
        &mut self,
        queue: u16,
        rules: &mut Rules,
        insert_ns: u64,
    ) -> Result<(), FlowError> {
        let mut line = std::mem::take(self.line(queue)?);
        for operation in line.iter_mut().filter(|operation| operation.end.is_none()) {
            operation.end = Some(if operation.destroys {
                (rules.now_ns(), self.destroy(operation.id, rules))
            } else {
                self.create(operation.id, rules, insert_ns)
            });
        }
        *self.line(queue)? = line;
        Ok(())
    }

    fn create(&mut self, id: u64, rules: &mut Rules, insert_ns: u64) -> (u64, bool) {
        let Some(parsed) = self.waiting.remove(&id) else { return (rules.now_ns(), false) };
        match rules.create_as(id, parsed, insert_ns) {
            Ok(cost) => (cost.done_ns, true),
            Err(_) => {
                self.failed.insert(id);
                (rules.now_ns(), false)
            }
        }
    }

    fn destroy(&mut self, id: u64, rules: &mut Rules) -> bool {
        if !self.failed.remove(&id) && rules.destroy(id).is_err() {
            return false;
        }
        if let Some(table) = self.table_of.remove(&id).and_then(|table| self.tables.get_mut(&table))
        {
            table.rules = table.rules.saturating_sub(1);
        }
        true
    }

    /// Appends the operations that are done by `now_ns`, in order.
    pub(crate) fn pull(
        &mut self,
        queue: u16,
        now_ns: u64,
        out: &mut Vec<Completion>,
    ) -> Result<usize, FlowError> {
        let line = self.line(queue)?;
        let mut found = 0;
        while let Some(Operation { token, id, destroys, end: Some((at, done)) }) = line.front() {
            if *at > now_ns {
                break;
            }
            let back = *destroys && !done;
            let handle = back.then(|| RuleHandle::from_port(*id as usize));
            out.push(Completion { token: *token, done: *done, handle });
            line.pop_front();
            found += 1;
        }
        Ok(found)
    }

    /// Stops the port: no rule is left, nothing is in line; tables stay.
    pub(crate) fn stop(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.tables.values_mut().for_each(|table| table.rules = 0);
        self.table_of.clear();
        self.waiting.clear();
        self.failed.clear();
    }

    fn line(&mut self, queue: u16) -> Result<&mut VecDeque<Operation>, FlowError> {
        self.check_configured()?;
        self.queues
            .get_mut(usize::from(queue))
            .ok_or_else(|| unspecified(FlowError::INVALID, "no such queue"))
    }

    fn check_configured(&self) -> Result<(), FlowError> {
        if self.configured() {
            return Ok(());
        }
        Err(unspecified(FlowError::INVALID, "the flow engine is not configured"))
    }
}

fn check_actions(actions: &[Action], template: &Template) -> Result<(), FlowError> {
    let same = actions.len() == template.actions.len()
        && actions.iter().zip(&template.actions).all(|(a, b)| same_kind(a, b));
    if same {
        return Ok(());
    }
    let message = "the rule's actions are not its table's";
    Err(refuse(FlowErrorKind::Action, FlowError::INVALID, message))
}

fn no_such_table() -> FlowError {
    refuse(FlowErrorKind::Handle, FlowError::NOT_FOUND, "no such table")
}

/// The item with all values zero.
fn masks(item: &Item) -> Item {
    fn bare<T: Copy>(item: &Match<T>, clear: impl Fn(&mut T)) -> Match<T> {
        let mut item = *item;
        if let Match::Fields(fields) = &mut item {
            clear(fields);
        }
        item
    }
    match item {
        Item::Eth(item) => Item::Eth(bare(item, |fields| {
            (fields.dst.spec, fields.src.spec) = Default::default();
            fields.ethertype.spec = 0;
        })),
        Item::Vlan(item) => Item::Vlan(bare(item, |fields| {
            (fields.tci.spec, fields.inner_type.spec) = (0, 0);
        })),
        Item::Ipv4(item) => Item::Ipv4(bare(item, |fields| {
            (fields.src.spec, fields.dst.spec) = (0, 0);
            (fields.proto.spec, fields.tos.spec, fields.ttl.spec) = (0, 0, 0);
            fields.fragment.spec = 0;
        })),
        Item::Ipv6(item) => Item::Ipv6(bare(item, |fields| {
            (fields.src.spec, fields.dst.spec) = (0, 0);
            (fields.proto.spec, fields.hop_limit.spec, fields.vtc_flow.spec) = (0, 0, 0);
        })),
        Item::Tcp(item) => Item::Tcp(bare(item, ports)),
        Item::Udp(item) => Item::Udp(bare(item, ports)),
        Item::Other(number) => Item::Other(*number),
    }
}

fn ports(fields: &mut dpdk::flow::PortFields) {
    (fields.sport.spec, fields.dport.spec, fields.tcp_flags.spec) = (0, 0, 0);
}

/// Whether two actions differ at most in their values.
fn same_kind(a: &Action, b: &Action) -> bool {
    use std::mem::discriminant;
    match (a, b) {
        (Action::ModifyField(Modify::Set(a)), Action::ModifyField(Modify::Set(b))) => {
            discriminant(a) == discriminant(b)
        }
        (Action::ModifyField(Modify::Add(a, _)), Action::ModifyField(Modify::Add(b, _)))
        | (Action::ModifyField(Modify::Sub(a, _)), Action::ModifyField(Modify::Sub(b, _))) => {
            a == b
        }
        (
            Action::ModifyField(Modify::AddNumber(a, _)),
            Action::ModifyField(Modify::AddNumber(b, _)),
        ) => a == b,
        (Action::ModifyField(_), Action::ModifyField(_)) => false,
        // Both have the length of the template.
        (Action::RawEncap(a), Action::RawEncap(b)) | (Action::RawDecap(a), Action::RawDecap(b)) => {
            a.len() == b.len()
        }
        _ => discriminant(a) == discriminant(b),
    }
}
