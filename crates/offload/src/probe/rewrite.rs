//! Whether a card can rewrite packets and send them on, and in which words its driver
//! takes such rules.
use dpdk::flow::RuleHandle;
use dpdk::flow::{FlowError, FlowPort};
use wire::{Mac, Transport};

use crate::encode::rewrite::{entry, guards, rewrite_example, spliced_example, tunnel_example};
use crate::probe::ask;
use crate::{FlowType, RewriteCapabilities, Style, TunnelType};

/// A locally administered address that no interface has.
const NOBODY: Mac = Mac([2, 0, 0, 0, 0, 0]);

/// The first style in which the card takes a rule, the ports that it can send
/// packets out of, and the flow types that it takes; `None`, with the reason,
/// if it can't do enough.
pub(crate) fn ask_rewrite(
    flows: &mut dyn FlowPort,
    outputs: &[Option<u16>],
    left: &mut Vec<RuleHandle>,
    reasons: &mut Vec<String>,
) -> Option<RewriteCapabilities> {
    if outputs.iter().flatten().next().is_none() {
        reasons.push("no rewrite: the card cannot send packets out of any port".to_owned());
        return None;
    }
    let led = lead(flows, left);
    if let Err(error) = led {
        let text = format!(
            "no rewrite: the card has no groups that rules lead to, or can't keep packets with a TTL of 0 and 1 from them: {error}"
        );
        reasons.push(text);
        return None;
    }
    let mut first_error = None;
    for style in Style::all() {
        let mut reached: Vec<Option<u16>> = Vec::with_capacity(outputs.len());
        for output in outputs {
            let taken = output.map(|number| reach(flows, style, number, left));
            if let Some(Err(error)) = &taken {
                first_error.get_or_insert(error.clone());
            }
            reached.push(output.filter(|_| matches!(taken, Some(Ok(())))));
        }
        let Some(number) = reached.iter().flatten().next().copied() else { continue };
        let mut types = FlowType::ALL.map(|kind| take(flows, style, kind, number, left).is_ok());
        say(style, &reached, reasons);
        if !style.fragments {
            // A first fragment has ports and would match, the others have none.
            types = std::array::from_fn(|at| {
                types.get(at) == Some(&true)
                    && FlowType::ALL.get(at).is_some_and(|kind| kind.proto == Transport::Tcp)
            });
        }
        let tunnels = ask_tunnels(flows, style, &reached, left, reasons);
        let numbers = ask_numbers(flows, style, &reached, left, reasons);
        return Some(RewriteCapabilities { style, outputs: reached, types, tunnels, numbers });
    }
    if let Some(error) = first_error {
        reasons.push(format!("no rewrite: {error}"));
    }
    None
}

/// Whether rules can lead to our group, and guards stand there.
fn lead(flows: &mut dyn FlowPort, left: &mut Vec<RuleHandle>) -> Result<(), FlowError> {
    for guard in guards() {
        ask(flows, &guard, left)?;
    }
    ask(flows, &entry(NOBODY), left)
}

/// Whether the card takes a rule of any flow type that sends out of `output`.
fn reach(
    flows: &mut dyn FlowPort,
    style: Style,
    output: u16,
    left: &mut Vec<RuleHandle>,
) -> Result<(), FlowError> {
    let mut answer = Ok(());
    for kind in FlowType::ALL {
        match take(flows, style, kind, output, left) {
            Ok(()) => return Ok(()),
            Err(error) => answer = answer.and(Err(error)),
        }
    }
    answer
}

/// Whether the card takes a rule of `kind` that rewrites all there is and sends
/// packets out of port `output`.
fn take(
    flows: &mut dyn FlowPort,
    style: Style,
    kind: FlowType,
    output: u16,
    left: &mut Vec<RuleHandle>,
) -> Result<(), FlowError> {
    match rewrite_example(style, kind, output) {
        Some(rule) => ask(flows, &rule, left),
        None => Ok(()),
    }
}

/// Whether the card adds to the numbers of TCP.
fn ask_numbers(
    flows: &mut dyn FlowPort,
    style: Style,
    outputs: &[Option<u16>],
    left: &mut Vec<RuleHandle>,
    reasons: &mut Vec<String>,
) -> bool {
    let Some(rule) = spliced_example(style, outputs) else {
        let why = "TCP flags and fragments are not matched";
        reasons.push(format!("rewrite: connections of L7 agents stay in software: {why}"));
        return false;
    };
    match ask(flows, &rule, left) {
        Ok(()) => {
            let text = "rewrite: the card adds to TCP sequence and acknowledgement numbers";
            reasons.push(text.to_owned());
            true
        }
        Err(error) => {
            reasons.push(format!("rewrite: connections of L7 agents stay in software: {error}"));
            false
        }
    }
}

/// Which tunnels the card puts packets into.
fn ask_tunnels(
    flows: &mut dyn FlowPort,
    style: Style,
    outputs: &[Option<u16>],
    left: &mut Vec<RuleHandle>,
    reasons: &mut Vec<String>,
) -> [bool; TunnelType::COUNT] {
    let mut taken = Vec::new();
    let answers = TunnelType::ALL.map(|kind| {
        let Some(rule) = tunnel_example(style, outputs, kind) else { return false };
        match ask(flows, &rule, left) {
            Ok(()) => {
                taken.push(kind.to_string());
                true
            }
            Err(error) => {
                reasons.push(format!(
                    "rewrite: no {kind} by single rules; asked again should rules go through a queue: {error}"
                ));
                false
            }
        }
    });
    if !taken.is_empty() {
        reasons.push(format!("rewrite: the card puts packets into tunnels: {}", taken.join(", ")));
    }
    answers
}

fn say(style: Style, reached: &[Option<u16>], reasons: &mut Vec<String>) {
    let ports = reached.iter().flatten().count();
    let words = if style.legacy { "SET_* and DEC_TTL" } else { "MODIFY_FIELD" };
    let output = if style.port_id { "PORT_ID" } else { "REPRESENTED_PORT" };
    reasons.push(format!(
        "rewrite: the card takes {words} and {output}; it can send out of {ports} of {} ports",
        reached.len()
    ));
    if !style.age {
        reasons.push("rewrite: no AGE: idle connections are found by their counters".to_owned());
    }
    if !style.flags {
        let text =
            "rewrite: TCP flags are not matched: that a connection has ended is learnt by ageing";
        reasons.push(text.to_owned());
    }
    if !style.fragments {
        reasons.push("rewrite: fragments can't be told: UDP stays in software".to_owned());
    }
}
