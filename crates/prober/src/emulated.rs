//! The emulated NIC as a card that is tried out, without threads, devices and DPDK.
use std::cell::Cell;
use std::fmt::Write as _;
use std::rc::Rc;

use dpdk::flow::{FlowCall, FlowLayer, FlowPort};
use flow::CardProfile;
use nic::{Disposition, Nic, NicConfig, NicError, NicFlows, Reta};
use packet::{HeapPacket, PacketBuf};
use wire::Mac;

use crate::card::{Card, Facts, Fate, Passed};

/// The number of the NIC's one port in its switch.
const PORT: u16 = 0;
const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// A clock that the time is added to which a real card would have taken.
#[derive(Clone)]
struct PlayedClock {
    machine: fn() -> u64,
    played_ns: Rc<Cell<u64>>,
}

impl PlayedClock {
    fn now_ns(&self) -> u64 {
        (self.machine)() + self.played_ns.get()
    }
}

/// The NIC's rules, with its time.
struct TimedFlows {
    flows: NicFlows,
    nic: Nic,
    clock: PlayedClock,
}

impl FlowLayer for TimedFlows {
    fn inner(&mut self) -> &mut dyn FlowPort {
        &mut self.flows
    }

    fn before(&mut self, _: FlowCall) -> bool {
        // What is due by now is done.
        self.nic.advance(self.clock.now_ns());
        true
    }

    fn after(&mut self, call: FlowCall) {
        if call == FlowCall::Create {
            let played = &self.clock.played_ns;
            played.set(played.get() + self.flows.last_create_ns());
        }
    }
}

/// An emulated NIC of one port.
pub struct EmulatedCard {
    facts: Facts,
    nic: Nic,
    flows: TimedFlows,
    clock: PlayedClock,
}

impl EmulatedCard {
    /// A card of `profile` with `queues` receive queues and, if given, `capacity`
    /// entries. `clock` tells nanoseconds.
    ///
    /// # Errors
    /// The card does not have so many.
    pub fn new(
        profile: CardProfile,
        (queues, capacity): (u16, Option<usize>),
        clock: fn() -> u64,
    ) -> Result<Self, NicError> {
        let switch = if profile.rewrites() { vec![PORT] } else { Vec::new() };
        let config = NicConfig {
            capacity,
            reta: Reta::Queues(1),
            switch,
            play_insertion: true,
            ..NicConfig::new(profile, queues)
        };
        Ok(Self::around(Nic::new(&config)?, &config, clock))
    }

    /// The card `nic`, which is as `config` says.
    #[must_use]
    pub fn around(nic: Nic, config: &NicConfig, clock: fn() -> u64) -> Self {
        let NicConfig { profile, queues, capacity, .. } = *config;
        let clock = PlayedClock { machine: clock, played_ns: Rc::default() };
        let times = match nic::rates(profile).insert_ns {
            0 => "this machine's clock: what the emulation takes",
            _ => {
                "insertion by the published times of the card, all else by this machine's clock: what the emulation takes"
            }
        };
        let mut lines = format!(
            "device = \"net_af_packet0,iface=eth1\"\n\n[port.nic]\nprofile = \"{profile}\"\nqueues = {queues}\n"
        );
        if let Some(capacity) = capacity {
            let _ = writeln!(lines, "capacity = {capacity}");
        }
        let facts = Facts {
            device: format!("emulated:{profile}"),
            driver: format!("emulated {profile}"),
            queues,
            most_queues: profile.queues(),
            redirection_entries: nic.reta().len() as u16,
            packets: Some("into the emulated card".to_owned()),
            clock: times.to_owned(),
            notes: Vec::new(),
            mac: OWN,
            peer: PEER,
            outputs: vec![config.switch.first().copied()],
            lines,
        };
        let flows = TimedFlows { flows: nic.flows(), nic: nic.clone(), clock: clock.clone() };
        Self { facts, nic, flows, clock }
    }
}

impl Card for EmulatedCard {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn flows(&mut self) -> &mut dyn FlowPort {
        &mut self.flows
    }

    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn pass(&mut self, frame: &[u8]) -> Option<Passed> {
        let start = self.clock.now_ns();
        let mut dispositions = [Disposition::default()];
        self.nic.receive_burst([frame], start, &mut dispositions);
        let [disposition] = dispositions;
        let mut packet = HeapPacket::new(frame);
        let whole = disposition.dropped.is_none() && disposition.change(&mut packet);
        let fate = match (whole, disposition.forward) {
            (false, _) => Fate::Lost,
            (true, Some(_)) => Fate::Left(packet.bytes().to_vec()),
            (true, None) => Fate::Received { queue: disposition.queue, mark: disposition.mark },
        };
        Some(Passed { fate, ns: self.clock.now_ns().saturating_sub(start) })
    }

    fn redirect(&mut self, entries: &[(u16, u16)]) -> Result<(), String> {
        self.nic.update_reta(entries).map_err(|error| error.to_string())
    }

    fn redirection(&mut self) -> Result<Vec<u16>, String> {
        Ok(self.nic.reta())
    }
}
