//! One run of one system over the packets of a draw.
use std::collections::VecDeque;

use balance::{Balancer, Placement};

use crate::MeasureError;
use crate::laslb::arrivals::{Arrival, Arrivals};
use crate::laslb::network_function::{NetworkFunction, Packet};
use crate::laslb::outcome::Outcome;
use crate::laslb::service::SLB_NS;
use crate::laslb::system::{BUCKETS, CPUS, System};

/// Nanoseconds that a packet takes besides queue and function: both ways through the NIC,
/// PCIe and the virtual function. The thesis' latencies at low load are about as high.
const WAY_NS: u64 = 60_000;
/// How long a flow stops after a loss.
const TIMEOUT_NS: u64 = 200_000_000;
/// How often loads are looked at, for systems that know them.
const LOOK_NS: u64 = 2_000_000;

/// What a flow remembers.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// By direction: one more than the number of its latest packet that was processed.
    latest: [u32; 2],
    stopped_until_ns: u64,
    instance: Option<u16>,
}

/// The state of a run.
pub(crate) struct Simulation<'a> {
    arrivals: &'a Arrivals,
    system: System,
    balancer: Option<Balancer>,
    functions: Vec<NetworkFunction>,
    /// Packets on their way back to the balancer, by processor, with their time.
    away: Vec<VecDeque<(u64, Packet)>>,
    held: Vec<Vec<Packet>>,
    flows: Vec<Flow>,
    sent: Vec<Packet>,
    /// Recent work by instance, which the software balancer goes by.
    recent: [f64; CPUS as usize],
    looked_ns: u64,
    busy_at_look: [u64; CPUS as usize],
    /// The next event of each processor, at its queue or on a way back.
    due_ns: [u64; CPUS as usize],
    measured_from_ns: u64,
    outcome: Outcome,
}

impl<'a> Simulation<'a> {
    /// Runs `system`; what happens before `warm_up_ns` is not counted.
    pub(crate) fn run(
        arrivals: &'a Arrivals,
        system: System,
        warm_up_ns: u64,
        length_ns: u64,
    ) -> Result<Outcome, MeasureError> {
        let balancer = system.settings().map(Balancer::new).transpose()?;
        let mut run = Self {
            arrivals,
            system,
            balancer,
            functions: (0..CPUS).map(|_| NetworkFunction::default()).collect(),
            away: vec![VecDeque::new(); CPUS.into()],
            held: vec![Vec::new(); BUCKETS.into()],
            flows: vec![Flow::default(); arrivals.flows],
            sent: Vec::new(),
            recent: [0.0; CPUS as usize],
            looked_ns: 0,
            busy_at_look: [0; CPUS as usize],
            due_ns: [u64::MAX; CPUS as usize],
            measured_from_ns: warm_up_ns,
            outcome: Outcome::new(length_ns - warm_up_ns)?,
        };
        run.all(warm_up_ns, length_ns);
        Ok(run.outcome)
    }

    fn all(&mut self, warm_up_ns: u64, length_ns: u64) {
        let (mut before, mut moves) = (None, 0);
        for (number, arrival) in (0..).zip(&self.arrivals.packets) {
            self.advance(arrival.at_ns);
            if before.is_none() && arrival.at_ns >= warm_up_ns {
                before = Some(self.busy());
                moves = self.moved();
            }
            if arrival.at_ns >= self.looked_ns + LOOK_NS {
                self.look(arrival.at_ns);
            }
            self.arrive(number, arrival);
        }
        self.advance(length_ns);
        let before = before.unwrap_or_default();
        let busy = self.busy();
        for (to, (now, then)) in self.outcome.busy_ns.iter_mut().zip(busy.into_iter().zip(before)) {
            *to = now - then;
        }
        self.outcome.moves = self.moved() - moves;
    }

    fn busy(&self) -> [u64; CPUS as usize] {
        let mut busy = [0; CPUS as usize];
        for (to, function) in busy.iter_mut().zip(&self.functions) {
            *to = function.busy_ns();
        }
        busy
    }

    fn moved(&self) -> u64 {
        self.balancer.as_ref().map_or(0, Balancer::moved)
    }

    /// The loads of the processors since the last look, for who goes by them.
    fn look(&mut self, now_ns: u64) {
        let busy = self.busy();
        let mut loads = [0; CPUS as usize];
        let length = now_ns - self.looked_ns;
        for (load, (now, then)) in loads.iter_mut().zip(busy.into_iter().zip(self.busy_at_look)) {
            *load = ((now - then) * 1000 / length.max(1)).min(1000) as u16;
        }
        if let Some(balancer) = &mut self.balancer {
            balancer.report_busy(&loads);
        }
        for recent in &mut self.recent {
            *recent *= 0.9;
        }
        (self.looked_ns, self.busy_at_look) = (now_ns, busy);
    }

    fn arrive(&mut self, number: u32, arrival: &Arrival) {
        if let Some(flow) = self.flow(arrival.flow) {
            if flow.stopped_until_ns > arrival.at_ns {
                return;
            }
        }
        let packet = Packet {
            at_ns: arrival.at_ns,
            number,
            flow: arrival.flow,
            back: arrival.back,
            service_ns: arrival.service_ns,
            size: arrival.size,
            bucket: arrival.bucket,
            sequence: 0,
        };
        match self.system {
            System::Rss => self.offer(arrival.rss, packet, arrival.at_ns),
            System::Slb => self.offer_by_load(packet, arrival.rss),
            System::Buckets(..) => {
                self.place(packet, arrival.at_ns);
                self.release(arrival.at_ns);
            }
        }
    }

    fn flow(&mut self, flow: Option<u32>) -> Option<&mut Flow> {
        self.flows.get_mut(flow? as usize)
    }

    /// The software balancer: a flow stays with the instance that had least to do when its
    /// first packet came; probes go anywhere.
    fn offer_by_load(&mut self, mut packet: Packet, any: u16) {
        packet.service_ns += SLB_NS as u32;
        let recent = (0_u16..).zip(&self.recent);
        let least = recent.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(cpu, _)| cpu);
        let cpu = match self.flow(packet.flow) {
            Some(flow) => *flow.instance.get_or_insert(least.unwrap_or(any)),
            None => any,
        };
        if let Some(recent) = self.recent.get_mut(usize::from(cpu)) {
            *recent += f64::from(packet.service_ns);
        }
        self.offer(cpu, packet, packet.at_ns);
    }

    fn place(&mut self, mut packet: Packet, now_ns: u64) {
        let Some(balancer) = &mut self.balancer else { return };
        match balancer.to_cpu(packet.bucket, now_ns) {
            Some(Placement::Send { cpu, sequence }) => {
                packet.sequence = sequence;
                self.offer(cpu, packet, now_ns);
            }
            Some(Placement::Hold) => {
                if let Some(held) = self.held.get_mut(usize::from(packet.bucket)) {
                    held.push(packet);
                }
            }
            None => {}
        }
    }

    fn release(&mut self, now_ns: u64) {
        while let Some(release) = self.balancer.as_mut().and_then(Balancer::release) {
            let held = self.held.get_mut(usize::from(release.bucket)).map(std::mem::take);
            for packet in held.unwrap_or_default() {
                self.place(packet, now_ns);
            }
        }
    }

    fn offer(&mut self, cpu: u16, packet: Packet, now_ns: u64) {
        let Some(function) = self.functions.get_mut(usize::from(cpu)) else { return };
        let taken = function.offer(packet, now_ns);
        if let (Some(done_ns), Some(due_ns)) =
            (function.done_ns(), self.due_ns.get_mut(usize::from(cpu)))
        {
            *due_ns = (*due_ns).min(done_ns);
        }
        if taken {
            return;
        }
        self.outcome.dropped += u64::from(packet.at_ns >= self.measured_from_ns);
        if self.arrivals.closed_loop {
            if let Some(flow) = self.flow(packet.flow) {
                flow.stopped_until_ns = now_ns + TIMEOUT_NS;
            }
        }
    }

    /// Everything until `now_ns`, in the order of time.
    fn advance(&mut self, now_ns: u64) {
        loop {
            let at_ns = self.due_ns.into_iter().fold(u64::MAX, u64::min);
            if at_ns > now_ns {
                return;
            }
            for cpu in 0..self.due_ns.len() {
                // What another processor has sent back may be for this one.
                if self.due_ns.get(cpu).is_some_and(|due_ns| *due_ns <= at_ns) {
                    self.finish(cpu, at_ns);
                    self.come_back(cpu, at_ns);
                    self.set_due(cpu);
                }
            }
        }
    }

    fn set_due(&mut self, cpu: usize) {
        let done_ns = self.functions.get(cpu).and_then(NetworkFunction::done_ns);
        let back_ns = self.away.get(cpu).and_then(VecDeque::front).map(|(at_ns, _)| *at_ns);
        if let Some(due_ns) = self.due_ns.get_mut(cpu) {
            *due_ns = done_ns.unwrap_or(u64::MAX).min(back_ns.unwrap_or(u64::MAX));
        }
    }

    fn finish(&mut self, cpu: usize, at_ns: u64) {
        let Some(function) = self.functions.get_mut(cpu) else { return };
        if function.done_ns().is_none_or(|done_ns| done_ns > at_ns) {
            return;
        }
        let mut sent = std::mem::take(&mut self.sent);
        function.finish(at_ns, &mut sent);
        for packet in sent.drain(..) {
            self.processed(cpu, packet, at_ns);
            if self.balancer.is_some() {
                if let Some(away) = self.away.get_mut(cpu) {
                    away.push_back((at_ns + WAY_NS, packet));
                }
            }
        }
        self.sent = sent;
    }

    /// Counts a packet that the function has sent.
    fn processed(&mut self, cpu: usize, packet: Packet, at_ns: u64) {
        let mut overtaken = false;
        if let Some(flow) = self.flow(packet.flow) {
            let [to_server, to_client] = &mut flow.latest;
            let latest = if packet.back { to_client } else { to_server };
            overtaken = packet.number < *latest;
            *latest = (packet.number + 1).max(*latest);
        }
        if packet.at_ns < self.measured_from_ns {
            return;
        }
        let outcome = &mut self.outcome;
        outcome.out_of_order += u64::from(overtaken);
        let latency = at_ns - packet.at_ns + WAY_NS;
        if packet.flow.is_some() {
            outcome.latency.saturating_record(latency);
            outcome.bytes += u64::from(packet.size);
            if let Some(packets) = outcome.packets.get_mut(cpu) {
                *packets += 1;
            }
        } else {
            outcome.probes.saturating_record(latency);
        }
    }

    /// Tells the balancer of what is back.
    fn come_back(&mut self, cpu: usize, at_ns: u64) {
        loop {
            let Some(away) = self.away.get_mut(cpu) else { return };
            if away.front().is_none_or(|(due_ns, _)| *due_ns > at_ns) {
                return;
            }
            let Some((_, packet)) = away.pop_front() else { return };
            if let Some(balancer) = &mut self.balancer {
                let away_ns = at_ns - packet.at_ns;
                balancer.returned(packet.bucket, cpu as u16, packet.sequence, away_ns, at_ns);
            }
            self.release(at_ns);
        }
    }
}
