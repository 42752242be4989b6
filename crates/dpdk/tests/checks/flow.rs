//! Rules at a real driver.
use dpdk::flow::{Action, FlowError, FlowErrorKind, FlowPort, Item, Rule, RuleHandle};
use dpdk::{Mempool, Port, PortConfig, PortError};
use wire::{FlowKey, Transport};

fn rule() -> Rule {
    let (src, dst) = ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
    let flow = FlowKey::new(Transport::Tcp, src, dst).unwrap();
    Rule::five_tuple(&flow, vec![Action::Queue(0)])
}

/// net_null has no rte_flow, so every call comes back with ENOSYS or ENOTSUP.
pub(crate) fn driver_refuses(pool: &Mempool) {
    let mut port = Port::open("net_null4", &PortConfig::default(), pool).unwrap();
    port.start().unwrap();
    let mut flows = port.flows().unwrap();
    assert!(port.flows().is_none(), "one at a time");
    let validated = flows.validate(&rule()).unwrap_err();
    let created = flows.create(&rule()).unwrap_err();
    println!("  {validated}\n  {created}");
    for error in [validated, created] {
        assert_eq!(error.kind, FlowErrorKind::Unspecified, "{error}");
        assert!(
            [FlowError::NOT_SUPPORTED, FlowError::NOT_IMPLEMENTED].contains(&error.errno),
            "{error}"
        );
        assert!(!error.message.is_empty());
    }
    assert!(flows.is_empty());

    let mut by_number = rule();
    by_number.pattern.push(Item::Other(900));
    assert_eq!(flows.create(&by_number).unwrap_err().kind, FlowErrorKind::Item);
    let mut by_number = rule();
    by_number.actions.push(Action::Other(900));
    assert_eq!(flows.validate(&by_number).unwrap_err().kind, FlowErrorKind::Action);

    // A handle that this port never gave is an error, not a wild pointer.
    let wrong = RuleHandle::from_port(usize::MAX);
    assert_eq!(flows.query(&wrong).unwrap_err().errno, FlowError::NOT_FOUND);
    let (wrong, error) = flows.destroy(wrong).unwrap_err();
    assert_eq!((wrong.port_value(), error.errno), (usize::MAX, FlowError::NOT_FOUND));

    assert!(matches!(port.stop().unwrap_err(), PortError::Held { held: 1, .. }));
    drop(flows);
    port.stop().unwrap();
    assert!(port.flows().is_some());
}
