//! The packets of one draw of addresses, the same for every system.
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use nf::Hash;
use traffic::{Application, Phase, Rng, Set, TrafficError, TrafficSet};
use wire::toeplitz::{MICROSOFT_KEY, Toeplitz};

use crate::laslb::service::Function;
use crate::laslb::system::{BUCKETS, CPUS};

/// Probes a second in all: 1000 for each of the thesis' four ports.
const PROBE_NS: u64 = 250_000;

/// A packet towards the function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at_ns: u64,
    /// Its flow, counted from 0 in the order of first packets; `None`: an ICMP probe.
    pub(crate) flow: Option<u32>,
    /// Whether it goes from server to client.
    pub(crate) back: bool,
    pub(crate) service_ns: u32,
    pub(crate) size: u16,
    pub(crate) bucket: u16,
    /// The processor that the NIC's hash names.
    pub(crate) rss: u16,
}

/// All packets of a draw.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pub(crate) packets: Vec<Arrival>,
    pub(crate) flows: usize,
    /// Whether a flow stops for a while after a loss.
    pub(crate) closed_loop: bool,
}

/// Where packets of one direction of a flow go.
#[derive(Clone, Copy, Debug)]
struct Place {
    bucket: u16,
    /// Their processor by the NIC's hash.
    rss: u16,
}

/// What a flow has.
struct Known {
    number: u32,
    /// Of its packets to the server, and of those back.
    places: [Place; 2],
    application: Application,
    /// Packets so far; a flow that was open at the start is past its beginning.
    packets: u32,
}

/// Packets of a flow that began before the traffic was looked at.
const OPEN_ALREADY: u32 = 1 << 16;

impl Arrivals {
    /// Packets of a set at a load for `length_ns` nanoseconds, with addresses by `seed`,
    /// which fall on buckets and processors by `hash`.
    pub(crate) fn draw(
        set: Set,
        gbps: f64,
        length_ns: u64,
        function: &Function,
        hash: Hash,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        let mut rng = Rng::new(seed);
        let traffic = TrafficSet::at(set, gbps, rng.next_u64())?;
        let mut addresses = Addresses { rng: rng.split(), toeplitz: Toeplitz::new(&MICROSOFT_KEY) };
        let mut applications = rng.split();
        let mut known: HashMap<u32, Known> = HashMap::new();
        let mut packets = Vec::new();
        let mut probe_ns = 0;
        for packet in traffic.take_while(|packet| packet.at_ns < length_ns) {
            while probe_ns <= packet.at_ns {
                packets.push(Arrival {
                    at_ns: probe_ns,
                    flow: None,
                    back: false,
                    service_ns: function.draw_ns(None, false, &mut rng),
                    size: 64,
                    bucket: rng.below(BUCKETS.into()) as u16,
                    rss: rng.below(CPUS.into()) as u16,
                });
                probe_ns += PROBE_NS;
            }
            let next = known.len() as u32;
            let opens = packet.phase == Phase::Open;
            let flow = known.entry(packet.flow).or_insert_with(|| {
                let places = addresses.places(hash);
                let application = Application::draw(&mut applications);
                let packets = if opens { 0 } else { OPEN_ALREADY };
                Known { number: next, places, application, packets }
            });
            let of = Some((flow.application, flow.packets));
            flow.packets += 1;
            // A client speaks first.
            let back = !opens && rng.below(100) < u64::from(flow.application.back_percent());
            let [to_server, to_client] = flow.places;
            let place = if back { to_client } else { to_server };
            packets.push(Arrival {
                at_ns: packet.at_ns,
                flow: Some(flow.number),
                back,
                service_ns: function.draw_ns(of, opens, &mut rng),
                size: packet.size,
                bucket: place.bucket,
                rss: place.rss,
            });
        }
        let sum_ns = packets.iter().map(|packet| u64::from(packet.service_ns)).sum();
        if let Some(scale) = function.scale(sum_ns, packets.len()) {
            for packet in &mut packets {
                packet.service_ns = (f64::from(packet.service_ns) * scale) as u32;
            }
        }
        let closed_loop = !matches!(set, Set::Udp { .. });
        Ok(Self { packets, flows: known.len(), closed_loop })
    }
}

/// Where flows fall, by real hashes of random endpoints.
struct Addresses {
    rng: Rng,
    toeplitz: Toeplitz,
}

impl Addresses {
    /// The places of a new flow's packets to the server, and of those back.
    fn places(&mut self, hash: Hash) -> [Place; 2] {
        let bits = self.rng.next_u64();
        let source = Ipv4Addr::from(0x1000_0000 | (bits as u32 & 0x00ff_ffff));
        let destination = Ipv4Addr::from(0x3000_0000 | ((bits >> 24) as u32 & 0x00ff_ffff));
        let ends = [(source, 1024 | (bits >> 48) as u16), (destination, 80)];
        let there = self.place(ends);
        match hash {
            Hash::Symmetric => [there; 2],
            Hash::Thesis => [there, self.place([ends[1], ends[0]])],
        }
    }

    fn place(&self, [source, destination]: [(Ipv4Addr, u16); 2]) -> Place {
        let end = |(addr, port)| (IpAddr::V4(addr), port);
        let hash = balance::thesis(end(source), end(destination), 6);
        let mut input = [0; 12];
        let addresses = source.0.octets().into_iter().chain(destination.0.octets());
        let ports = source.1.to_be_bytes().into_iter().chain(destination.1.to_be_bytes());
        for (to, from) in input.iter_mut().zip(addresses.chain(ports)) {
            *to = from;
        }
        let rss = self.toeplitz.hash(&input);
        Place { bucket: (hash % u32::from(BUCKETS)) as u16, rss: (rss % u32::from(CPUS)) as u16 }
    }
}
