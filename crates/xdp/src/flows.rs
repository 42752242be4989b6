//! The rules of a port whose card is the kernel: rte_flow rules come in, entries of the
//! match table come out.
use std::collections::{HashMap, HashSet};

use dpdk::flow::{Counters, FlowError, FlowErrorKind, FlowPort, Rule, RuleHandle};

use crate::lower::{Connection, Lowered, lower, refuse};
use crate::stateless::{Place, Stateless};
use crate::{Action, Count, Error, Key, Leftover, Program, Ran, Table};

/// Connections that one question for idle rules looks at: a table of a million is gone
/// through in some seconds, and no question takes longer than some milliseconds.
const AGED_AT_ONCE: usize = 65_536;

/// How long entries of a killed process go on without a rule: the neighbours must have been
/// resolved by then.
const INHERITED_NS: u64 = 30_000_000_000;

/// A port that packets can be sent out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The kernel's index of its interface.
    pub interface: u32,
    /// The longest datagram that it takes, in bytes.
    pub mtu: u16,
}

/// The match table as a card's: [`FlowPort`] over a [`Table`].
#[derive(Debug)]
pub struct KernelFlows {
    table: Table,
    stateless: Stateless,
    program: Program,
    outputs: HashMap<u16, Output>,
    /// Nanoseconds from any start.
    clock: fn() -> u64,
    /// By the handle's number.
    rules: Vec<Option<Held>>,
    free: Vec<usize>,
    /// Entries of a killed process that have no rule yet, and until when they may stay.
    inherited: HashSet<Key>,
    inherited_until_ns: u64,
    /// The first rule that the next question for idle ones looks at.
    next_aged: usize,
    /// What connections' rules had counted that are gone.
    gone: Count,
}

/// A rule that is there.
#[derive(Debug)]
enum Held {
    /// Leads packets to the connections' rules.
    Entry,
    /// Keeps packets from them.
    Guard,
    Connection {
        key: Key,
        age: Option<Age>,
    },
    /// Of a service without connections.
    Stateless(Place),
}

/// When a rule last had a packet, as far as the last look showed.
#[derive(Clone, Copy, Debug)]
struct Age {
    timeout_ns: u64,
    packets: u64,
    since_ns: u64,
}

impl KernelFlows {
    /// The rules of the port whose `program` reads `table`. `outputs` has the ports by the
    /// numbers that rules give them. Idle rules are found by `clock`, in nanoseconds. Entries
    /// of `leftovers` that are in the table go with the rules of their connections, or after
    /// half a minute.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn new(
        (program, table): (Program, Table),
        outputs: HashMap<u16, Output>,
        clock: fn() -> u64,
        leftovers: &[Leftover],
    ) -> Result<Self, Error> {
        let keys = leftovers.iter().map(|leftover| Key::new(&leftover.flow));
        Ok(Self {
            stateless: Stateless::new(program.stateless_maps()?),
            inherited: keys.filter(|key| table.count(key).is_some()).collect(),
            inherited_until_ns: clock() + INHERITED_NS,
            table,
            program,
            outputs,
            clock,
            rules: Vec::new(),
            free: Vec::new(),
            next_aged: 0,
            gone: Count::default(),
        })
    }

    /// Runs the program on one frame; see [`Program::run`].
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn run(&self, frame: &[u8]) -> Result<Ran, Error> {
        self.program.run(frame)
    }

    /// The action that the rule's packets get, if it has one; or why the rule can't be.
    fn check(&self, lowered: &Lowered) -> Result<Option<Action>, FlowError> {
        let sent = match lowered {
            Lowered::Connection(connection) => connection,
            Lowered::Masked(masked) => &masked.sent,
            Lowered::Gate { mac, .. } if *mac != self.program.mac() => {
                let words = "the program looks at frames for the port's own address only";
                return refuse(FlowErrorKind::Item, words);
            }
            _ => return Ok(None),
        };
        let Connection { change, source, destination, output, .. } = *sent;
        let Some(&Output { interface, mtu }) = self.outputs.get(&output) else {
            let words = format!("packets can't be sent out of port {output}: it isn't XDP's");
            return refuse(FlowErrorKind::Action, &words);
        };
        Ok(Some(Action { change, interface, source, destination, mtu }))
    }

    /// Makes what the rule says.
    fn make(&mut self, lowered: &Lowered, action: Option<Action>) -> Result<Held, FlowError> {
        let Self { stateless, table, .. } = self;
        let made = match (lowered, action) {
            (Lowered::Connection(connection), Some(action)) => {
                return self.insert(connection, &action);
            }
            (Lowered::Masked(masked), Some(action)) => {
                let clients = (masked.value, masked.bits, masked.priority);
                stateless.add_masked(table, masked.group, clients, &action)
            }
            (Lowered::Gate { vip, port, protocol, group, .. }, _) => {
                stateless.add_gate(table, Key::gate(*vip, *port, *protocol), *group)
            }
            (Lowered::Source { group, source }, _) => stateless.add_guard(table, *group, *source),
            (Lowered::Sources { group, sources }, _) => stateless.add_sources(*group, *sources),
            (Lowered::Guard, _) => return Ok(Held::Guard),
            _ => return Ok(Held::Entry),
        };
        let made = made.map_err(|full| error(FlowError::NO_SPACE, &full.to_string()))?;
        Ok(Held::Stateless(made))
    }

    fn hold(&mut self, held: Held) -> RuleHandle {
        let place = self.free.pop().unwrap_or_else(|| {
            self.rules.push(None);
            self.rules.len() - 1
        });
        if let Some(rule) = self.rules.get_mut(place) {
            *rule = Some(held);
        }
        RuleHandle::from_port(place)
    }

    fn insert(&mut self, connection: &Connection, action: &Action) -> Result<Held, FlowError> {
        let key = Key::new(&connection.key);
        if self.table.count(&key).is_some() && !self.take_inherited(&key) {
            return Err(error(FlowError::EXISTS, "there is a rule for this 5-tuple"));
        }
        let inserted = self.table.insert(&key, action);
        inserted.map_err(|full| error(FlowError::NO_SPACE, &full.to_string()))?;
        let age = connection.timeout_s.map(|timeout_s| Age {
            timeout_ns: u64::from(timeout_s) * 1_000_000_000,
            packets: 0,
            since_ns: (self.clock)(),
        });
        Ok(Held::Connection { key, age })
    }

    /// Whether the entry of the key is a killed process's, which it isn't any more.
    fn take_inherited(&mut self, key: &Key) -> bool {
        self.inherited.remove(key)
    }

    /// Lets packets of connections go up that nobody has taken over in time.
    fn forget_inherited(&mut self, now_ns: u64) {
        if now_ns >= self.inherited_until_ns {
            self.inherited.drain().for_each(|key| _ = self.table.remove(&key));
        }
    }

    /// What all connections' rules have counted, those included that are gone.
    fn all(&self) -> Count {
        self.rules.iter().flatten().fold(self.gone, |sum, held| match held {
            Held::Connection { key, .. } => sum.plus(self.table.count(key).unwrap_or_default()),
            Held::Entry | Held::Guard | Held::Stateless(_) => sum,
        })
    }

    fn get(&self, handle: &RuleHandle) -> Result<&Held, FlowError> {
        let held = self.rules.get(handle.port_value()).and_then(Option::as_ref);
        held.ok_or_else(|| error(FlowError::NOT_FOUND, "there is no such rule"))
    }
}

fn error(errno: i32, message: &str) -> FlowError {
    FlowError { kind: FlowErrorKind::Handle, errno, message: message.to_owned() }
}

fn no_counter() -> FlowError {
    error(FlowError::NOT_SUPPORTED, "the rule has no counter")
}

impl FlowPort for KernelFlows {
    fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
        self.check(&lower(rule)?).map(|_| ())
    }

    fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
        let lowered = lower(rule)?;
        let action = self.check(&lowered)?;
        let held = self.make(&lowered, action)?;
        Ok(self.hold(held))
    }

    fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
        let place = handle.port_value();
        let Some(held) = self.rules.get_mut(place).and_then(Option::take) else {
            return Err((handle, error(FlowError::NOT_FOUND, "there is no such rule")));
        };
        self.free.push(place);
        match held {
            Held::Connection { key, .. } => {
                self.gone = self.gone.plus(self.table.remove(&key).unwrap_or_default());
            }
            Held::Stateless(place) => self.stateless.remove(&mut self.table, place),
            Held::Entry | Held::Guard => {}
        }
        Ok(())
    }

    fn query(&mut self, handle: &RuleHandle) -> Result<Counters, FlowError> {
        let count = match self.get(handle)? {
            Held::Guard => return Err(no_counter()),
            Held::Stateless(place) => self.stateless.count(*place).ok_or_else(no_counter)?,
            Held::Entry => self.all(),
            Held::Connection { key, .. } => {
                let count = self.table.count(key);
                count.ok_or_else(|| error(FlowError::NOT_FOUND, "the entry is gone"))?
            }
        };
        Ok(Counters { packets: count.packets, bytes: count.bytes })
    }

    fn query_age(&mut self) -> Result<Vec<usize>, FlowError> {
        let now_ns = (self.clock)();
        self.forget_inherited(now_ns);
        let first = self.next_aged;
        self.next_aged =
            if first + AGED_AT_ONCE < self.rules.len() { first + AGED_AT_ONCE } else { 0 };
        let Self { rules, table, .. } = self;
        let some = rules.iter_mut().enumerate().skip(first).take(AGED_AT_ONCE);
        let idle = some.filter_map(|(place, held)| match held {
            Some(Held::Connection { key, age: Some(age) }) => {
                let packets = table.count(key).unwrap_or_default().packets;
                age.is_idle(packets, now_ns).then_some(place)
            }
            _ => None,
        });
        Ok(idle.collect())
    }
}

impl Age {
    fn is_idle(&mut self, packets: u64, now_ns: u64) -> bool {
        if packets != self.packets {
            (self.packets, self.since_ns) = (packets, now_ns);
        }
        now_ns.saturating_sub(self.since_ns) >= self.timeout_ns
    }
}
