//! Encodings: how a rule is made from one direction of a connection, and how the
//! worker recognises the rule's packets. Each encoding is a file below that
//! implements [`Encoder`], and one line of [`encoders`].
pub(crate) mod forward;
pub(crate) mod mark;
mod not_rewritten;
pub(crate) mod queue;
pub(crate) mod rewrite;
mod rule_input;
pub(crate) mod stateless;
pub(crate) mod tunnel;

use std::fmt::Debug;
use std::ops::Range;

use dpdk::flow::{FlowError, Rule};
use flow::Encoding;

use self::mark::MarkEncoder;
pub use self::not_rewritten::NotRewritten;
use self::queue::QueueEncoder;
use self::rewrite::RewriteEncoder;
pub(crate) use self::rule_input::{Destination, RuleInput};
use crate::environment::PortTables;
use crate::flow_type::Unsupported;
use crate::stats::{PortStats, Refused};
use crate::{FlowType, PortConfig};

/// Which packets of a rule the workers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Workers see all packets, each known as its connection's.
    All,
    /// Workers see all packets, of which a sample is known as the connection's.
    Sampled,
    /// Workers see none: the card sends the packets out itself.
    None,
}

/// How rules are made from connections. An encoder owns the tags by which
/// workers know its rules' packets, and writes what they mean into the tables
/// that workers read.
///
/// A tag is a number of the encoder's own. [`encode`](Self::encode) takes one;
/// then follows either `take_back`, or `quarantine` and later `release`.
pub(crate) trait Encoder: Debug + Send {
    /// Which packets of its rules the workers see.
    fn visibility(&self) -> Visibility;

    /// The rule for `input`. Its tag's meaning is in `tables` already, so that
    /// no packet comes with a tag that means nothing.
    fn encode(&mut self, input: &RuleInput, tables: PortTables<'_>) -> Result<Encoded, Why>;

    /// The card refused the rule with `tag`: no packet ever carried it.
    fn take_back(&mut self, tag: u32, tables: PortTables<'_>);

    /// The rule with `tag` is out of the card; packets may still carry it.
    fn quarantine(&mut self, tag: u32);

    /// No packet carries `tag` for its destroyed rule any more.
    fn release(&mut self, tag: u32, tables: PortTables<'_>);

    /// At the end: packets that carry `tag` are looked up in software from now on.
    fn silence(&self, tag: u32, tables: PortTables<'_>);

    /// Once, before the first rule, on a port whose rules go through a queue of
    /// operations: `takes` says whether the port takes rules like the given
    /// one that way.
    fn ask_again(&mut self, takes: &mut dyn FnMut(&Rule) -> bool) {
        let _ = takes;
    }

    /// How many rules there are tags for; `None`: any number.
    fn most_rules(&self) -> Option<usize> {
        None
    }

    /// Writes the report on its tags.
    fn describe(&self, stats: &mut PortStats);
}

/// The encoders of a port, the preferred one first; the next encoder gets the
/// directions that it can't express. Only this function knows which encoders an
/// encoding has.
fn encoders(config: &PortConfig, marks: usize, tags: Range<u16>) -> Vec<Box<dyn Encoder>> {
    let mark = || Box::new(MarkEncoder::new(marks, config.queues.clone()));
    match config.encoding {
        Encoding::Off => Vec::new(),
        Encoding::Mark => vec![mark()],
        Encoding::Queue => vec![Box::new(QueueEncoder::new(config, tags))],
        Encoding::Rewrite => {
            let rewrite = Box::new(RewriteEncoder::new(config.rewrite.clone()));
            if config.mark_instead { vec![rewrite, mark()] } else { vec![rewrite] }
        }
    }
}

/// A rule, and what the port must know about it.
pub(crate) struct Encoded {
    rule: Rule,
    shape: Shape,
    tag: u32,
}

/// The tag that a rule gives its packets, by which workers recognise them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The rank of its encoder.
    rank: usize,
    number: u32,
}

/// Which rules have the same items, masks and kinds of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// What leads packets to the connections' rules.
    Entry,
    /// What keeps packets from them.
    Guard(u8),
    /// A queue, by flow type; with a mark or without.
    Queue { kind: usize, marked: bool },
    /// A queue and a mark of the connection's own, by flow type.
    Mark { kind: usize },
    /// Rewritten, by flow type and which addresses and ports are written, and with numbers
    /// of TCP changed or not.
    Rewrite { kind: usize, sides: u8, spliced: bool },
    /// Put into a tunnel, by flow type and the length of the outer headers.
    Tunnel { kind: usize, length: u16 },
}

/// Why there is no rule for a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// No mark is free now.
    NoMark,
    /// No queue is free to name the backend.
    NoQueue,
    /// The next hop's Ethernet address is not known now.
    Unresolved,
    /// The encoding can't express it.
    NotEncodable,
    /// It can't be rewritten.
    NotRewritten(NotRewritten),
}

impl Why {
    /// Counts the reason.
    pub(crate) fn count(self, refused: &mut Refused) {
        use NotRewritten::{Failed, Mtu, NoOutput, Tagged, Unmatched, Unsupported};
        let counter = match self {
            Self::NoMark => &mut refused.no_mark,
            Self::NoQueue => &mut refused.no_queue,
            Self::Unresolved => &mut refused.unresolved,
            Self::NotEncodable | Self::NotRewritten(NotRewritten::NotEncodable) => {
                &mut refused.not_encodable
            }
            Self::NotRewritten(Tagged) => &mut refused.tagged,
            Self::NotRewritten(Mtu) => &mut refused.mtu,
            Self::NotRewritten(NoOutput) => &mut refused.no_output,
            Self::NotRewritten(Unsupported) => &mut refused.unsupported,
            Self::NotRewritten(Failed | Unmatched) => &mut refused.other,
        };
        *counter += 1;
    }
}

#[derive(Debug)]
struct Ranked {
    encoder: Box<dyn Encoder>,
    /// Flow types that the card refuses in its rules.
    unsupported: Unsupported,
}

/// The encoders of one port. Rank 0 is the preferred one, rank 1 the fallback of
/// directions that rank 0 can't express.
#[derive(Debug)]
pub(crate) struct Encoders(Vec<Ranked>);

impl Encoders {
    /// The encoders for `config`, on a port whose tables have room for `marks` marks
    /// and the `tags` behind the queues.
    pub(crate) fn new(config: &PortConfig, (marks, tags): (usize, Range<u16>)) -> Self {
        let ranked = |encoder| Ranked { encoder, unsupported: Unsupported::default() };
        Self(encoders(config, marks, tags).into_iter().map(ranked).collect())
    }

    /// Whether the port makes no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is another encoder for directions that the first can't express.
    pub(crate) fn has_fallback(&self) -> bool {
        self.0.len() > 1
    }

    /// Whether workers see no packets of rules of the preferred encoder.
    pub(crate) fn rewrites(&self) -> bool {
        self.0.first().is_some_and(|first| first.encoder.visibility() == Visibility::None)
    }

    /// Which packets of the rule with `tag` workers see.
    pub(crate) fn visibility(&self, tag: Tag) -> Visibility {
        self.0.get(tag.rank).map_or(Visibility::None, |ranked| ranked.encoder.visibility())
    }

    /// How many rules the preferred encoder has tags for.
    pub(crate) fn most_rules(&self) -> Option<usize> {
        self.0.first()?.encoder.most_rules()
    }

    /// Whether the card may be asked for a rule of `rank` and type `kind`.
    pub(crate) fn may_ask(&self, rank: usize, kind: FlowType, now_ms: u64) -> bool {
        self.0.get(rank).is_some_and(|ranked| ranked.unsupported.may_ask(kind, now_ms))
    }

    /// The card took a rule of `rank` and type `kind`.
    pub(crate) fn taken(&mut self, rank: usize, kind: FlowType) {
        if let Some(ranked) = self.0.get_mut(rank) {
            ranked.unsupported.taken(kind);
        }
    }

    /// The card refused a rule of `rank` and type `kind`. Returns whether that means
    /// that the card can't do the type.
    pub(crate) fn refused(
        &mut self,
        rank: usize,
        kind: FlowType,
        error: &FlowError,
        now_ms: u64,
    ) -> bool {
        let Some(ranked) = self.0.get_mut(rank) else { return true };
        ranked.unsupported.refused(kind, error, now_ms)
    }

    /// A rule for `input` by the encoder of `rank`.
    pub(crate) fn encode(
        &mut self,
        rank: usize,
        input: &RuleInput,
        tables: PortTables<'_>,
    ) -> Result<(Tag, Rule, Shape), Why> {
        let ranked = self.0.get_mut(rank).ok_or(Why::NotEncodable)?;
        let Encoded { rule, shape, tag } = ranked.encoder.encode(input, tables)?;
        Ok((Tag { rank, number: tag }, rule, shape))
    }

    /// See [`Encoder::take_back`].
    pub(crate) fn take_back(&mut self, tag: Tag, tables: PortTables<'_>) {
        if let Some(ranked) = self.0.get_mut(tag.rank) {
            ranked.encoder.take_back(tag.number, tables);
        }
    }

    /// See [`Encoder::quarantine`].
    pub(crate) fn quarantine(&mut self, tag: Tag) {
        if let Some(ranked) = self.0.get_mut(tag.rank) {
            ranked.encoder.quarantine(tag.number);
        }
    }

    /// See [`Encoder::release`].
    pub(crate) fn release(&mut self, tag: Tag, tables: PortTables<'_>) {
        if let Some(ranked) = self.0.get_mut(tag.rank) {
            ranked.encoder.release(tag.number, tables);
        }
    }

    /// See [`Encoder::silence`].
    pub(crate) fn silence(&self, tag: Tag, tables: PortTables<'_>) {
        if let Some(ranked) = self.0.get(tag.rank) {
            ranked.encoder.silence(tag.number, tables);
        }
    }

    /// See [`Encoder::ask_again`].
    pub(crate) fn ask_again(&mut self, takes: &mut dyn FnMut(&Rule) -> bool) {
        self.0.iter_mut().for_each(|ranked| ranked.encoder.ask_again(takes));
    }

    /// See [`Encoder::describe`].
    pub(crate) fn describe(&self, stats: &mut PortStats) {
        self.0.iter().for_each(|ranked| ranked.encoder.describe(stats));
        let first = self.0.first().map(|ranked| ranked.unsupported.iter());
        stats.unsupported = first.into_iter().flatten().collect();
        stats.mark_instead = self.has_fallback();
    }
}
