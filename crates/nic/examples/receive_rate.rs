//! What one packet costs the emulated NIC: parse and match, with every filter
//! in use and flows in random order. Prints nanoseconds per packet.
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use dpdk::flow::{Action, FlowPort, Rule};
use flow::CardProfile;
use nic::{Disposition, Nic, NicConfig};
use wire::{FlowKey, Transport};

const BURST: usize = 32;

fn frame(src: Ipv4Addr, sport: u16) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    frame[16..18].copy_from_slice(&46_u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    frame[26..30].copy_from_slice(&src.octets());
    frame[30..34].copy_from_slice(&[192, 0, 2, 1]);
    frame[34..36].copy_from_slice(&sport.to_be_bytes());
    frame[36..38].copy_from_slice(&443_u16.to_be_bytes());
    frame
}

fn main() -> Result<(), Box<dyn Error>> {
    for (capacity, hits) in [(2048, true), (8192, true), (8192, false)] {
        let config = NicConfig { capacity: Some(capacity), ..NicConfig::new(CardProfile::X550, 8) };
        let nic = Nic::new(&config)?;
        let mut flows = nic.flows();
        let mut frames = vec![];
        for n in 0..capacity as u32 {
            let (src, sport) = (Ipv4Addr::from(0x0a00_0000 | n), 1024 + (n % 60_000) as u16);
            let dst = SocketAddr::from(([192, 0, 2, 1], 443));
            let key = FlowKey::new(Transport::Tcp, SocketAddr::from((src, sport)), dst)
                .ok_or("both ends are IPv4")?;
            let actions = vec![Action::Queue(1), Action::Mark(n)];
            let _handle = flows.create(&Rule::five_tuple(&key, actions))?;
            frames.push(frame(src, if hits { sport } else { 9 }));
        }
        let mut out: [Disposition; BURST] = std::array::from_fn(|_| Disposition::default());
        let (mut at, mut packets) = (1_usize, 0_u64);
        let start = Instant::now();
        while packets < 20_000_000 {
            let burst = [(); BURST].map(|()| {
                at = (at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)) & 0xffff_ffff;
                (at >> 8) % frames.len()
            });
            let burst =
                burst.iter().filter_map(|index| frames.get(*index)).map(<[u8; 60]>::as_slice);
            packets += nic.receive_burst(burst, 0, &mut out) as u64;
        }
        let ns = start.elapsed().as_nanos() as f64 / packets as f64;
        println!(
            "{capacity} filters, {}: {ns:.1} ns",
            if hits { "all match" } else { "none match" }
        );
    }
    Ok(())
}
