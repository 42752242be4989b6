//! HNLB on drivers of DPDK's own: the `queue` encoding on net_tap, whose rte_flow goes to
//! the kernel's tc flower, and receive side scaling on virtio-net. Runs where the kernel has
//! flower and the machine such a card, which `make test-vm` sees to.
mod virtio;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::config::LabRun;
use crate::flower::{self, Filter};
use crate::load::{self, Connections, HttpLoad, HttpResult};
use crate::topology::{Family, PORT, SWITCH, WEB_BACKEND_PORT, WEB_PORT, vip};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// Queues of the tap: the default queue, one for each of two backends, one
/// for their answers. More than 4 of each kind overflow a message in net_tap.
const QUEUES: u16 = 4;
/// How long the load lasts, in seconds; the machine may be an emulated one.
const SECONDS: u64 = 8;
/// How long rules may outlive their connections.
const RULES_GONE: Duration = Duration::from_secs(60);

/// Rules seen in the kernel while there was load: by handle, as last seen.
type Seen = BTreeMap<String, Filter>;

/// Runs the check with HNLB's program at `binary`; prints what it finds.
/// True if everything was as it should be.
///
/// # Errors
/// If the lab cannot be set up or HNLB doesn't run.
pub fn run(binary: &Path, stop: &Stop) -> Result<bool, LabError> {
    let options = LabOptions { veth: false, stop: stop.clone(), ..LabOptions::default() };
    let mut lab = Lab::up(options)?;
    println!("vm-check: lab up, starting hnlb on net_tap with {QUEUES} queues");
    let result = check(&mut lab, binary);
    if !matches!(result, Ok(true)) {
        let log = std::fs::read_to_string(lab.log("hnlb")).unwrap_or_default();
        println!("vm-check: hnlb's log:\n{log}");
    }
    lab.down()?;
    Ok(result? & virtio::run(binary, stop)?)
}

fn check(lab: &mut Lab, binary: &Path) -> Result<bool, LabError> {
    let balancer = Balancer::start(lab, binary, &LabRun::tap(QUEUES))?;
    let idle = filters(lab)?.len();
    let (http, seen) = load_and_watch(lab)?;
    let mut verdict = Verdict::default();
    served(&mut verdict, lab, &http);
    rules(&mut verdict, &seen);
    let gone = wait_gone(lab, idle)?;
    verdict.say(gone, "the driver deleted the rules of connections that ended");
    let status = balancer.status(lab)?;
    let kernel: u64 = seen.values().map(|filter| filter.packets).sum();
    let count = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let (by_queue, stale) = (count("matched_by_queue"), count("queue_stale"));
    // The kernel's counts are of the last look at each rule, so they are
    // rather too low; SYN, FIN and RST are looked up in any case.
    verdict.say(
        by_queue > 0 && by_queue * 10 >= kernel * 9,
        &format!(
            "packets arrive in the queue that their rule names: the kernel counted {kernel} \
             in the rules, hnlb took {by_queue} by their queue ({stale} stale)"
        ),
    );
    let some = |counters: &BTreeMap<String, u64>| {
        let shown = counters.iter().filter(|(_, count)| **count > 0);
        shown.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    println!("vm-check: rules: {}", some(&status.offload));
    println!("vm-check: counters: {}", some(&status.counters));
    balancer.check(lab)?;
    verdict.say(balancer.end(lab), "hnlb ends on SIGTERM");
    let left = lab.exec(SWITCH, &["ip", "link", "show", PORT])?.status.success();
    verdict.say(!left, "nothing is left of the tap device");
    Ok(verdict.close())
}

fn served(verdict: &mut Verdict, lab: &Lab, http: &HttpResult) {
    let all = http.failed == 0 && http.requests > 0;
    verdict.say(
        all && http.backends.len() == LabRun::tap(QUEUES).backends(),
        &format!(
            "{} requests served, {} failed ({:?}), by backend {:?}",
            http.requests, http.failed, http.errors, http.backends
        ),
    );
    let vip = vip(Family::V4);
    let same = load::get_keep_alive(lab, "c2", vip, 20);
    let one =
        same.as_ref().is_ok_and(|names| names.windows(2).all(|pair| pair.first() == pair.last()));
    verdict.say(one, &format!("20 requests on one connection reach one backend: {same:?}"));
    let big = load::download(lab, "c1", vip, None);
    verdict.say(big.is_ok(), &format!("a download of 1 MB is whole: {big:?}"));
}

fn rules(verdict: &mut Verdict, seen: &Seen) {
    let port = |key, port: u16| {
        let port = port.to_string();
        let same = move |filter: &&Filter| filter.key(key) == Some(&port);
        seen.values().filter(same).collect::<Vec<_>>()
    };
    let ways = [
        ("to the VIP", port("dst_port", WEB_PORT)),
        ("from backends", port("src_port", WEB_BACKEND_PORT)),
    ];
    for (way, filters) in ways {
        let packets: u64 = filters.iter().map(|filter| filter.packets).sum();
        let queues: Vec<u16> = filters.iter().filter_map(|filter| filter.queue).collect();
        let named = !queues.is_empty() && queues.iter().all(|q| (1..QUEUES).contains(q));
        verdict.say(
            named && packets > 0,
            &format!(
                "the driver took {} rules for connections {way}, queues {queues:?}, \
                 {packets} packets matched",
                filters.len()
            ),
        );
    }
}

/// Long connections, and meanwhile the kernel's view of the rules.
fn load_and_watch(lab: &Lab) -> Result<(HttpResult, Seen), LabError> {
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            HttpLoad::of(SECONDS, 8, Connections::KeepAlive).run(lab, "c1", vip(Family::V4))
        });
        let mut seen = Seen::new();
        while !load.is_finished() {
            lab.stop().sleep(Duration::from_millis(200))?;
            for filter in filters(lab)?.into_iter().filter(Filter::is_connection) {
                seen.insert(filter.handle.clone(), filter);
            }
        }
        let http = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((http, seen))
    })
}

/// Waits until there are no more filters than before the load.
fn wait_gone(lab: &Lab, idle: usize) -> Result<bool, LabError> {
    let deadline = Instant::now() + RULES_GONE;
    loop {
        let left = filters(lab)?.iter().filter(|filter| filter.is_connection()).count();
        if left == 0 && filters(lab)?.len() <= idle {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            println!("vm-check: {left} rules are left after {} s", RULES_GONE.as_secs());
            return Ok(false);
        }
        lab.stop().sleep(Duration::from_millis(500))?;
    }
}

fn filters(lab: &Lab) -> Result<Vec<Filter>, LabError> {
    let argv = ["tc", "-s", "filter", "show", "dev", PORT, "parent", "1:"];
    Ok(flower::parse(&lab.exec(SWITCH, &argv)?.success()?.stdout))
}

/// How many checks passed and failed so far.
#[derive(Default)]
struct Verdict {
    passed: u32,
    failed: u32,
}

impl Verdict {
    fn say(&mut self, fine: bool, what: &str) {
        println!("{} {what}", if fine { "ok    " } else { "FAILED" });
        *(if fine { &mut self.passed } else { &mut self.failed }) += 1;
    }

    fn close(&self) -> bool {
        println!("vm-check: {} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}
