//! The capabilities of a card, found at the start with rules that do no harm.
pub(crate) mod rewrite;

use dpdk::flow::{Action, FlowError, FlowPort, Rule, RuleHandle};
use flow::{Encoding, EncodingChoice};

use crate::probe::rewrite::ask_rewrite;
use crate::{FlowType, RewriteCapabilities};

/// How often the probe tries to destroy one of its rules before it hands the rule to
/// the caller.
const DESTROY_TRIES: usize = 8;

/// The mark the probe's rules carry: the last soft id, which the offloader
/// comes to use last.
const PROBE_MARK: u32 = 65_535;

/// The capabilities of a card, and what follows from them.
#[derive(Debug)]
pub struct Probe {
    /// The encoding to use.
    pub encoding: Encoding,
    /// Why, as lines for the log.
    pub reasons: Vec<String>,
    /// Flow types the card takes with QUEUE, by [`FlowType::index`].
    pub queue: [bool; 4],
    /// Flow types the card takes with QUEUE and MARK, by [`FlowType::index`].
    pub mark: [bool; 4],
    /// How the card rewrites packets and sends them on, if it can.
    pub rewrite: Option<RewriteCapabilities>,
    /// With `rewrite`: whether the card marks what it can't rewrite.
    pub mark_instead: bool,
    /// Whether the chosen encoding takes IPv6.
    pub ipv6: bool,
    /// The probe's rules that the card would not destroy: for
    /// [`Offloader::adopt`](crate::Offloader::adopt), which tries again in the
    /// end. Empty but for a faulty card.
    pub left: Vec<RuleHandle>,
}

impl Probe {
    /// Flow types that `encoding` can offload on this card.
    #[must_use]
    pub fn types(&self, encoding: Encoding) -> [bool; 4] {
        match encoding {
            Encoding::Off => [false; 4],
            Encoding::Queue => self.queue,
            Encoding::Mark => self.mark,
            Encoding::Rewrite => self.rewrite.as_ref().map_or([false; 4], |card| card.types),
        }
    }
}

/// What is known of a card before the probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeInput<'a> {
    /// Its receive queues.
    pub queues: u16,
    /// What an experiment with a packet has shown, if there was one: that a
    /// rule with MARK is accepted doesn't mean that its mark reaches the packet.
    pub mark_arrives: Option<bool>,
    /// The number of every port, by `PortId`, as rules would name it; `None`:
    /// the card certainly can't send packets out of it.
    pub outputs: &'a [Option<u16>],
}

/// [`probe_card`] for a card of which nothing is known but its receive `queues`.
pub fn probe(
    flows: &mut dyn FlowPort,
    queues: u16,
    wanted: EncodingChoice,
    mark_arrives: Option<bool>,
) -> Probe {
    probe_card(flows, &ProbeInput { queues, mark_arrives, outputs: &[] }, wanted)
}

/// Finds out what a card can do, and picks the encoding.
///
/// The rules match addresses reserved for documentation (RFC 5737, RFC 3849)
/// and are destroyed again; rules of others are not touched.
pub fn probe_card(
    flows: &mut dyn FlowPort,
    card: &ProbeInput<'_>,
    wanted: EncodingChoice,
) -> Probe {
    let mut probe = Probe {
        encoding: Encoding::Off,
        reasons: Vec::new(),
        queue: [false; 4],
        mark: [false; 4],
        rewrite: None,
        mark_instead: false,
        ipv6: false,
        left: Vec::new(),
    };
    let queues = card.queues;
    if queues == 0 {
        probe.reasons.push("the port has no receive queue".to_owned());
    } else if wanted != EncodingChoice::Fixed(Encoding::Off) {
        let queue = Action::Queue(queues - 1);
        probe.queue = ask_types(
            flows,
            "QUEUE",
            std::slice::from_ref(&queue),
            &mut probe.left,
            &mut probe.reasons,
        );
        let mark = [queue, Action::Mark(PROBE_MARK)];
        probe.mark = ask_types(flows, "QUEUE and MARK", &mark, &mut probe.left, &mut probe.reasons);
    }
    if matches!(wanted, EncodingChoice::Auto | EncodingChoice::Fixed(Encoding::Rewrite)) {
        let Probe { left, reasons, .. } = &mut probe;
        let rewrite = ask_rewrite(flows, card.outputs, left, reasons);
        probe.rewrite = rewrite;
    }
    choose(&mut probe, queues, wanted, card.mark_arrives);
    probe
}

/// Asks for a rule of every flow type with `actions`.
fn ask_types(
    flows: &mut dyn FlowPort,
    name: &str,
    actions: &[Action],
    left: &mut Vec<RuleHandle>,
    reasons: &mut Vec<String>,
) -> [bool; 4] {
    FlowType::ALL.map(|kind| {
        let answer = match kind.example() {
            Some(flow) => ask(flows, &Rule::five_tuple(&flow, actions.to_vec()), left),
            None => return false,
        };
        match answer {
            Ok(()) => {
                reasons.push(format!("{name}: the card takes rules for {kind}"));
                true
            }
            Err(error) => {
                reasons.push(format!("{name}: the card refuses rules for {kind}: {error}"));
                false
            }
        }
    })
}

/// Validates, creates and destroys `rule`.
pub(crate) fn ask(
    flows: &mut dyn FlowPort,
    rule: &Rule,
    left: &mut Vec<RuleHandle>,
) -> Result<(), FlowError> {
    flows.validate(rule)?;
    let mut handle = match flows.create(rule) {
        Ok(handle) => handle,
        // A rule of an earlier probe is there, so the card takes such rules. That
        // rule isn't ours.
        Err(error) if error.errno == FlowError::EXISTS => return Ok(()),
        Err(error) => return Err(error),
    };
    for _ in 0..DESTROY_TRIES {
        match flows.destroy(handle) {
            Ok(()) => return Ok(()),
            Err((_, error)) if error.errno == FlowError::NOT_FOUND => return Ok(()),
            Err((back, _)) => handle = back,
        }
    }
    left.push(handle);
    Ok(())
}

/// Picks the encoding from what the card takes.
fn choose(probe: &mut Probe, queues: u16, wanted: EncodingChoice, mark_arrives: Option<bool>) {
    let mut reasons = Vec::new();
    let mark = may_mark(probe, mark_arrives, &mut reasons);
    let queue = may_queue(probe, queues, &mut reasons);
    let rewrite = probe.rewrite.is_some();
    probe.encoding = match wanted {
        EncodingChoice::Fixed(Encoding::Off) => Encoding::Off,
        EncodingChoice::Fixed(Encoding::Rewrite) if rewrite => Encoding::Rewrite,
        EncodingChoice::Fixed(Encoding::Mark) if mark => Encoding::Mark,
        EncodingChoice::Fixed(Encoding::Queue) if queue => Encoding::Queue,
        EncodingChoice::Fixed(_) => Encoding::Off,
        EncodingChoice::Auto if rewrite => Encoding::Rewrite,
        EncodingChoice::Auto if mark => Encoding::Mark,
        EncodingChoice::Auto if queue => Encoding::Queue,
        EncodingChoice::Auto => Encoding::Off,
    };
    if wanted == EncodingChoice::Fixed(Encoding::Off) {
        reasons.clear();
    }
    probe.mark_instead = probe.encoding == Encoding::Rewrite && mark;
    let types = probe.types(probe.encoding);
    probe.ipv6 = FlowType::ALL.iter().zip(types).any(|(kind, taken)| kind.ipv6 && taken);
    probe.reasons.append(&mut reasons);
    probe.reasons.push(format!("encoding {} (configured: {wanted})", probe.encoding));
    if probe.encoding != Encoding::Off {
        let marked =
            |kind: &FlowType| probe.mark_instead && probe.mark.get(kind.index()) == Some(&true);
        let refused =
            FlowType::ALL.iter().zip(types).filter(|(kind, taken)| !taken && !marked(kind));
        let refused: Vec<String> = refused.map(|(kind, _)| kind.to_string()).collect();
        if !refused.is_empty() {
            probe
                .reasons
                .push(format!("connections that stay in software: {}", refused.join(", ")));
        }
    }
    if probe.encoding == Encoding::Rewrite {
        let fate = if probe.mark_instead { "get a mark" } else { "stay in software" };
        probe.reasons.push(format!("connections that can't be rewritten {fate}"));
    }
}

fn may_mark(probe: &Probe, mark_arrives: Option<bool>, reasons: &mut Vec<String>) -> bool {
    let taken = probe.mark.contains(&true);
    match (taken, mark_arrives) {
        (false, _) => {
            reasons.push("no mark: the card takes no rule with QUEUE and MARK".to_owned());
            false
        }
        (true, Some(false)) => {
            let seen = "no mark: rules with MARK are taken but the mark does not reach the packet";
            reasons.push(seen.to_owned());
            false
        }
        (true, Some(true)) => {
            reasons.push("mark: seen on a packet".to_owned());
            true
        }
        (true, None) => {
            let believed = "mark: rules are taken; not tried with a packet whether marks arrive";
            reasons.push(believed.to_owned());
            true
        }
    }
}

fn may_queue(probe: &Probe, queues: u16, reasons: &mut Vec<String>) -> bool {
    if !probe.queue.contains(&true) {
        reasons.push("no queue: the card takes no rule with QUEUE".to_owned());
        return false;
    }
    if queues < 2 {
        reasons.push("no queue: one receive queue leaves none to name a backend".to_owned());
        return false;
    }
    true
}
