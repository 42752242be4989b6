//! Rules at a real driver.
use dpdk::flow::{
    Action, FlowError, FlowErrorKind, FlowPort, Item, Modify, PortFlows, QueueConfig, Rule,
    RuleHandle, SetField, TableHandle, TableHash, Template,
};
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

    no_queues(&mut flows);

    assert!(matches!(port.stop().unwrap_err(), PortError::Held { held: 1, .. }));
    drop(flows);
    port.stop().unwrap();
    assert!(port.flows().is_some());
}

/// A driver without queues and ageing says so, and nothing else happens.
fn no_queues(flows: &mut PortFlows) {
    let clean = |error: FlowError| {
        println!("  {error}");
        assert_eq!(error.kind, FlowErrorKind::Unspecified, "{error}");
        assert!(
            [FlowError::NOT_SUPPORTED, FlowError::NOT_IMPLEMENTED].contains(&error.errno),
            "{error}"
        );
        assert!(!error.message.is_empty());
    };
    let config = QueueConfig { queues: 2, depth: 64, counters: 16, aging: 16 };
    clean(flows.configure_queues(&config).unwrap_err());
    let set = Action::ModifyField(Modify::Set(SetField::TcpDport(80)));
    let rule = Rule { actions: vec![set, Action::Queue(0)], ..rule() };
    let template = Template {
        attributes: rule.attributes,
        pattern: rule.pattern.clone(),
        actions: rule.actions.clone(),
        rules: 64,
        hash: None,
    };
    clean(flows.create_table(&template).unwrap_err());
    for hash in [TableHash::Linear, TableHash::Crc32, TableHash::Crc16] {
        let by_index = Template { hash: Some(hash), ..template.clone() };
        clean(flows.create_table(&by_index).unwrap_err());
    }
    clean(flows.query_age().unwrap_err());
    clean(flows.push(0).unwrap_err());
    clean(flows.pull(0, &mut Vec::new()).unwrap_err());
    let table = TableHandle::from_port(usize::MAX);
    clean(flows.enqueue_create(0, &table, &rule, 1).unwrap_err());
    clean(flows.enqueue_create_by_index(0, &table, 1, &rule.actions, 1).unwrap_err());
    let error = flows.table_hash(&table, &rule.pattern).unwrap_err();
    assert_eq!(error.errno, FlowError::NOT_FOUND, "{error}");
    let (handle, error) = flows.enqueue_destroy(0, RuleHandle::from_port(1), 2).unwrap_err();
    assert_eq!(handle.port_value(), 1);
    clean(error);
    let (_, error) = flows.destroy_table(table).unwrap_err();
    assert_eq!(error.errno, FlowError::NOT_FOUND, "{error}");

    // AGE has 24 bits: more would be cut off silently.
    let long = Rule { actions: vec![Action::Age { timeout_s: 1 << 24 }], ..rule };
    assert_eq!(flows.validate(&long).unwrap_err().kind, FlowErrorKind::Action);
}
