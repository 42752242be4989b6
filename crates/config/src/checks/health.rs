//! `[service.health]`.
use flow::{Check, Protocol};

use crate::health::field;
use crate::tree::Way;
use crate::{Health, Passive, Service};

use super::Findings;

/// Bytes of a gRPC service's name, and of a domain name, at most.
const MOST_GRPC: usize = 127;
const MOST_NAME: usize = 253;

pub(super) fn check(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    check_backups(findings, way, service);
    let Some(health) = &service.health else { return };
    let way = way.key("health");
    check_keys(findings, &way, health);
    check_values(findings, &way, health);
    if let Some(passive) = &health.passive {
        check_passive(findings, &way.key("passive"), service, passive);
    }
    let has_port =
        matches!(health.check, Check::Tcp | Check::Http | Check::Https | Check::Dns | Check::Grpc);
    if has_port && health.port.is_none() && service.port.is_none() {
        let text = "a service of any port does not say which port answers; set port";
        findings.wrong(&way.key("check"), text);
    } else if health.check == Check::Icmp && health.port.is_some() {
        findings.wrong(&way.key("port"), "an ICMP echo goes to no port; leave it out");
    }
    if service.stateless && !health.slow_start.is_zero() {
        let text =
            "a stateless service gives a backend all of its clients at once; leave slow_start out";
        findings.wrong(&way.key("slow_start"), text);
    }
}

fn check_backups(findings: &mut Findings<'_>, way: &Way, service: &Service) {
    let backups = service.backends.iter().filter(|backend| backend.backup).count();
    for (place, _) in service.backends.iter().enumerate().filter(|(_, own)| own.backup) {
        let way = way.key("backend").item(place).key("backup");
        if service.stateless {
            let text = "a stateless service divides its clients among all backends at all times; leave backup out";
            findings.wrong(&way, text);
        } else if backups == service.backends.len() {
            let text = "every backend of the service is a backup; let at least one be none";
            findings.wrong(&way, text);
        }
    }
}

/// Signals that cannot be seen.
fn check_passive(findings: &mut Findings<'_>, way: &Way, service: &Service, passive: &Passive) {
    let is_unseen = service.mode.is_one_way() || service.stateless;
    let given = [("resets", passive.resets), ("timeouts", passive.timeouts)];
    for (key, _) in given.into_iter().filter(|(_, own)| own.is_some_and(|own| own > 0)) {
        let text = if is_unseen {
            "answers of this service don't pass HNLB, so that they cannot be counted; leave it out"
        } else if service.is_routed() {
            "HNLB itself opens the connections to backends of this service and tries another one; leave it out"
        } else if key == "resets" && service.protocol == Protocol::Udp {
            "UDP has no resets; leave it out"
        } else {
            continue;
        };
        findings.wrong(&way.key(key), text);
    }
}

/// Keys that only some checks have, and those that others need.
fn check_keys(findings: &mut Findings<'_>, way: &Way, health: &Health) {
    let (web, own) = (["http", "https"].as_slice(), health.check.name());
    let given = [
        ("path", health.path.is_some(), web),
        ("host", health.host.is_some(), web),
        ("headers", !health.headers.is_empty(), web),
        ("status", health.status.is_some(), web),
        ("body", health.body.is_some(), web),
        ("name", health.name.is_some(), &["dns"]),
        ("grpc_service", health.grpc_service.is_some(), &["grpc"]),
        ("command", !health.command.is_empty(), &["command"]),
    ];
    for (key, is_given, checks) in given {
        if is_given && !checks.contains(&own) {
            let text = format!(
                "this key is used with the check {} only; leave it out",
                flow::alternatives(checks)
            );
            findings.wrong(&way.key(key), text);
        }
    }
    if health.check == Check::Dns && health.name.is_none() {
        findings.wrong(&way.key("check"), "the check dns needs a name to ask for; set name");
    }
    if health.check == Check::Command && health.command.is_empty() {
        let text = "the check command needs a program; set command to it and its arguments, as [\"/usr/local/bin/probe\", \"-q\"]";
        findings.wrong(&way.key("check"), text);
    }
}

fn check_values(findings: &mut Findings<'_>, way: &Way, health: &Health) {
    let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if health.path.as_deref().is_some_and(|path| !path.starts_with('/') || !visible(path)) {
        let text = "a path begins with / and has neither spaces nor letters beyond ASCII; write it as /health?full=1";
        findings.wrong(&way.key("path"), text);
    }
    if health.host.as_deref().is_some_and(|host| host.is_empty() || !visible(host)) {
        findings.wrong(&way.key("host"), "this is not a host; write it as example.com");
    }
    for (place, header) in health.headers.iter().enumerate() {
        if field(header).is_none() {
            let text = "this is not a header of HTTP; write its name, a colon and its value, as x-probe: hnlb";
            findings.wrong(&way.key("headers").item(place), text);
        }
    }
    if health.name.as_deref().is_some_and(|name| !is_domain_name(name)) {
        let text = "this is not a domain name; write it as example.com";
        findings.wrong(&way.key("name"), text);
    }
    if health.grpc_service.as_ref().is_some_and(|name| name.len() > MOST_GRPC) {
        findings.wrong(&way.key("grpc_service"), "give at most 127 bytes");
    }
    if health.command.first().is_some_and(|program| !program.starts_with('/')) {
        let text = "the program's path must be absolute, since a service has no working directory of its own";
        findings.wrong(&way.key("command").item(0), text);
    }
}

fn is_domain_name(name: &str) -> bool {
    let bare = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| (1..64).contains(&label.len()) && label.is_ascii();
    name == "." || (bare.len() <= MOST_NAME && bare.split('.').all(label))
}
