//! Figure 8: the time through the card under background load, in the paper's
//! four splits (section 5.5).
use crate::report::{XenoflowRow, deviation, median};
use flow::BackendId;

use super::card::{Card, CardError};
use super::wire::{Server, wire_ns};

/// Background load, in million packets a second.
const LOADS: [f64; 7] = [0.0, 10.0, 30.0, 50.0, 70.0, 80.0, 90.0];
/// Bytes of payload: frames of 64 bytes with their check sequence.
const PAYLOAD: usize = 18;
/// Nanoseconds between two probes.
const PROBES_NS: f64 = 2_000.0;

/// How the background load is divided: the probed backend's part, in percent,
/// and the other's.
struct Split {
    name: &'static str,
    backends: u8,
    probed: u32,
}

/// The text names the single endpoint, x/y for x % to the probed backend and
/// y % to the other, and the one in which all goes to the other; the two
/// between are the ends and the middle of that range.
const SPLITS: [Split; 4] = [
    Split { name: "single endpoint", backends: 1, probed: 100 },
    Split { name: "100/0", backends: 2, probed: 100 },
    Split { name: "50/50", backends: 2, probed: 50 },
    Split { name: "0/100", backends: 2, probed: 0 },
];

pub(super) fn splits(packets: u32) -> Result<Vec<XenoflowRow>, CardError> {
    let mut rows = Vec::new();
    for split in &SPLITS {
        for load in LOADS {
            let times = probe(split, load, packets)?;
            rows.push(XenoflowRow {
                x: load,
                x_unit: "Mpps of background load".to_owned(),
                value: median(&times).map(|ns| ns / 1e3),
                deviation: deviation(&times).map(|ns| ns / 1e3),
                unit: "µs in card, wire and the backend's link".to_owned(),
                samples: times.len() as u64,
                ..XenoflowRow::model(8, split.name)
            });
        }
    }
    Ok(rows)
}

/// Nanoseconds of each probe from its arrival at the card to its end on the
/// link of the probed backend. Background packets come independently.
fn probe(split: &Split, load: f64, packets: u32) -> Result<Vec<f64>, CardError> {
    let mut card = Card::new(split.backends, PAYLOAD)?;
    let (probed, other) = (BackendId(0), BackendId(1));
    let probing = card.client(Some(probed));
    let wire = wire_ns(super::wire::frame_len(PAYLOAD));
    let mut links = [Server::default(); 2];
    let (mut times, mut next_probe) = (Vec::new(), PROBES_NS);
    let mut now = 0.0;
    let ticks = if load > 0.0 { packets } else { packets / 20 };
    for _ in 0..ticks {
        now += if load > 0.0 { card.draw.exponential(1e3 / load) } else { PROBES_NS };
        while next_probe <= now {
            if let Some(left) = card.send(probing, next_probe)? {
                let done = links.first_mut().and_then(|link| link.serve(left.at_ns, wire));
                times.extend(done.map(|done| done - next_probe));
            }
            next_probe += PROBES_NS;
        }
        if load > 0.0 {
            let own = card.draw.below(100) < u64::from(split.probed);
            let client = card.client(Some(if own { probed } else { other }));
            if let Some(left) = card.send(client, now)? {
                if let Some(link) = links.get_mut(usize::from(left.backend.0)) {
                    link.serve(left.at_ns, wire);
                }
            }
        }
    }
    Ok(times)
}
