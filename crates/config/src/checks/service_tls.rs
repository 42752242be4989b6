//! `[service.tls]`.
use std::path::PathBuf;

use flow::Protocol;

use crate::Service;
use crate::service_tls::ServiceTls;
use crate::tree::Way;

use super::Findings;

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
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
