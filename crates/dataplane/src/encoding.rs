//! Which encoding each port uses: probed at the start.
use config::Config;
use dpdk::flow::{FlowPort, RuleHandle};
use flow::{CardProfile, Encoding, EncodingChoice};
use offload::{PortConfig, ReceiveQueues, probe_card};

use crate::default_queue::catch_all;
use crate::device::{Device, switch_of};
use crate::no_flows::NoFlows;

/// What was found out about a port.
pub(crate) struct Chosen {
    /// For the offloader.
    pub(crate) config: PortConfig,
    /// Why this encoding, line by line.
    pub(crate) reasons: Vec<String>,
    /// The probe's rules that the card would not destroy, and the rule behind
    /// all others: the offloader destroys them in the end.
    pub(crate) owned: Vec<RuleHandle>,
}

/// Probes all devices.
pub(crate) fn choose_all(config: &Config, devices: &mut [Device]) -> Vec<Chosen> {
    let wanted = config.offload.encoding;
    let workers = config.workers.count;
    let outputs: Vec<_> = (0..devices.len()).map(|at| outputs(config, devices, at)).collect();
    let choose = |(device, outputs): (&mut Device, &Vec<Option<u16>>)| {
        let card = Capabilities {
            outputs,
            queues: device.queues,
            misses_known: device.misses_known,
            unique_marks: unique_marks(device),
            workers,
        };
        let mut chosen = match device.flows.as_deref_mut() {
            Some(flows) => choose(flows, card, wanted),
            None => choose(&mut NoFlows, card, wanted),
        };
        chosen.reasons.append(&mut device.notes);
        chosen.reasons.push(verifier_of_headers(device).to_owned());
        log(&device.name, &chosen, wanted);
        chosen
    };
    devices.iter_mut().zip(&outputs).map(choose).collect()
}

/// What verifies the IPv4 header checksums of packets that open or end a connection.
fn verifier_of_headers(device: &Device) -> &'static str {
    let receives = device.emulated.as_ref().map_or(&device.port, |emulated| &emulated.wire);
    if receives.verifies_headers() {
        "the card verifies IPv4 header checksums"
    } else {
        "software verifies the IPv4 header checksums of packets that open or end a connection"
    }
}

/// How rules of port `at` would name every port: emulated NICs by the numbers of
/// their switch, the kernel by those of the configuration, real devices by DPDK's.
/// Whether the card can send packets there, the probe finds out.
pub(crate) fn outputs(config: &Config, devices: &[Device], at: usize) -> Vec<Option<u16>> {
    let emulated = devices.get(at).is_some_and(|device| device.emulated.is_some());
    let kernel = devices.get(at).is_some_and(|device| device.xdp.is_some());
    let switch = if emulated { switch_of(config, at) } else { Vec::new() };
    let number = |(to, device): (u16, &Device)| match (&device.emulated, emulated) {
        (Some(_), true) => switch.contains(&to).then_some(to),
        (None, false) if kernel => Some(to),
        (None, false) => Some(device.port.id()),
        _ => None,
    };
    (0..).zip(devices).map(number).collect()
}

/// What is known of a card before it is asked.
#[derive(Clone, Copy)]
struct Capabilities<'a> {
    /// By port: the number by which rules name it.
    outputs: &'a [Option<u16>],
    queues: u16,
    /// See [`Device::misses_known`].
    misses_known: bool,
    /// Rules are deleted by their marks, so that no two may have the same.
    unique_marks: bool,
    workers: u16,
}

/// See [`CardProfile::needs_unique_marks`].
fn unique_marks(device: &Device) -> bool {
    let profile = match &device.emulated {
        Some(nic) => Some(nic.nic.profile()),
        None => {
            let capabilities = device.port.capabilities().ok();
            capabilities.and_then(|has| CardProfile::of_driver(&has.driver))
        }
    };
    profile.is_some_and(CardProfile::needs_unique_marks)
}

/// Whether any port takes rules.
pub(crate) fn offloading(chosen: &[Chosen]) -> bool {
    chosen.iter().any(|chosen| chosen.config.encoding != Encoding::Off)
}

/// Probes the card behind `flows`.
fn choose(flows: &mut dyn FlowPort, card: Capabilities<'_>, wanted: EncodingChoice) -> Chosen {
    let asked =
        offload::ProbeInput { queues: card.queues, mark_arrives: None, outputs: card.outputs };
    let probed = probe_card(flows, &asked, wanted);
    let mut chosen = Chosen {
        config: PortConfig { encoding: probed.encoding, ..PortConfig::default() },
        reasons: probed.reasons,
        owned: probed.left,
    };
    if chosen.config.encoding == Encoding::Queue {
        make_queues_mean_something(flows, card, &mut chosen);
    }
    let takes_marks = probed.mark.contains(&true);
    if chosen.config.encoding == Encoding::Queue {
        chosen.reasons.push(fate_of_backends_beyond(takes_marks, card).to_owned());
    }
    let receive = ReceiveQueues {
        count: card.queues,
        workers: card.workers,
        marks_repeat: takes_marks && !card.unique_marks,
    };
    chosen.config = PortConfig {
        rewrite: probed.rewrite,
        mark_instead: probed.mark_instead,
        ..PortConfig::new(chosen.config.encoding, receive)
    };
    chosen
}

/// A queue number names a backend only if queues are left beside those of the
/// workers, and if nothing else comes to them.
fn make_queues_mean_something(
    flows: &mut dyn FlowPort,
    card: Capabilities<'_>,
    chosen: &mut Chosen,
) {
    let why_not = if card.queues <= card.workers {
        let Capabilities { queues, workers, .. } = card;
        format!("{queues} receive queues for {workers} workers leave none to name a backend")
    } else if card.misses_known {
        return;
    } else {
        match catch_all(flows) {
            Ok(handle) => {
                chosen.owned.push(handle);
                chosen.reasons.push("a rule behind all others sends misses to queue 0".to_owned());
                return;
            }
            Err(error) => format!(
                "the device spreads misses over all queues and takes no rule against it: {error}"
            ),
        }
    };
    chosen.config.encoding = Encoding::Off;
    chosen.reasons.push(format!("encoding off: {why_not}"));
}

/// What becomes of backends for which no queue is left.
fn fate_of_backends_beyond(takes_marks: bool, card: Capabilities<'_>) -> &'static str {
    if card.unique_marks {
        "the card deletes rules by their marks: backends beyond the queues stay in software"
    } else if !takes_marks {
        "the card takes no mark with a queue: backends beyond the queues stay in software"
    } else {
        "backends beyond the queues share the workers' own, told apart by marks"
    }
}

fn log(port: &str, chosen: &Chosen, wanted: EncodingChoice) {
    let encoding = chosen.config.encoding;
    tracing::info!(port, %encoding, "the reasons are in `hnlb status`");
    for reason in &chosen.reasons {
        tracing::debug!(port, %encoding, "{reason}");
    }
    if matches!(wanted, EncodingChoice::Fixed(fixed) if fixed != encoding) {
        let why = why_not(chosen, wanted);
        tracing::warn!(
            port,
            "the encoding is {encoding} and not {wanted} as configured{why}: connections stay in software"
        );
    }
}

/// The probe's reason against what is wanted, in brackets.
fn why_not(chosen: &Chosen, wanted: EncodingChoice) -> String {
    let beginning = format!("no {wanted}: ");
    let why = chosen.reasons.iter().find_map(|reason| reason.strip_prefix(&beginning));
    why.map_or_else(String::new, |why| format!(" ({why})"))
}

#[cfg(test)]
mod tests {
    use dpdk::flow::{Action, Counters, FlowError, FlowErrorKind, Rule};
    use flow::EncodingChoice::{Auto, Fixed};
    use nic::{Nic, NicConfig};

    use super::*;

    /// A card that takes QUEUE and nothing else, and a rule for misses or none.
    #[derive(Default)]
    struct Fake {
        takes_misses: bool,
        rules: Vec<Rule>,
    }

    impl FlowPort for Fake {
        fn validate(&mut self, rule: &Rule) -> Result<(), FlowError> {
            let is_catch_all = rule.pattern.len() == 1;
            let taken = match rule.actions[..] {
                [Action::Queue(_)] => !is_catch_all || self.takes_misses,
                _ => false,
            };
            let kind = FlowErrorKind::Unspecified;
            let message = "no such rule here".to_owned();
            taken.then_some(()).ok_or(FlowError { kind, errno: 95, message })
        }

        fn create(&mut self, rule: &Rule) -> Result<RuleHandle, FlowError> {
            self.validate(rule)?;
            self.rules.push(rule.clone());
            Ok(RuleHandle::from_port(self.rules.len()))
        }

        fn destroy(&mut self, handle: RuleHandle) -> Result<(), (RuleHandle, FlowError)> {
            drop(handle);
            self.rules.pop();
            Ok(())
        }

        fn query(&mut self, _: &RuleHandle) -> Result<Counters, FlowError> {
            Ok(Counters::default())
        }
    }

    fn card(queues: u16, misses_known: bool) -> Capabilities<'static> {
        Capabilities { outputs: &[], queues, misses_known, unique_marks: false, workers: 2 }
    }

    fn last(chosen: &Chosen) -> &str {
        chosen.reasons.last().map_or("", String::as_str)
    }

    #[test]
    fn queues_behind_the_workers_name_backends() {
        let mut fake = Fake::default();
        let chosen = choose(&mut fake, card(6, true), Auto);
        assert_eq!(
            (chosen.config.encoding, &chosen.config.queues[..]),
            (Encoding::Queue, &[2, 3, 4, 5][..])
        );
        assert!(fake.rules.is_empty() && chosen.owned.is_empty());
        assert!(chosen.config.shared_queues.is_empty());
        assert!(last(&chosen).contains("no mark with a queue"), "{}", last(&chosen));
    }

    #[test]
    fn backends_beyond_the_queues_share_those_of_the_workers_if_marks_may_repeat() {
        let nic = |profile| Nic::new(&NicConfig::new(profile, 6)).unwrap();
        for (profile, unique_marks, shared) in
            [(CardProfile::X550, true, vec![]), (CardProfile::E810, false, vec![0, 1])]
        {
            let card = Capabilities { unique_marks, ..card(6, true) };
            let chosen = choose(&mut nic(profile).flows(), card, Fixed(Encoding::Queue));
            assert_eq!(chosen.config.shared_queues, shared, "{}", last(&chosen));
        }
    }

    #[test]
    fn a_card_that_spreads_misses_gets_a_rule_against_it() {
        let mut fake = Fake { takes_misses: true, ..Fake::default() };
        let chosen = choose(&mut fake, card(4, false), Fixed(Encoding::Queue));
        assert_eq!(chosen.config.encoding, Encoding::Queue);
        assert_eq!(
            (fake.rules.len(), chosen.owned.len()),
            (1, 1),
            "owned, so that it is destroyed"
        );
        assert_eq!(fake.rules[0].actions, [Action::Queue(0)]);
        assert!(fake.rules[0].attributes.priority > 0, "behind all others");
        assert!(chosen.reasons.iter().any(|reason| reason.contains("misses to queue 0")));
    }

    #[test]
    fn where_a_queue_can_mean_nothing_the_encoding_is_off() {
        let mut fake = Fake::default();
        let chosen = choose(&mut fake, card(4, false), Auto);
        assert_eq!(chosen.config.encoding, Encoding::Off);
        assert_eq!(chosen.config.queues, [0, 1]);
        assert!(last(&chosen).contains("spreads misses"), "{}", last(&chosen));
        let chosen = choose(&mut fake, card(2, true), Fixed(Encoding::Queue));
        assert_eq!(chosen.config.encoding, Encoding::Off);
        assert!(last(&chosen).contains("2 receive queues for 2 workers"), "{}", last(&chosen));
        assert!(fake.rules.is_empty());
    }

    #[test]
    fn a_port_that_cannot_rewrite_says_why_in_one_line() {
        let wanted = Fixed(Encoding::Rewrite);
        let nic = |profile, switch: Vec<u16>| {
            Nic::new(&NicConfig { switch, ..NicConfig::new(profile, 4) }).unwrap()
        };
        let outputs = [Some(0), None];
        let asked = Capabilities { outputs: &outputs, ..card(4, true) };
        let able = choose(&mut nic(CardProfile::ConnectX, vec![0]).flows(), asked, wanted);
        assert_eq!(able.config.encoding, Encoding::Rewrite);
        assert!(able.config.mark_instead, "{:#?}", able.reasons);
        let unable = choose(&mut nic(CardProfile::E810, vec![]).flows(), asked, wanted);
        assert_eq!(unable.config.encoding, Encoding::Off);
        let why = why_not(&unable, wanted);
        assert!(why.starts_with(" (the card has no groups"), "{why}");
        let unable = choose(&mut Fake::default(), card(4, true), wanted);
        assert_eq!(why_not(&unable, wanted), " (the card cannot send packets out of any port)");
    }

    #[test]
    fn no_flows_is_off_with_a_reason() {
        let chosen = choose(&mut NoFlows, card(4, true), Auto);
        assert_eq!(chosen.config.encoding, Encoding::Off);
        assert!(chosen.reasons.iter().any(|reason| reason.contains("takes no rules")));
    }
}
