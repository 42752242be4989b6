//! What is possible, but perhaps not meant.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use config::Config;

const BASE: &str = include_str!("errors/base.toml");

fn warnings(edits: &[(&str, &str)]) -> Vec<String> {
    let mut text = BASE.to_owned();
    for (old, new) in edits {
        assert!(text.contains(old), "base.toml has no {old}");
        text = text.replacen(old, new, 1);
    }
    let config = Config::parse(&text, "lab.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let all = config.warnings();
    // Of the base's service dns; tested on its own.
    let remembers = |key: &str| key == "service.dns.scheduler";
    all.iter().filter(|own| !remembers(&own.key)).map(ToString::to_string).collect()
}

const UNUSED: &str = "pool.snat: no service uses this pool";
const ONLY_V4: &str =
    "service.dns.vip: the x550 matches IPv4 only; the connections of this service stay in software";

#[test]
fn the_base_has_an_unused_pool_and_ipv6_on_an_x550() {
    assert_eq!(warnings(&[]), [ONLY_V4, UNUSED]);
    assert_eq!(warnings(&[("\"x550\"", "\"e810\"")]), [UNUSED]);
    assert_eq!(warnings(&[("[workers]", "[offload]\nencoding = \"off\"\n[workers]")]), [UNUSED]);
}

#[test]
fn full_nat_with_queues_stays_in_software() {
    let found = warnings(&[
        ("[workers]", "[offload]\nencoding = \"queue\"\n[workers]"),
        ("protocol = \"tcp\"", "protocol = \"tcp\"\nmode = \"fullnat\"\npool = \"snat\""),
    ]);
    assert_eq!(
        found,
        [
            "service.web.mode: with the encoding 'queue' connections of mode fullnat stay in software; a queue cannot tell their source addresses, a mark can",
            ONLY_V4
        ]
    );
}

/// Service web needs two queues on both ports, dns two on the port that
/// matches IPv6; the two workers keep one each.
#[test]
fn queues_are_counted() {
    let queue = ("[workers]", "[offload]\nencoding = \"queue\"\n[workers]");
    let left = |queues| ("queues = 16", queues);
    let right = |queues| ("count = 2", queues);
    assert_eq!(warnings(&[queue, left("queues = 4")]), [ONLY_V4, UNUSED]);
    assert_eq!(
        warnings(&[queue, left("queues = 3")]),
        [
            ONLY_V4,
            "port.left.nic.queues: the encoding 'queue' needs 2 queues on port 'left', one for each backend of a service and one for each service's answers; 3 less 2 for the workers leave 1, so some connections stay in software",
            UNUSED
        ]
    );
    assert_eq!(warnings(&[queue, right("count = 2\nqueues = 6")]), [ONLY_V4, UNUSED]);
    let found = warnings(&[queue, right("count = 2\nqueues = 5")]);
    assert!(
        found[1].starts_with("workers.queues: the encoding 'queue' needs 4 queues on port 'right'")
    );
}

#[test]
fn drained_services_and_routed_vips_are_named() {
    let found = warnings(&[("weight = 1", "weight = 0"), ("\"10.71.0.100\"", "\"10.80.0.100\"")]);
    assert_eq!(
        found,
        [
            "service.web.backend: all backends have weight 0; new connections are refused",
            "service.web.vip: 10.80.0.100 is not on-link at an interface; routers must send its packets here",
            ONLY_V4,
            UNUSED
        ]
    );
}

#[test]
fn no_service_is_a_warning() {
    let text = BASE.split("[[pool]]").next().unwrap();
    let config = Config::parse(text, "lab.toml").unwrap();
    assert_eq!(
        config.warnings()[0].to_string(),
        "service: there is no service; nothing is balanced"
    );
}

#[test]
fn a_card_that_cannot_rewrite_is_named() {
    let rewrite = ("[workers]", "[offload]\nencoding = \"rewrite\"\n[workers]");
    let named = "port.left.nic.profile: a NIC of profile x550 cannot rewrite packets, so with the encoding 'rewrite' the port's connections stay in software; take the encoding auto, mark or queue, or a NIC of profile ";
    let found = warnings(&[rewrite]);
    assert!(found.iter().any(|line| line.starts_with(named)), "{found:?}");
    let able = [rewrite, ("\"x550\"", "\"connectx\""), ("capacity = 2048\n", "")];
    assert_eq!(warnings(&able), [UNUSED]);
}

fn scheduler_warnings(scheduler: &str, second_weight: u16) -> Vec<String> {
    let second = format!(
        "weight = 1\n[[service.backend]]\naddress = \"10.72.0.12\"\nweight = {second_weight}\n"
    );
    let text = BASE.replacen("weight = 1", &second, 1);
    let text = text.replacen(
        "protocol = \"tcp\"",
        &format!("protocol = \"tcp\"\nscheduler = \"{scheduler}\""),
        1,
    );
    let config = Config::parse(&text, "lab.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let all = config.warnings();
    let own = all.iter().filter(|own| own.key == "service.web.scheduler");
    own.map(|own| own.text.clone()).collect()
}

#[test]
fn what_schedulers_forget_or_ignore_is_said() {
    for scheduler in ["maglev", "source-hash"] {
        assert!(scheduler_warnings(scheduler, 3).is_empty(), "{scheduler}");
    }
    for scheduler in ["weighted-round-robin", "least-connections", "least-latency"] {
        let found = scheduler_warnings(scheduler, 3);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("{scheduler} depends on what happened before")));
        assert!(found[0].ends_with("maglev or source-hash choose the same one again"));
    }
    // A weight of 0 is not ignored: that backend gets nothing.
    assert_eq!(scheduler_warnings("round-robin", 1).len(), 1);
    assert_eq!(scheduler_warnings("round-robin", 0).len(), 1);
    assert_eq!(
        scheduler_warnings("round-robin", 3)[1],
        "round-robin gives all backends with a weight the same share; use weighted-round-robin, least-connections, maglev, source-hash or least-latency"
    );
}

/// Another service with the first one's backend, of this port and backend's port.
fn sharing(port: &str, backend_port: &str, protocol: &str, mode: &str) -> Vec<String> {
    let more = format!(
        "{BASE}\n[[service]]\nname = \"twin\"\nvip = \"10.71.0.101\"\nport = {port}\nprotocol = \"{protocol}\"\n{mode}\n[[service.backend]]\naddress = \"10.72.0.11\"\n{backend_port}\n"
    );
    let config = Config::parse(&more, "lab.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let all = config.warnings();
    all.iter().filter(|own| own.key == "service.twin.backend").map(|own| own.text.clone()).collect()
}

#[test]
fn services_with_the_same_backend_are_named() {
    for (port, backend_port, last) in [("80", "port = 8080", "twin"), ("\"any\"", "", "twin")] {
        let found = sharing(port, backend_port, "tcp", "");
        assert_eq!(found.len(), 1, "{port}");
        assert!(found[0].starts_with("service 'web' has the backend 10.72.0.11"), "{found:?}");
        assert!(found[0].contains(&format!("({last} the last)")), "{found:?}");
    }
    assert!(sharing("80", "port = 8081", "tcp", "").is_empty(), "another port");
    assert!(sharing("80", "port = 8080", "udp", "").is_empty(), "another protocol");
    let full = "mode = \"fullnat\"\npool = \"snat\"";
    assert!(sharing("80", "port = 8080", "tcp", full).is_empty(), "answers go to the pool");
}

/// The line and column of a warning are those of the key that it names, or of what
/// the key would be in.
#[test]
fn warnings_say_where_they_belong() {
    let text = BASE.replacen("weight = 1", "weight = 0", 1);
    let (_, all) = Config::parse_with_warnings(&text, "lab.toml").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let drained = all.iter().find(|own| own.key == "service.web.backend").unwrap();
    assert_eq!(lines[drained.line - 1], "[[service.backend]]");
    let unused = all.iter().find(|own| own.to_string().contains(UNUSED)).unwrap();
    assert!(lines[unused.line - 1].starts_with("[[pool]]"), "{unused}");
    assert!(unused.to_string().starts_with(&format!("lab.toml:{}:", unused.line)));
    // A key that is not written belongs to its section.
    let text = text.replacen("weight = 0", "weight = 1", 1).replacen(
        "[workers]",
        "[offload]\nencoding = \"queue\"\n[workers]",
        1,
    );
    let (_, all) = Config::parse_with_warnings(&text, "lab.toml").unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for own in &all {
        let last = own.key.rsplit('.').next().unwrap();
        let (line, section) = (lines[own.line - 1], lines[own.line - 1].starts_with('['));
        assert!(section || line.starts_with(last), "{own}: {line}");
    }
    let sorted = all.windows(2).all(|pair| pair[0].line <= pair[1].line);
    assert!(sorted && !all.is_empty());
}
