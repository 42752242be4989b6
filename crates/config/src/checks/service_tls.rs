//! `[service.tls]`.
use std::path::PathBuf;

use flow::Protocol;

use crate::Service;
use crate::backend_tls::fingerprint;
use crate::service_tls::ServiceTls;
use crate::tree::Way;

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    check_backends(findings, &way.key("backend_tls"), service);
    let own = way.key("tls");
    match (&service.tls, service.protocol) {
        (Some(tls), Protocol::Https) => check_tls(findings, &own, tls),
        (None, Protocol::Https) => {
            let text = "a service of protocol https needs certificates; add [service.tls] and [[service.tls.certificate]] with chain and key";
            findings.wrong(&way.key("protocol"), text);
        }
        (Some(_), _) => {
            let text = "only services that terminate TLS have certificates; set protocol = \"https\", or leave tls out";
            findings.wrong(&own, text);
        }
        (None, _) => {}
    }
}

/// TLS towards backends.
fn check_backends(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let Some(own) = &service.backend_tls else { return };
    if service.protocol != Protocol::Https {
        let text = "only services that terminate TLS speak it with their backends; set protocol = \"https\", or leave backend_tls out";
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

fn check_tls(findings: &mut Findings<'_>, way: &Way, tls: &ServiceTls) {
    if tls.certificates.is_empty() {
        let text = "there is no certificate; add [[service.tls.certificate]] with chain and key";
        return findings.wrong(way, text);
    }
    let mut paths: Vec<(Way, &PathBuf)> = Vec::new();
    paths.extend(tls.ticket_key.iter().map(|path| (way.key("ticket_key"), path)));
    paths.extend(tls.client_ca.iter().map(|path| (way.key("client_ca"), path)));
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
    if let Some(Err(error)) = sound.then(|| tls.server(&random)) {
        findings.wrong(way, error);
    }
}
