//! Ports of virtual devices.
use dpdk::{Batch, Mbuf, Mempool, Port, PortConfig, PortError, Rss};

pub(crate) fn net_null(pool: &Mempool) {
    let config = PortConfig { rx_queues: 2, tx_queues: 2, ..PortConfig::default() };
    // Opened again and again, with other arguments: the device goes with the port.
    for (device, size) in [("net_null0", 64), ("net_null0,size=90", 90)] {
        let mut port = Port::open(device, &config, pool).unwrap();
        assert_eq!(port.device(), "net_null0");
        port.start().unwrap();
        port.start().unwrap();
        assert!(port.link_up() && port.is_alive());
        let (mut rx, mut tx) = port.queues().unwrap();
        let mut batch = Batch::<8>::new();
        assert_eq!(rx[0].rx_at_most(&mut batch, 3), 3);
        assert_eq!(rx[0].rx_burst(&mut batch), 5);
        assert_eq!(rx[1].rx_burst(&mut batch), 0, "no room");
        assert!(batch.iter().all(|mbuf| mbuf.len() == size && mbuf.is_contiguous()));
        batch.pop();
        assert_eq!(tx[1].tx_burst(&mut batch), 7);
        assert!(batch.is_empty());
        assert_eq!((rx[0].linearized(), rx[0].dropped()), (0, 0));
        let stats = port.stats();
        assert_eq!((stats.rx_packets, stats.tx_packets, stats.rx_missed), (8, 7, 0));
        let xstats = port.xstats();
        assert!(xstats.contains(&("rx_good_packets".to_owned(), 8)), "{xstats:?}");
        assert_ne!(port.mac().unwrap(), wire::Mac::default());
        let able = port.capabilities().unwrap();
        assert_eq!(able.driver, "net_null");
        assert!(able.max_rx_queues >= 2 && able.reta_size > 0 && able.max_mtu >= 1500);
    }
}

/// net_null always has packets, takes their mbufs from the pool, and counts none.
pub(crate) fn an_empty_poll_without_mbufs(pool: &Mempool) {
    let mut port = Port::open("net_null2", &PortConfig::default(), pool).unwrap();
    port.start().unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    let mut batch = Batch::<8>::new();
    let taken: Vec<Mbuf> = std::iter::from_fn(|| pool.alloc()).collect();
    assert_eq!(rx.rx_burst(&mut batch), 0, "no mbuf is left");
    assert!(!rx.was_empty(), "packets wait for mbufs");
    drop(taken);
    assert!(rx.was_empty(), "a poll would have found mbufs");
    assert_eq!(rx.rx_burst(&mut batch), 8);
}

pub(crate) fn handles_exist_once(pool: &Mempool) {
    let mut port = Port::open("net_null1", &PortConfig::default(), pool).unwrap();
    let error = port.rx_queue(0).unwrap_err().to_string();
    assert_eq!(error, "receive queue 0 of device 'net_null1': the port is not started");
    port.start().unwrap();
    let rx = port.rx_queue(0).unwrap();
    assert!(port.rx_queue(0).unwrap_err().to_string().ends_with("its handle is taken"));
    assert!(port.tx_queue(1).unwrap_err().to_string().ends_with("there is no such queue"));
    let error = port.stop().unwrap_err();
    assert_eq!(error, PortError::Held { device: "net_null1".into(), held: 1 });
    drop(rx);
    port.stop().unwrap();
    port.stop().unwrap();
    port.start().unwrap();
    let mut rx = port.rx_queue(0).unwrap();
    // A queue keeps the port; the port's handle may go first.
    drop(port);
    let mut batch = Batch::<8>::new();
    assert_eq!(rx.rx_burst(&mut batch), 8);
    let error = Port::open("net_null1", &PortConfig::default(), pool).unwrap_err();
    assert_eq!(error, PortError::Open { device: "net_null1".into() });
    drop(batch);
    drop(rx);
    Port::open("net_null1", &PortConfig::default(), pool).unwrap();
}

pub(crate) fn rss(pool: &Mempool) {
    let over = |queues: &[u16]| PortConfig {
        rx_queues: 4,
        rss: Some(Rss { queues: queues.to_vec() }),
        ..PortConfig::default()
    };
    let mut port = Port::open("net_null2", &over(&[1, 3]), pool).unwrap();
    assert!(port.capabilities().unwrap().rss_five_tuple);
    port.start().unwrap();
    port.set_reta(&[0]).unwrap();
    let error = port.set_reta(&[4]).unwrap_err().to_string();
    assert!(error.contains("queue 4 is not one of its 4"), "{error}");
    assert!(port.set_reta(&[]).unwrap_err().to_string().contains("no queue is named"));
    port.set_reta(&[1, 3]).unwrap();
    let reta = port.redirection().unwrap();
    assert_eq!(reta.query().unwrap()[..4], [1, 3, 1, 3]);
    reta.update(&[(0, 2), (reta.size() - 1, 0)]).unwrap();
    let queues = reta.query().unwrap();
    assert_eq!((queues[0], queues[1], queues[usize::from(reta.size()) - 1]), (2, 3, 0));
    let error = reta.update(&[(reta.size(), 0)]).unwrap_err().to_string();
    assert!(error.contains("is not one of its table's"), "{error}");
    assert!(reta.update(&[(0, 4)]).unwrap_err().to_string().contains("queue 4"), "no such queue");
    drop((reta, port));
    assert!(matches!(Port::open("net_null2", &over(&[4]), pool), Err(PortError::Rss { .. })));
}

pub(crate) fn errors(pool: &Mempool) {
    let fails = |device: &str, config: &PortConfig, parts: &[&str]| {
        let error = Port::open(device, config, pool).unwrap_err().to_string();
        println!("  {error}");
        for part in parts {
            assert!(error.contains(part), "'{part}' in: {error}");
        }
    };
    let plain = PortConfig::default();
    fails("net_af_packet0,iface=missing0", &plain, &["no interface 'missing0'"]);
    fails("net_af_packet0", &plain, &["attach", "net_af_packet0,iface=NAME"]);
    fails("net_nosuch0", &plain, &["attach", "net_nosuch0"]);
    fails("0000:ff:1f.7", &plain, &["0000:ff:1f.7"]);
    fails("lo", &plain, &["interface of the kernel", "net_af_packet0,iface=lo"]);
    fails("1", &plain, &["write a PCI address"]);
    let many = PortConfig { rx_queues: 5000, ..PortConfig::default() };
    fails("net_null3", &many, &["receive queues; 5000 were asked for"]);
    let small = PortConfig { mtu: Some(20), ..PortConfig::default() };
    fails("net_null3", &small, &["takes an MTU of", "20 was asked for"]);
    // After the failures the device can be had.
    Port::open("net_null3", &plain, pool).unwrap();
}
