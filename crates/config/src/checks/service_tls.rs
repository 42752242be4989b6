//! `[service.tls]`.
use std::path::PathBuf;

use flow::Protocol;

use crate::Service;
use crate::backend_tls::fingerprint;
use crate::service_tls::ServiceTls;
use crate::tree::Way;

use super::Findings;
use super::tls::{NO_PROTOCOL, is_protocol};

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    check_backends(findings, &way.key("backend_tls"), service);
    let own = way.key("tls");
    if service.terminate && service.protocol != Protocol::Tls {
        let text = "what ends TLS in front of TCP is of protocol tls; set protocol = \"tls\", or leave terminate out: https ends TLS without it";
        findings.wrong(&way.key("terminate"), text);
    }
    match &service.tls {
        Some(tls) if service.terminates() => check_tls(findings, &own, service, tls),
        Some(_) => {
            let text = "only services that terminate TLS have certificates; set protocol = \"https\", or protocol = \"tls\" with terminate = true, or leave tls out";
            findings.wrong(&own, text);
        }
        None if service.terminates() => {
            let text = "a service that terminates TLS needs certificates; add [service.tls] and [[service.tls.certificate]] with chain and key";
            findings.wrong(&way.key("protocol"), text);
        }
        None => {}
    }
}

/// Keys that are for services of another protocol.
fn check_keys(findings: &mut Findings<'_>, way: &Way, service: &Service, tls: &ServiceTls) {
    if service.protocol == Protocol::Tls {
        let text = "only HTTP has this; set protocol = \"https\", or leave it out";
        if tls.hsts.is_some() {
            findings.wrong(&way.key("hsts"), text);
        }
        if tls.forward_client_certificate {
            findings.wrong(&way.key("forward_client_certificate"), text);
        }
        if !tls.http2 {
            findings.wrong(&way.key("http2"), text);
        }
    } else if !tls.alpn.is_empty() {
        let text = "clients of https speak HTTP/2 or HTTP/1.1; leave alpn out, and set http2 = false for the latter alone";
        findings.wrong(&way.key("alpn"), text);
    }
    let without = [
        ("client_crl", tls.client_crl.is_some()),
        ("forward_client_certificate", tls.forward_client_certificate),
    ];
    for (key, _) in without.into_iter().filter(|(_, given)| *given && tls.client_ca.is_none()) {
        let text = "clients are asked for a certificate only with an authority; add client_ca, or leave this out";
        findings.wrong(&way.key(key), text);
    }
    for (place, own) in tls.alpn.iter().enumerate() {
        if !is_protocol(own) {
            findings.wrong(&way.key("alpn").item(place), NO_PROTOCOL);
        }
    }
}

/// TLS towards backends.
fn check_backends(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let Some(own) = &service.backend_tls else { return };
    if !service.terminates() {
        let text = "only services that terminate TLS speak it with their backends; set protocol = \"https\", or protocol = \"tls\" with terminate = true, or leave backend_tls out";
        return findings.wrong(way, text);
    }
    if let Some(ca) = own.ca.as_ref().filter(|ca| !ca.is_absolute()) {
        let text = format!("'{}' is no absolute path; write it from the root on", ca.display());
        return findings.wrong(&way.key("ca"), text);
    }
    let mut sound = true;
    for (place, pin) in own.pins.iter().enumerate() {
        if fingerprint(pin).is_none() {
            let text = "this is no fingerprint; write the 64 hexadecimal digits that openssl x509 -noout -fingerprint -sha256 prints";
            findings.wrong(&way.key("pins").item(place), text);
            sound = false;
        }
    }
    if let Some(Err(error)) = sound.then(|| own.client()) {
        let key = match &error {
            tls::BackendTlsError::Ca { .. } => way.key("ca"),
            tls::BackendTlsError::Name(_) => way.key("name"),
            _ => way.clone(),
        };
        findings.wrong(&key, error.to_string());
    }
}

fn check_tls(findings: &mut Findings<'_>, way: &Way, service: &Service, tls: &ServiceTls) {
    check_keys(findings, way, service, tls);
    if tls.certificates.is_empty() {
        let text = "there is no certificate; add [[service.tls.certificate]] with chain and key";
        return findings.wrong(way, text);
    }
    let mut paths: Vec<(Way, &PathBuf)> = Vec::new();
    paths.extend(tls.ticket_key.iter().map(|path| (way.key("ticket_key"), path)));
    paths.extend(tls.client_ca.iter().map(|path| (way.key("client_ca"), path)));
    paths.extend(tls.client_crl.iter().map(|path| (way.key("client_crl"), path)));
    for (place, own) in tls.certificates.iter().enumerate() {
        let way = way.key("certificate").item(place);
        paths.push((way.key("chain"), &own.chain));
        paths.push((way.key("key"), &own.key));
        paths.extend(own.ocsp.iter().map(|path| (way.key("ocsp"), path)));
    }
    let relative: Vec<_> = paths.into_iter().filter(|(_, path)| !path.is_absolute()).collect();
    if !relative.is_empty() {
        for (way, path) in relative {
            let text =
                format!("'{}' is no absolute path; write it from the root on", path.display());
            findings.wrong(&way, text);
        }
        return;
    }
    let mut sound = true;
    for (place, own) in tls.certificates().iter().enumerate() {
        if let Err(error) = tls::Certificates::load(std::slice::from_ref(own)) {
            findings.wrong(&way.key("certificate").item(place), error.to_string());
            sound = false;
        }
    }
    // What is wrong with one of them has been said where it stands.
    let random = tls::TicketKey::new([0; 32]);
    if let Some(Err(error)) = sound.then(|| tls.server(&random, Vec::new())) {
        findings.wrong(way, error);
    }
}
