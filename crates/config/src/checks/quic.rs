//! `affinity = "quic-cid"`, `[[service.quic]]` and the backends' server ids.
use std::collections::HashMap;

use flow::{Affinity, Protocol};

use crate::Service;
use crate::tree::Way;

use super::Findings;

/// Bytes of a connection id (RFC 9000 section 17.2) behind its first.
const MOST: u8 = 19;

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    if service.affinity == Affinity::FiveTuple {
        if !service.quic.is_empty() {
            let text = "connection ids are read with affinity = \"quic-cid\" only; set it, or leave the quic tables out";
            findings.wrong(&way.key("quic"), text);
        }
    } else if service.protocol != Protocol::Udp {
        let text = "QUIC runs over UDP; set protocol = \"udp\", or leave affinity out";
        findings.wrong(&way.key("affinity"), text);
    } else if service.stateless {
        let text = "a stateless service has no connections that could stay; leave affinity or stateless out";
        findings.wrong(&way.key("affinity"), text);
    } else if service.quic.is_empty() {
        let text = "it must be said how backends make connection ids; add a [[service.quic]]";
        findings.wrong(&way.key("affinity"), text);
    }
    let mut rotations = HashMap::new();
    for (place, quic) in service.quic.iter().enumerate() {
        let way = way.key("quic").item(place);
        if let Some(first) = rotations.insert(quic.rotation, way.clone()) {
            let line = findings.line(&first);
            let text = format!(
                "rotation {} is taken already (line {line}); each has a value of its own from 0 to 6",
                quic.rotation
            );
            findings.wrong(&way.key("rotation"), text);
        }
        let sum = quic.server_id_length.saturating_add(quic.nonce_length);
        if sum > MOST {
            let text = format!(
                "server id and nonce have {sum} bytes together, and a connection id has room for {MOST}; shorten one of them"
            );
            findings.wrong(&way.key("nonce_length"), text);
        }
    }
    check_server_ids(findings, way, service);
}

/// Every backend has a server id of each length, and no two have the same.
fn check_server_ids(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let mut taken = HashMap::new();
    for (place, backend) in service.backends.iter().enumerate() {
        let way = way.key("backend").item(place);
        for (at, id) in backend.server_ids.iter().enumerate() {
            let way = way.key("server_ids").item(at);
            if !service.quic.iter().any(|quic| usize::from(quic.server_id_length) == id.len()) {
                let text = format!(
                    "no [[service.quic]] has server ids of {} bytes; write as many as its server_id_length says",
                    id.len()
                );
                findings.wrong(&way, text);
            }
            if let Some(first) = taken.insert(*id, way.clone()) {
                let line = findings.line(&first);
                let text = format!("{id} names a backend already (line {line}); give each its own");
                findings.wrong(&way, text);
            }
        }
        for quic in &service.quic {
            let length = usize::from(quic.server_id_length);
            if !backend.server_ids.iter().any(|id| id.len() == length) {
                let text = format!(
                    "{} has no server id of {length} bytes, as rotation {} needs; add one to server_ids",
                    backend.address, quic.rotation
                );
                findings.wrong(&way, text);
            }
        }
    }
}
