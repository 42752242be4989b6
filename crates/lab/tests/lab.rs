//! The lab by itself: what it sets up works, and nothing of it stays.
//!
//! Needs root and the lab's programs; without them each test is skipped and
//! says so.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flow::Encoding;
use lab::Column;
use lab::compare::{self, Contender};
use lab::load::{self, Connections, HttpLoad, Length};
use lab::topology::{Family, NAMESPACES, vip};
use lab::{Balancer, Lab, LabError, LabOptions, LabRun};

/// Says that a test does not run, past the test harness, which would keep the
/// words of a test that passes to itself.
fn say_skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}

/// Whether the test can run; says why not.
fn possible() -> bool {
    let reason = lab::unavailable();
    if let Some(reason) = &reason {
        say_skipped(&reason.to_string());
    }
    reason.is_none()
}

fn options(name: &str) -> LabOptions {
    let name = format!("{name}{}", std::process::id() % 100_000);
    LabOptions { name: Some(name), ..LabOptions::default() }
}

fn standin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin/hnlb")
}

/// Namespaces of the lab, processes that mention its run directory.
fn remains(name: &str) -> Vec<String> {
    let mut found: Vec<String> = NAMESPACES
        .iter()
        .map(|host| format!("/run/netns/hnlb-{name}-{host}"))
        .filter(|path| Path::new(path).exists())
        .collect();
    let dir = format!("/run/hnlb-lab/{name}/");
    if Path::new(&dir).exists() {
        found.push(dir.clone());
    }
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&dir) {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

#[test]
fn servers_answer_and_everything_goes_with_the_lab() {
    if !possible() {
        return;
    }
    let lab = Lab::up(options("up")).unwrap();
    let name = lab.name().to_owned();
    assert_eq!(lab.status().namespaces.len(), NAMESPACES.len());
    for (host, v4, v6) in [("b1", "10.72.0.11", "fd72::11"), ("b4", "10.72.0.14", "fd72::14")] {
        for url in [format!("http://{v4}:8080/"), format!("http://[{v6}]:8080/")] {
            // From a neighbour on the same subnet: through the switch.
            let argv = ["curl", "-sSfg", "-m", "10", &url];
            assert_eq!(lab.exec("b2", &argv).unwrap().success().unwrap().stdout.trim(), host);
        }
        for server in [format!("@{v4}"), format!("@{v6}")] {
            let argv = ["dig", "+short", "-p", "5353", &server, "who.lab", "TXT"];
            let answer = lab.exec("b2", &argv).unwrap().success().unwrap().stdout;
            assert_eq!(answer.trim(), format!("\"{host}\""));
        }
    }
    let again = Lab::up(LabOptions { name: Some(name.clone()), ..LabOptions::default() });
    assert!(matches!(again, Err(LabError::Exists { .. })));
    assert!(remains(&name).len() > NAMESPACES.len(), "the check for remains sees a standing lab");
    lab.down().unwrap();
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn a_failure_half_way_leaves_nothing() {
    if !possible() {
        return;
    }
    let options = options("half");
    let name = options.name.clone().unwrap();
    // A file where the third backend's directory should be: the servers of
    // two backends run by then.
    let dir = Path::new("/run/hnlb-lab").join(&name);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("b3"), "in the way").unwrap();
    let error = Lab::up(options).unwrap_err();
    assert!(error.to_string().contains("b3"), "{error}");
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn a_wish_to_stop_takes_the_lab_down() {
    if !possible() {
        return;
    }
    let options = options("stop");
    let name = options.name.clone().unwrap();
    let stop = options.stop.clone();
    let lab = Lab::up(options).unwrap();
    stop.request();
    assert!(matches!(lab.exec("c1", &["sleep", "1000"]), Err(LabError::Interrupted)));
    drop(lab);
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn remains_of_a_crash_are_cleaned_and_living_labs_are_not() {
    if !possible() {
        return;
    }
    let crashed = Lab::up(options("crash")).unwrap();
    let (name, file) = (crashed.name().to_owned(), crashed.dir().join("state.json"));
    // What a crash leaves: no drop, and an owner that is no more.
    std::mem::forget(crashed);
    let mut state: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    state["owner"]["started"] = 1.into();
    let living = Lab::up(options("living")).unwrap();
    std::fs::write(&file, state.to_string()).unwrap();
    let next = Lab::up(options("next")).unwrap();
    assert_eq!(remains(&name), Vec::<String>::new());
    assert_eq!(living.status().namespaces.len(), NAMESPACES.len());
    assert!(living.status().processes.iter().all(|(_, pid)| pid.is_some()));
    drop((living, next));
}

#[test]
fn another_process_takes_a_kept_lab_down() {
    if !possible() {
        return;
    }
    let lab = Lab::up(LabOptions { keep: true, ..options("keep") }).unwrap();
    let name = lab.name().to_owned();
    drop(lab);
    assert!(remains(&name).len() > NAMESPACES.len(), "kept");
    Lab::attach(&name, lab::Stop::default()).unwrap().down().unwrap();
    assert_eq!(remains(&name), Vec::<String>::new());
    let gone = Lab::attach(&name, lab::Stop::default());
    assert!(matches!(gone, Err(LabError::Absent { .. })));
}

#[test]
fn clients_are_served_through_a_balancer() {
    let nft = Path::new("/usr/sbin/nft").exists();
    if !possible() {
        return;
    }
    if !nft {
        say_skipped("the stand-in balancer needs nft (Debian: apt-get install nftables)");
        return;
    }
    let mut lab = Lab::up(options("load")).unwrap();
    let name = lab.name().to_owned();
    let run = LabRun::emulated(Encoding::Mark);
    let balancer = Balancer::start(&mut lab, &standin(), &run).unwrap();
    for (client, family) in [("c1", Family::V4), ("c2", Family::V6)] {
        let vip = vip(family);
        for connections in [Connections::KeepAlive, Connections::Short] {
            let result = HttpLoad::of(1, 8, connections).run(&lab, client, vip).unwrap();
            assert_eq!(result.failed, 0, "{result:?}");
            assert_eq!(result.backends.len(), 4, "{result:?}");
            // wrk counts an answer before the script sees it, so that the
            // last ones may miss here.
            let counted: u64 = result.backends.values().sum();
            assert!(counted > 0 && counted <= result.requests + 8, "{result:?}");
        }
        let dns = load::dns(&lab, client, vip, Length::Seconds(1), 4, None).unwrap();
        assert_eq!((dns.failed(), dns.sent), (0, dns.completed), "{dns:?}");
        assert!(dns.completed > 0);
        let mut answered: Vec<String> =
            (0..4).map(|_| load::who(&lab, client, vip).unwrap()).collect();
        answered.sort();
        assert_eq!(answered, ["b1", "b2", "b3", "b4"], "round robin by the stand-in");
        let same = load::get_keep_alive(&lab, client, vip, 5).unwrap();
        assert!(same.len() == 5 && same.windows(2).all(|pair| pair[0] == pair[1]), "{same:?}");
        assert!(load::download(&lab, client, vip, Some("8M")).unwrap().starts_with('b'));
    }
    assert_eq!(balancer.status(&lab).unwrap().nic.capacity, 2048);
    assert!(balancer.end(&mut lab), "the stand-in ends on SIGTERM");
    assert!(load::get(&lab, "c1", vip(Family::V4)).is_err(), "nobody answers for the VIP now");
    lab.down().unwrap();
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn a_balancer_that_does_not_start_is_an_error_with_its_log() {
    if !possible() {
        return;
    }
    let mut lab = Lab::up(options("bad")).unwrap();
    let run = LabRun::emulated(Encoding::Off);
    let error = Balancer::start(&mut lab, Path::new("/bin/false"), &run).unwrap_err();
    assert!(matches!(error, LabError::BalancerEnded { .. }), "{error}");
}

#[test]
fn others_are_compared_in_one_lab_and_nothing_of_them_stays() {
    let tools = ["/usr/sbin/nft", "/usr/sbin/haproxy"];
    if !possible() {
        return;
    }
    if let Some(missing) = tools.iter().find(|tool| !Path::new(tool).exists()) {
        eprintln!("skipped: {missing} not found (Debian: apt-get install nftables haproxy)");
        return;
    }
    // Labs without a name get one that starts with the pid.
    let pid = format!("{:x}-", std::process::id());
    let starts = [format!("hnlb-{pid}"), pid];
    let left = || {
        let entries = ["/run/netns", "/run/hnlb-lab"].into_iter().map(std::fs::read_dir);
        let names = entries.flatten().flatten().flatten().map(|entry| entry.file_name());
        names
            .filter(|name| starts.iter().any(|start| name.to_string_lossy().starts_with(start)))
            .collect::<Vec<_>>()
    };
    let options = |contenders: &[Contender]| compare::Options {
        contenders: contenders.to_vec(),
        seconds: 1,
        rounds: 1,
        json: true,
    };
    let all =
        [Contender::Routed, Contender::Nftables, Contender::Haproxy, Contender::Hnlb(Column::Mark)];
    // True: every request was answered, by each in turn in the same lab.
    assert!(compare::run(&standin(), &lab::Stop::default(), &options(&all)).unwrap());
    assert!(left().is_empty(), "{:?}", left());

    let stop = lab::Stop::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // In the midst of it: haproxy runs, and the load on it begins.
            let loaded =
                |name: &OsString| Path::new("/run/hnlb-lab").join(name).join("wrk.lua").exists();
            while !left().iter().any(loaded) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            stop.request();
        });
        let stopped = compare::run(&standin(), &stop, &options(&[Contender::Haproxy]));
        assert!(matches!(stopped, Err(LabError::Interrupted)), "{stopped:?}");
    });
    assert!(left().is_empty(), "{:?}", left());
}
