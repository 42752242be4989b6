//! The metrics are OpenMetrics, and what alerts and the dashboard ask for is there.
use std::collections::BTreeSet;

use status::{
    AnnounceStatus, AnnouncedVip, AnswersBelow, AutoscalingStatus, BackendStatus, FirstAnswers,
    HealthStatus, PortStatus, RequestsStatus, ServiceStatus, WorkerStatus,
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
                let quotes = labels.replace("\\\\", "").replace("\\\"", "").matches('"').count();
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
        format!("hnlb_service_status_codes_total{{{service},by=\"backend\",code=\"404\"}} 39\n"),
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
        include_str!("../../../../contrib/alerts.yml"),
        include_str!("../../../../contrib/grafana.json"),
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
