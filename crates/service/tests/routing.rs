//! Where TLS connections are routed to.
#![allow(clippy::unwrap_used, reason = "tests may")]
use crate::common;

use common::{backend, spec};
use service::{
    Directed, Goal, HelloView, Reads, RouteSpec, RoutesSpec, ServiceSpec, ServiceTable,
    WorkerScheduleState,
};
use wire::{FlowKey, Transport};

/// A server name, and the protocols with a comma behind each.
struct Greeting(&'static str, &'static str);

impl HelloView for Greeting {
    fn name(&self) -> &str {
        self.0
    }

    fn offers(&self, protocol: &str) -> bool {
        self.1.split_terminator(',').any(|own| own == protocol)
    }
}

const GROUPS: [&str; 4] = ["mail", "below", "a", "two"];

/// Each group has one backend, of which the last number is its place; that without a
/// group is 10.72.0.9.
fn table(default: bool) -> ServiceTable {
    let rule = |host: &str, alpn: &str, group: &str| RouteSpec {
        host: (!host.is_empty()).then(|| host.to_owned()),
        alpn: (!alpn.is_empty()).then(|| alpn.to_owned()),
        goal: Goal::Group(Some(group.to_owned())),
        ..RouteSpec::default()
    };
    let rules = vec![
        rule("", "imap", "mail"),
        rule("*.b", "", "below"),
        rule("a.b", "", "a"),
        rule("a.b", "h2", "two"),
        rule("c", "h2", "two"),
    ];
    let in_group = (0..).zip(GROUPS).map(|(at, group)| {
        let own = backend(&format!("10.72.0.{at}"), Some(443), 1);
        service::BackendSpec { group: Some(group.to_owned()), ..own }
    });
    let other = default.then(|| backend("10.72.0.9", Some(443), 1));
    let spec = ServiceSpec {
        routes: Some(RoutesSpec { rules, reads: Reads::Hellos, ..RoutesSpec::default() }),
        backends: in_group.chain(other).collect(),
        ..spec("10.71.0.100", Some(443), Transport::Tcp)
    };
    ServiceTable::compile(&[spec], [1, 2]).unwrap()
}

fn directed(table: &ServiceTable, name: &'static str, protocols: &'static str) -> &'static str {
    let service = &table.services()[0];
    let group = match service.direct(&Greeting(name, protocols)).unwrap() {
        Directed::Group(group) => group,
        Directed::NoProtocol => return "no protocol",
        Directed::NoRoute => return "no route",
    };
    let ends = ["10.71.0.7:1000", "10.71.0.100:443"].map(|end| end.parse().unwrap());
    let flow = FlowKey::new(Transport::Tcp, ends[0], ends[1]).unwrap();
    let mut state = WorkerScheduleState::new(0, table);
    let own = service.schedule_in(group, &flow, &mut state, &|_| false).unwrap();
    let place = own.address.to_string().rsplit('.').next().unwrap().parse::<usize>().unwrap();
    GROUPS.get(place).copied().unwrap_or("without a group")
}

#[test]
fn a_server_name_decides_before_a_protocol() {
    let (strict, open) = (table(false), table(true));
    let [strict, open] = [&strict, &open];
    for (name, protocols, wanted) in [
        ("a.b", "h2,", "two"),
        ("a.b", "h3,", "a"),
        ("a.b", "imap,", "a"),
        ("x.b", "h2,", "below"),
        ("x.y", "imap,h2,", "mail"),
        ("c", "h2,", "two"),
        ("", "imap,", "mail"),
    ] {
        assert_eq!(directed(strict, name, protocols), wanted, "{name} {protocols}");
        assert_eq!(directed(open, name, protocols), wanted, "{name} {protocols}");
    }
    for (name, protocols, wanted) in
        [("c", "h22,", "no protocol"), ("b", "h2,", "no protocol"), ("", "", "no protocol")]
    {
        assert_eq!(directed(strict, name, protocols), wanted, "{name} {protocols}");
        assert_eq!(directed(open, name, protocols), "without a group");
    }
}
