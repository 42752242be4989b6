//! What services and backends have carried, as metrics.
use status::{Status, TrafficStatus};

use crate::open_metrics::{Kind, OpenMetrics};

/// A number of one family, with the label that tells it from the others.
type Value = (Option<(&'static str, &'static str)>, fn(&TrafficStatus) -> u64);

/// What services and backends have alike, by the part of the name behind
/// `hnlb_service_` and `hnlb_backend_`.
struct Family {
    names: [&'static str; 2],
    unit: Option<&'static str>,
    help: &'static str,
    values: &'static [Value],
}

const TO_BACKEND: Option<(&str, &str)> = Some(("direction", "to_backend"));
const TO_CLIENT: Option<(&str, &str)> = Some(("direction", "to_client"));

const FAMILIES: [Family; 5] = [
    Family {
        names: ["hnlb_service_packets", "hnlb_backend_packets"],
        unit: None,
        help: "Packets sent on by workers and, as far as their counters have been read, by NICs.",
        values: &[
            (TO_BACKEND, |own| own.packets_to_backend),
            (TO_CLIENT, |own| own.packets_to_client),
        ],
    },
    Family {
        names: ["hnlb_service_bytes", "hnlb_backend_bytes"],
        unit: Some("bytes"),
        help: "Bytes of those packets from the Ethernet header on, without VLAN tag and outer headers.",
        values: &[(TO_BACKEND, |own| own.bytes_to_backend), (TO_CLIENT, |own| own.bytes_to_client)],
    },
    Family {
        names: ["hnlb_service_connections_opened", "hnlb_backend_connections_opened"],
        unit: None,
        help: "Connections put into the connection table.",
        values: &[(None, |own| own.opened)],
    },
    Family {
        names: ["hnlb_service_resets", "hnlb_backend_resets"],
        unit: None,
        help: "RSTs among the packets sent on, by the side that they came from.",
        values: &[
            (Some(("from", "client")), |own| own.resets_by_client),
            (Some(("from", "backend")), |own| own.resets_by_backend),
        ],
    },
    Family {
        names: ["hnlb_service_connections_refused", "hnlb_backend_connections_refused"],
        unit: None,
        help: "New connections whose first answer was a RST.",
        values: &[(None, |own| own.refused)],
    },
];

/// What every service and every backend has carried.
pub(crate) fn traffic(text: &mut OpenMetrics, status: &Status) {
    for Family { names: [of_service, of_backend], unit, help, values } in &FAMILIES {
        let mut family = text.family((of_service, Kind::Counter), *unit, help);
        for own in &status.services {
            for (label, value) in *values {
                let labels = [Some(("service", own.name.as_str())), *label];
                let labels: Vec<_> = labels.into_iter().flatten().collect();
                family.sample(&labels, value(&own.traffic) as f64);
            }
        }
        let mut family = text.family((of_backend, Kind::Counter), *unit, help);
        for service in &status.services {
            for own in service.backends.iter().chain(&service.departed) {
                let id = format!("{}.{}", own.id, own.generation);
                let named = [("service", service.name.as_str()), ("backend", &own.address)];
                for (label, value) in *values {
                    let labels = named.into_iter().chain([("id", id.as_str())]).chain(*label);
                    let labels: Vec<_> = labels.collect();
                    family.sample(&labels, value(&own.traffic) as f64);
                }
            }
        }
    }
}
