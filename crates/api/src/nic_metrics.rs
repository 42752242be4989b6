//! Ports and their match tables, as metrics.
use std::collections::BTreeMap;

use status::{PortStatus, Status};

use crate::open_metrics::{Kind, OpenMetrics};

/// The metrics of the ports.
pub(crate) fn ports(text: &mut OpenMetrics, ports: &[PortStatus]) {
    let mut up = text.family(("hnlb_port_up", Kind::Gauge), None, "1 if the link is up.");
    for port in ports {
        up.sample(&[("port", &port.name)], port.link_up.into());
    }
    let mut info =
        text.family(("hnlb_port", Kind::Info), None, "A port's device, driver and encoding.");
    for port in ports {
        let PortStatus { name, device, driver, encoding, .. } = port;
        let labels =
            [("port", name), ("device", device), ("driver", driver), ("encoding", encoding)];
        info.sample(&labels.map(|(label, value)| (label, value.as_str())), 1.0);
    }
    let mut packets =
        text.family(("hnlb_port_packets", Kind::Counter), None, "Packets at the device.");
    for port in ports {
        for (direction, counter) in [
            ("receive", "rx_packets"),
            ("transmit", "tx_packets"),
            ("past_workers", "past_workers"),
        ] {
            let value = count(&port.counters, counter);
            packets.sample(&[("port", &port.name), ("direction", direction)], value);
        }
    }
    let mut bytes =
        text.family(("hnlb_port_bytes", Kind::Counter), Some("bytes"), "Bytes at the device.");
    for port in ports {
        for (direction, counter) in [("receive", "rx_bytes"), ("transmit", "tx_bytes")] {
            let value = count(&port.counters, counter);
            bytes.sample(&[("port", &port.name), ("direction", direction)], value);
        }
    }
    let mut errors = text.family(
        ("hnlb_port_errors", Kind::Counter),
        None,
        "Packets that the device lost, by reason.",
    );
    for port in ports {
        for reason in ["rx_missed", "rx_errors", "rx_no_mbuf", "tx_errors"] {
            let value = count(&port.counters, reason);
            errors.sample(&[("port", &port.name), ("reason", reason)], value);
        }
    }
}

/// The metrics of the match tables, and of the rules in them.
pub(crate) fn nic(text: &mut OpenMetrics, status: &Status) {
    let nic = &status.nic;
    text.family(("hnlb_nic_rules", Kind::Gauge), None, "Rules in the match tables of all ports.")
        .sample(&[], nic.rules as f64);
    text.family(
        ("hnlb_nic_rules_limit", Kind::Gauge),
        None,
        "Rules that the match tables hold; 0 if no driver tells.",
    )
    .sample(&[], nic.capacity as f64);
    text.family(
        ("hnlb_nic_packets", Kind::Counter),
        None,
        "Packets by what the match table did; only an emulated NIC tells of matched and missed.",
    )
    .sample(&[("result", "matched")], nic.matched as f64)
    .sample(&[("result", "missed")], nic.missed as f64)
    .sample(&[("result", "forwarded")], nic.forwarded as f64);
    text.family(
        ("hnlb_nic_forwarded_bytes", Kind::Counter),
        Some("bytes"),
        "Bytes of packets that the NIC rewrote and sent on, past the workers.",
    )
    .sample(&[], nic.forwarded_bytes as f64);
    text.by_name(("hnlb_nic_drops", Kind::Counter), "reason", "Packets dropped.", &nic.drops);
    text.by_name(
        ("hnlb_offload_state", Kind::Gauge),
        "name",
        "Counts of the life of rules, those that rise and those that fall.",
        &status.offload,
    );
    let admission = &status.admission;
    text.by_name(
        ("hnlb_admission_events", Kind::Counter),
        "event",
        "What became of candidates for a rule.",
        &admission.counters,
    );
    text.family(
        ("hnlb_admission_held", Kind::Gauge),
        None,
        "Connections with an entry of the NIC.",
    )
    .sample(&[], admission.held as f64);
    text.family(
        ("hnlb_admission_matched_ratio", Kind::Gauge),
        Some("ratio"),
        "Of the sampled packets of the last second, the part of connections with an entry.",
    )
    .sample(&[], admission.share_matched);
    if let Some(nanoseconds) = admission.creation_ns {
        text.family(
            ("hnlb_rule_creation_seconds", Kind::Gauge),
            Some("seconds"),
            "What the creation of one rule takes on the slowest port.",
        )
        .sample(&[], nanoseconds as f64 / 1e9);
    }
}

fn count(counters: &BTreeMap<String, u64>, name: &str) -> f64 {
    counters.get(name).copied().unwrap_or_default() as f64
}
