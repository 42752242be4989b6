//! The status as metrics.
use std::collections::BTreeMap;

use state::{Counter, CounterKind};
use status::{AutoscalingStatus, PortStatus, Status};

use crate::open_metrics::{Kind, OpenMetrics};
use crate::service_metrics;

/// The metrics of `status` in the format OpenMetrics.
pub(crate) fn render(status: &Status) -> String {
    let mut text = OpenMetrics::default();
    general(&mut text, status);
    workers(&mut text, status);
    ports(&mut text, &status.ports);
    nic(&mut text, status);
    connections(&mut text, status);
    announced(&mut text, status);
    service_metrics::services(&mut text, status);
    text.end()
}

fn general(text: &mut OpenMetrics, status: &Status) {
    text.family(("hnlb_build", Kind::Info), None, "The program.")
        .sample(&[("version", &status.version)], 1.0);
    text.family(
        ("hnlb_ready", Kind::Gauge),
        None,
        "1 if every port runs and every backend's next hop has answered.",
    )
    .sample(&[], status.ready.into());
    text.family(
        ("hnlb_uptime_seconds", Kind::Gauge),
        Some("seconds"),
        "Since the workers started.",
    )
    .sample(&[], status.uptime_seconds);
    text.family(
        ("hnlb_rules_busy_seconds", Kind::Gauge),
        Some("seconds"),
        "For how long a driver has kept the thread that makes rules.",
    )
    .sample(&[], status.rules_busy_ms as f64 / 1000.0);
}

/// Which VIPs routers are told of; nothing without `[announce]`.
fn announced(text: &mut OpenMetrics, status: &Status) {
    let Some(announce) = &status.announce else { return };
    let mut vips =
        text.family(("hnlb_vip_announced", Kind::Gauge), None, "1 if routers are told of the VIP.");
    for own in &announce.vips {
        vips.sample(&[("vip", &own.vip)], own.announced.into());
    }
    text.family(
        ("hnlb_announce_failing", Kind::Gauge),
        None,
        "1 if the kernel refused a route of an announced VIP at the last attempt.",
    )
    .sample(&[], (!announce.error.is_empty()).into());
}

/// Counters of workers: the family's name, its label, its sentence, and which kinds of
/// counters are in it.
type OfWorker = (&'static str, &'static str, &'static str, fn(CounterKind) -> bool);

fn workers(text: &mut OpenMetrics, status: &Status) {
    let names: Vec<String> = status.workers.iter().map(|own| own.worker.to_string()).collect();
    let workers = || names.iter().zip(&status.workers);
    let mut util = text.family(
        ("hnlb_worker_utilization_ratio", Kind::Gauge),
        Some("ratio"),
        "util over the last second: the part of the cycles spent on packets.",
    );
    for (name, own) in workers() {
        util.sample(&[("worker", name)], own.util);
    }
    let mut util = text.family(
        ("hnlb_worker_utilization_plus_ratio", Kind::Gauge),
        Some("ratio"),
        "util+ over the last second (HNLB paper, section IV), which grows with the load.",
    );
    for (name, own) in workers() {
        util.sample(&[("worker", name)], own.util_plus);
    }
    let busiest = status.workers.iter().map(|own| own.util_plus).fold(0.0, f64::max);
    text.family(
        ("hnlb_headroom_ratio", Kind::Gauge),
        Some("ratio"),
        "1 minus util+ of the busiest worker: the load that can still come.",
    )
    .sample(&[], 1.0 - busiest);
    let AutoscalingStatus { peak, scale_out, .. } = &status.autoscaling;
    text.family(
        ("hnlb_load_peak_ratio", Kind::Gauge),
        Some("ratio"),
        "The highest util+ of the busiest worker in the last minute.",
    )
    .sample(&[], *peak);
    text.family(
        ("hnlb_scale_out", Kind::Gauge),
        None,
        "1 from a peak of 0.8 on until it is below 0.6: another load balancer is needed.",
    )
    .sample(&[], (*scale_out).into());
    let mut cycles = text.family(
        ("hnlb_worker_cycles", Kind::Counter),
        None,
        "Cycles of a worker's loop: all, and those that found packets.",
    );
    for (name, own) in workers() {
        cycles.sample(&[("worker", name), ("kind", "all")], own.totals.ref_cycles as f64);
        cycles.sample(&[("worker", name), ("kind", "busy")], own.totals.ops_cycles as f64);
    }
    let mut naps = text.family(
        ("hnlb_worker_naps", Kind::Counter),
        None,
        "Times that a worker has slept because nothing came.",
    );
    for (name, own) in workers() {
        naps.sample(&[("worker", name)], own.naps as f64);
    }
    let mut slept = text.family(
        ("hnlb_worker_slept_seconds", Kind::Counter),
        Some("seconds"),
        "Time that a worker has slept because nothing came.",
    );
    for (name, own) in workers() {
        slept.sample(&[("worker", name)], own.slept_ms as f64 / 1000.0);
    }
    let mut buckets = text.family(
        ("hnlb_worker_buckets", Kind::Gauge),
        None,
        "Entries of the ports' redirection tables that name a worker's queues; 0 if no table is balanced.",
    );
    for (name, own) in workers() {
        buckets.sample(&[("worker", name)], own.buckets as f64);
    }
    by_name(
        text,
        ("hnlb_balance_moves", Kind::Counter),
        "result",
        "Moves of redirection table entries between workers, by what became of them.",
        &status.balance.counters,
    );
    let families: [OfWorker; 3] = [
        (
            "hnlb_worker_packets",
            "fate",
            "Packets by what became of them; received are all others together.",
            |kind| {
                use CounterKind::{Dropped, Held, Info, Level};
                !matches!(kind, Dropped | Info | Held | Level)
            },
        ),
        ("hnlb_worker_drops", "reason", "Packets dropped, by reason.", |kind| {
            kind == CounterKind::Dropped
        }),
        ("hnlb_worker_events", "event", "What happened to packets and connections.", |kind| {
            kind == CounterKind::Info
        }),
    ];
    let levels: OfWorker = (
        "hnlb_worker_level",
        "of",
        "What a worker has at present: packets that wait, and what the L7 agent keeps.",
        |kind| matches!(kind, CounterKind::Held | CounterKind::Level),
    );
    let families = families.map(|family| (family, Kind::Counter));
    for ((family, label, help, is_of), kind) in families.into_iter().chain([(levels, Kind::Gauge)])
    {
        let mut family = text.family((family, kind), None, help);
        let counters = Counter::ALL.iter().filter(|counter| is_of(counter.kind()));
        for counter in counters.map(|counter| counter.name()) {
            for (name, own) in workers() {
                let value = own.counters.get(counter).copied().unwrap_or_default();
                family.sample(&[("worker", name), (label, counter)], value as f64);
            }
        }
    }
}

fn ports(text: &mut OpenMetrics, ports: &[PortStatus]) {
    let mut up = text.family(("hnlb_port_up", Kind::Gauge), None, "1 if the link is up.");
    for port in ports {
        up.sample(&[("port", &port.name)], port.link_up.into());
    }
    let mut info =
        text.family(("hnlb_port", Kind::Info), None, "A port's device, driver and encoding.");
    for port in ports {
        let PortStatus { name, device, driver, encoding, .. } = port;
        let labels =
            [("port", name), ("device", device), ("driver", driver), ("encoding", encoding)];
        info.sample(&labels.map(|(label, value)| (label, value.as_str())), 1.0);
    }
    let mut packets =
        text.family(("hnlb_port_packets", Kind::Counter), None, "Packets at the device.");
    for port in ports {
        for (direction, counter) in [
            ("receive", "rx_packets"),
            ("transmit", "tx_packets"),
            ("past_workers", "past_workers"),
        ] {
            let value = count(&port.counters, counter);
            packets.sample(&[("port", &port.name), ("direction", direction)], value);
        }
    }
    let mut bytes =
        text.family(("hnlb_port_bytes", Kind::Counter), Some("bytes"), "Bytes at the device.");
    for port in ports {
        for (direction, counter) in [("receive", "rx_bytes"), ("transmit", "tx_bytes")] {
            let value = count(&port.counters, counter);
            bytes.sample(&[("port", &port.name), ("direction", direction)], value);
        }
    }
    let mut errors = text.family(
        ("hnlb_port_errors", Kind::Counter),
        None,
        "Packets that the device lost, by reason.",
    );
    for port in ports {
        for reason in ["rx_missed", "rx_errors", "rx_no_mbuf", "tx_errors"] {
            let value = count(&port.counters, reason);
            errors.sample(&[("port", &port.name), ("reason", reason)], value);
        }
    }
}

fn nic(text: &mut OpenMetrics, status: &Status) {
    let nic = &status.nic;
    text.family(("hnlb_nic_rules", Kind::Gauge), None, "Rules in the match tables of all ports.")
        .sample(&[], nic.rules as f64);
    text.family(
        ("hnlb_nic_rules_limit", Kind::Gauge),
        None,
        "Rules that the match tables hold; 0 if no driver tells.",
    )
    .sample(&[], nic.capacity as f64);
    text.family(
        ("hnlb_nic_packets", Kind::Counter),
        None,
        "Packets by what the match table did; only an emulated NIC tells of matched and missed.",
    )
    .sample(&[("result", "matched")], nic.matched as f64)
    .sample(&[("result", "missed")], nic.missed as f64)
    .sample(&[("result", "forwarded")], nic.forwarded as f64);
    text.family(
        ("hnlb_nic_forwarded_bytes", Kind::Counter),
        Some("bytes"),
        "Bytes of packets that the NIC rewrote and sent on, past the workers.",
    )
    .sample(&[], nic.forwarded_bytes as f64);
    by_name(text, ("hnlb_nic_drops", Kind::Counter), "reason", "Packets dropped.", &nic.drops);
    by_name(
        text,
        ("hnlb_offload_state", Kind::Gauge),
        "name",
        "Counts of the life of rules, those that rise and those that fall.",
        &status.offload,
    );
    let admission = &status.admission;
    by_name(
        text,
        ("hnlb_admission_events", Kind::Counter),
        "event",
        "What became of candidates for a rule.",
        &admission.counters,
    );
    text.family(
        ("hnlb_admission_held", Kind::Gauge),
        None,
        "Connections with an entry of the NIC.",
    )
    .sample(&[], admission.held as f64);
    text.family(
        ("hnlb_admission_matched_ratio", Kind::Gauge),
        Some("ratio"),
        "Of the sampled packets of the last second, the part of connections with an entry.",
    )
    .sample(&[], admission.share_matched);
    if let Some(nanoseconds) = admission.creation_ns {
        text.family(
            ("hnlb_rule_creation_seconds", Kind::Gauge),
            Some("seconds"),
            "What the creation of one rule takes on the slowest port.",
        )
        .sample(&[], nanoseconds as f64 / 1e9);
    }
}

fn connections(text: &mut OpenMetrics, status: &Status) {
    let own = &status.connections;
    text.family(("hnlb_connections", Kind::Gauge), None, "Connections in the table.")
        .sample(&[], own.active as f64);
    text.family(("hnlb_connections_limit", Kind::Gauge), None, "Connections that the table holds.")
        .sample(&[("family", "ipv4")], own.capacity as f64)
        .sample(&[("family", "ipv6")], own.capacity_v6 as f64);
    text.family(("hnlb_connections_created", Kind::Counter), None, "Connections ever installed.")
        .sample(&[], own.created as f64);
    text.family(
        ("hnlb_connection_table_bytes", Kind::Gauge),
        Some("bytes"),
        "Memory of the connection table.",
    )
    .sample(&[], own.memory_bytes as f64);
}

fn by_name(
    text: &mut OpenMetrics,
    family: (&'static str, Kind),
    label: &str,
    help: &str,
    counters: &BTreeMap<String, u64>,
) {
    let mut family = text.family(family, None, help);
    for (name, value) in counters {
        family.sample(&[(label, name)], *value as f64);
    }
}

fn count(counters: &BTreeMap<String, u64>, name: &str) -> f64 {
    counters.get(name).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use status::{
        AnnounceStatus, AnnouncedVip, AnswersBelow, AutoscalingStatus, BackendStatus, FirstAnswers,
        HealthStatus, RequestsStatus, ServiceStatus, WorkerStatus,
    };

    use super::*;

    fn whole(backends: u16) -> Status {
        let backend = |id| BackendStatus {
            id,
            generation: 1,
            address: format!("10.0.{}.{}:80", id >> 8, id & 255),
            first_answer_ms: Some(1.5),
            health: Some(HealthStatus {
                state: if id % 2 == 0 { "up" } else { "down" }.to_owned(),
                percent: 50,
                failed: 7,
                ..HealthStatus::default()
            }),
            ..BackendStatus::default()
        };
        let requests = RequestsStatus {
            responses: [1, 200, 3, 40, 5].into(),
            codes: [("404".to_owned(), 39), ("4xx".to_owned(), 1)].into(),
            own: [0, 0, 0, 6, 7].into(),
            own_codes: [("503".to_owned(), 7)].into(),
            first_bytes: FirstAnswers {
                count: 249,
                sum_ms: 500,
                below: vec![AnswersBelow { ms: 5, count: 248 }],
            },
        };
        let name = "a \"strange\" name\\".to_owned();
        let service = ServiceStatus {
            name,
            requests: Some(requests.clone()),
            backends: (0..backends).map(backend).collect(),
            first_answers: FirstAnswers {
                count: 9,
                sum_ms: 1500,
                below: vec![AnswersBelow { ms: 1, count: 4 }, AnswersBelow { ms: 1000, count: 8 }],
            },
            ..ServiceStatus::default()
        };
        let vip = |vip: &str, announced| AnnouncedVip {
            vip: vip.to_owned(),
            announced,
            ..AnnouncedVip::default()
        };
        let vips = vec![vip("10.0.0.100", true), vip("fd00::100", false)];
        let announce = Some(AnnounceStatus { vips, ..AnnounceStatus::default() });
        let names = |list: &[&str]| list.iter().map(|name| ((*name).to_owned(), 3)).collect();
        Status {
            announce,
            services: vec![service],
            workers: vec![WorkerStatus { util_plus: 0.25, ..WorkerStatus::default() }],
            ports: vec![PortStatus { name: "p0".to_owned(), ..PortStatus::default() }],
            offload: names(&["rules"]),
            autoscaling: AutoscalingStatus { peak: 0.5, ..AutoscalingStatus::default() },
            ..Status::default()
        }
    }

    #[test]
    fn vips_are_announced_or_not() {
        let text = render(&whole(1));
        for line in [
            "hnlb_vip_announced{vip=\"10.0.0.100\"} 1",
            "hnlb_vip_announced{vip=\"fd00::100\"} 0",
            "hnlb_announce_failing 0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}");
        }
        let without = render(&Status { announce: None, ..whole(1) });
        assert!(!without.contains("announce"));
    }

    /// The names of all families, of a text that is checked against the grammar of
    /// OpenMetrics 1.0 on the way.
    fn families(text: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let (mut family, mut suffix) = (String::new(), "");
        let lines = text.strip_suffix("# EOF\n").unwrap().lines();
        for line in lines {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "TYPE", name, kind] => {
                    assert!(names.insert(name.to_owned()), "twice: {name}");
                    name.clone_into(&mut family);
                    suffix = match kind {
                        "counter" => "_total",
                        "gauge" => "",
                        "info" => "_info",
                        // One of `_bucket`, `_count` and `_sum`, which `histograms` looks at.
                        "histogram" => "_",
                        _ => panic!("{line}"),
                    };
                }
                ["#", "UNIT", name, unit] => {
                    assert!(name == family && name.ends_with(&format!("_{unit}")), "{line}");
                }
                ["#", "HELP", name, help] => {
                    assert!(name == family && help.ends_with('.'), "{line}")
                }
                _ => {
                    let rest = line.strip_prefix(&format!("{family}{suffix}")).expect(line);
                    let parts = ["bucket", "count", "sum"];
                    let part = parts.iter().find_map(|part| rest.strip_prefix(part));
                    let rest = if suffix == "_" { part.expect(line) } else { rest };
                    let (labels, value) = rest.rsplit_once(' ').unwrap();
                    let quotes =
                        labels.replace("\\\\", "").replace("\\\"", "").matches('"').count();
                    assert_eq!(quotes % 2, 0, "{line}");
                    assert!(labels.is_empty() || labels.starts_with('{') && labels.ends_with('}'));
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                }
            }
        }
        names
    }

    #[test]
    fn the_text_is_open_metrics_and_has_every_backend() {
        let text = render(&whole(10_000));
        families(&text);
        assert_eq!(text.matches("hnlb_backend_weight{").count(), 10_000);
        assert!(text.contains("hnlb_headroom_ratio 0.75\n"));
        assert!(text.contains("hnlb_load_peak_ratio 0.5\n"));
        assert_eq!(text.matches("hnlb_backend_up{").count(), 10_000);
        assert!(text.contains("backend=\"10.0.0.1:80\"} 0\n"), "one that is down");
        assert!(text.contains("backend=\"10.0.0.1:80\",result=\"failed\"} 7\n"));
        assert!(text.contains("service=\"a \\\"strange\\\" name\\\\\""));
    }

    #[test]
    fn histograms_are_cumulative_and_end_in_all_there_are() {
        let text = render(&whole(1));
        let name = "hnlb_service_first_answer_seconds";
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
        let service = "service=\"a \\\"strange\\\" name\\\\\"";
        let expected = [
            format!("_bucket{{{service},le=\"0.001\"}} 4"),
            format!("_bucket{{{service},le=\"1.0\"}} 8"),
            format!("_bucket{{{service},le=\"+Inf\"}} 9"),
            format!("_count{{{service}}} 9"),
            format!("_sum{{{service}}} 1.5"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn responses_are_counted_by_class_and_by_who_gave_them() {
        let mut status = whole(1);
        let requests = status.services[0].requests.clone();
        status.services[0].backends[0].requests = requests;
        let text = render(&status);
        families(&text);
        let service = "service=\"a \\\"strange\\\" name\\\\\"";
        for line in [
            format!("hnlb_service_responses_total{{{service},by=\"backend\",class=\"2xx\"}} 200\n"),
            format!("hnlb_service_responses_total{{{service},by=\"hnlb\",class=\"5xx\"}} 7\n"),
            format!(
                "hnlb_service_status_codes_total{{{service},by=\"backend\",code=\"404\"}} 39\n"
            ),
            format!("hnlb_service_status_codes_total{{{service},by=\"hnlb\",code=\"503\"}} 7\n"),
            format!("hnlb_service_first_byte_seconds_sum{{{service}}} 0.5\n"),
            format!(
                "hnlb_backend_status_codes_total{{{service},backend=\"10.0.0.0:80\",id=\"0.1\",code=\"4xx\"}} 1\n"
            ),
            format!(
                "hnlb_backend_responses_total{{{service},backend=\"10.0.0.0:80\",id=\"0.1\",class=\"4xx\"}} 40\n"
            ),
            format!(
                "hnlb_backend_first_byte_seconds_bucket{{{service},backend=\"10.0.0.0:80\",id=\"0.1\",le=\"0.005\"}} 248\n"
            ),
        ] {
            assert!(text.contains(&line), "{line}");
        }
    }

    /// A rule or a panel about a metric that isn't there would stay silent.
    #[test]
    fn alerts_and_dashboard_name_metrics_that_there_are() {
        let known = families(&render(&whole(1)));
        let files = [
            include_str!("../../../contrib/alerts.yml"),
            include_str!("../../../contrib/grafana.json"),
        ];
        for text in files {
            let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let words = text.split(|letter| !is_of_name(letter));
            let mut seen = 0;
            for word in words.filter(|word| word.starts_with("hnlb_")) {
                let family = word.trim_end_matches("_total").trim_end_matches("_bucket");
                assert!(known.contains(family), "{word}");
                seen += 1;
            }
            assert!(seen > 5);
        }
        let dashboard: serde_json::Value = serde_json::from_str(files[1]).unwrap();
        assert!(dashboard["panels"].as_array().unwrap().len() > 5);
    }
}
