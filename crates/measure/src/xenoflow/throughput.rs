//! Figures 4, 5 and 6: packets and bits a second against the payload, and loss
//! against the rate.
use crate::report::XenoflowRow;

use super::card::{Card, CardError};
use super::wire::{frame_len, wire_ns};

/// UDP payloads, in bytes: the paper's step at 23, and powers of two.
const PAYLOADS: [usize; 13] = [18, 20, 22, 23, 24, 32, 64, 128, 256, 512, 1024, 1280, 1472];
/// Rates offered with 22 bytes, in million packets a second, up to the wire's.
const RATES: [f64; 11] = [60.0, 70.0, 80.0, 90.0, 96.0, 97.0, 100.0, 110.0, 120.0, 135.0, 148.0];

/// What came out.
struct Flow {
    offered: u32,
    lost: u32,
    /// Packets a nanosecond.
    rate: f64,
}

/// Packets at this distance through a card.
fn flow(payload: usize, gap_ns: f64, packets: u32) -> Result<Flow, CardError> {
    let mut card = Card::new(2, payload)?;
    // The queues fill first: what they hold is neither lost nor out.
    let warm = packets / 2;
    let (mut lost, mut out, mut last) = (0, 0, 0.0);
    let mut first = None;
    for number in 0..warm + packets {
        let client = card.client(None);
        let left = card.send(client, f64::from(number) * gap_ns)?;
        if number < warm {
            first = left.map(|left| left.at_ns).or(first);
            continue;
        }
        match left {
            None => lost += 1,
            Some(left) => {
                out += 1;
                last = left.at_ns;
            }
        }
    }
    debug_assert_eq!(card.in_software(), 0);
    Ok(Flow { offered: packets, lost, rate: f64::from(out) / (last - first.unwrap_or(0.0)) })
}

/// Figures 4 and 6: as much as the wire brings.
pub(super) fn sizes(packets: u32) -> Result<Vec<XenoflowRow>, CardError> {
    let mut rows = Vec::new();
    for payload in PAYLOADS {
        let len = frame_len(payload);
        let wire = wire_ns(len);
        let flow = flow(payload, wire, packets)?;
        let row = |figure, series: &str, value, unit: &str, paper| XenoflowRow {
            x: payload as f64,
            x_unit: "bytes of UDP payload".to_owned(),
            value: Some(value),
            unit: unit.to_owned(),
            paper,
            samples: u64::from(flow.offered),
            ..XenoflowRow::model(figure, series)
        };
        let paper = match payload {
            ..23 => Some(96.7),
            // From here on the wire is the limit, of which the text has no figure.
            23..=64 => Some(92.8),
            _ => None,
        };
        rows.push(row(4, "bluefield3", flow.rate * 1e3, "Mpps", paper));
        rows.push(row(4, "wire", 1e3 / wire, "Mpps", None));
        let loss = f64::from(flow.lost) * 100.0 / f64::from(flow.offered);
        rows.push(row(4, "loss", loss, "% of what the wire brings", None));
        // As in the paper: packets a second times bytes times 8.
        rows.push(row(6, "bluefield3", flow.rate * len as f64 * 8.0, "Gbit/s", None));
        rows.push(row(6, "wire", len as f64 * 8.0 / wire, "Gbit/s", None));
        rows.push(row(6, "line", 100.0, "Gbit/s", None));
    }
    Ok(rows)
}

/// Figure 5: loss of packets with 22 bytes of payload.
pub(super) fn losses(packets: u32) -> Result<Vec<XenoflowRow>, CardError> {
    let mut rows = Vec::new();
    for rate in RATES {
        let flow = flow(22, 1e3 / rate, packets)?;
        rows.push(XenoflowRow {
            x: rate,
            x_unit: "Mpps offered".to_owned(),
            value: Some(f64::from(flow.lost) * 100.0 / f64::from(flow.offered)),
            unit: "% lost".to_owned(),
            // "All traffic that exceeds the possible 96.7 million packets/s".
            paper: Some((1.0 - 96.7 / rate).max(0.0) * 100.0),
            samples: u64::from(flow.offered),
            ..XenoflowRow::model(5, "bluefield3")
        });
    }
    Ok(rows)
}
