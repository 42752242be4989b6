//! Health in the plan: a dead backend stays dead over a reload, as long as it is checked.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
mod common;

use common::{Balancer, PORTS};
use control::BackendKey;
use service::Health;

const NETWORK: &str = "[[interface]]\nport = \"p0\"\naddresses = [\"10.71.0.1/24\"]\n";
const CHECK: &str = "health = { check = \"tcp\" }\n";

fn text(check: &str, hosts: &[u8]) -> String {
    let mut text = format!(
        "{PORTS}{NETWORK}[[service]]\nname = \"web\"\nvip = \"10.71.0.100\"\nport = 80\n\
         protocol = \"tcp\"\n{check}"
    );
    for host in hosts {
        text += &format!("[[service.backend]]\naddress = \"10.71.0.{host}\"\nport = 8080\n");
    }
    text
}

fn find(balancer: &mut Balancer, host: u8, health: Health) -> usize {
    let address = format!("10.71.0.{host}").parse().unwrap();
    let key = ("web".to_owned(), BackendKey { address, port: Some(8080) });
    let done = balancer.control.set_health(&balancer.shared, [(key, health)]).unwrap();
    done.steps.len()
}

fn weights(balancer: &Balancer) -> Vec<u16> {
    let snapshot = balancer.shared.snapshot();
    snapshot.services.services()[0].backends().iter().map(|own| own.weight).collect()
}

#[test]
fn a_dead_backend_stays_so_over_reloads_while_it_is_checked() {
    let mut balancer = Balancer::new(&text(CHECK, &[11, 12]));
    assert_eq!(find(&mut balancer, 11, Health::DOWN), 1);
    assert_eq!(find(&mut balancer, 11, Health::DOWN), 0, "it is so already");
    assert_eq!(weights(&balancer), [0, 1]);
    balancer.reload(&text(CHECK, &[13, 11, 12])).unwrap();
    assert_eq!(weights(&balancer), [1, 0, 1]);
    // Another backend that was removed and comes back is a new one.
    assert_eq!(find(&mut balancer, 12, Health::DOWN), 1);
    balancer.reload(&text(CHECK, &[13, 11])).unwrap();
    balancer.reload(&text(CHECK, &[13, 11, 12])).unwrap();
    assert_eq!(weights(&balancer), [1, 0, 1]);
    // A drain changes nothing of it, and the other way round.
    balancer.drain("web", "10.71.0.13", true);
    balancer.drain("web", "10.71.0.11", true);
    assert_eq!(find(&mut balancer, 11, Health::UP), 1);
    assert_eq!(weights(&balancer), [0, 0, 1]);
    balancer.drain("web", "10.71.0.11", false);
    assert_eq!(weights(&balancer), [0, 1, 1]);
    assert_eq!(find(&mut balancer, 12, Health::DOWN), 1);
    assert_eq!(weights(&balancer), [0, 1, 0]);
    // Without checks all are taken to be up.
    let done = balancer.reload(&text("", &[13, 11, 12])).unwrap();
    // What happens to the connections of a backend that is down is a setting.
    let [settings, checks] = &done.steps[..] else { panic!("{:?}", done.steps) };
    assert_eq!(settings, "service web: its settings change");
    assert_eq!(checks, "service web: its backends are not checked any more");
    assert_eq!(weights(&balancer), [0, 1, 1]);
    assert_eq!(find(&mut balancer, 12, Health::DOWN), 0, "a late word of a check counts nothing");
    assert_eq!(weights(&balancer), [0, 1, 1]);
}

#[test]
fn what_is_found_of_unknown_backends_changes_nothing() {
    let mut balancer = Balancer::new(&text(CHECK, &[11, 12]));
    assert_eq!(find(&mut balancer, 99, Health::DOWN), 0);
    assert_eq!(weights(&balancer), [1, 1]);
    assert!(balancer.control.plan().health.is_empty());
}
