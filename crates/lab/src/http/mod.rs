//! The L7 agent with real clients and servers: curl and wrk, nginx behind HNLB. Bodies
//! must arrive byte for byte in both directions, over a good link and over one that
//! loses, repeats, delays and reorders; each request must reach a backend of its route.

mod checks;

use std::path::Path;

use flow::Encoding;

use crate::config::LabRun;
use crate::topology::{BACKENDS, Family, WEB_BACKEND_PORT, WEB_PORT, vip};
use crate::{Balancer, Lab, LabError, LabOptions, Stop, host};

/// What the clients' link does in the second part, in both directions.
const FAULTS: &str = "delay 2ms 1ms loss 1% duplicate 0.5% reorder 5% 25%";

/// Runs HNLB's program at `binary` and prints a line for each check. True if all passed.
///
/// # Errors
/// If the lab cannot be set up, HNLB doesn't start or ends, or the stop is requested.
/// The lab is gone in any case.
pub(crate) fn run(binary: &Path, stop: &Stop, long: bool) -> Result<bool, LabError> {
    for (program, package) in [("curl", "curl"), ("wrk", "wrk"), ("tc", "iproute2")] {
        if !host::has(program) {
            return Err(LabError::Unavailable(format!(
                "{program} not found; `make deps` installs it (Debian: apt-get install {package})"
            )));
        }
    }
    eprintln!("http: setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    // Two, so that packets come in at a worker that has not their connection.
    let how = LabRun { workers: 2, ..LabRun::emulated(Encoding::Mark) };
    let balancer = Balancer::start_with(&mut lab, binary, "hnlb-http", how.device, |socket| {
        how.base(socket) + &service(Family::V4) + &service(Family::V6)
    })?;
    let mut run = checks::Run::new(&lab, &balancer, long)?;
    run.all("good link")?;
    if netem(&lab, &format!("add dev eth0 root netem {FAULTS}"))? {
        run.bodies("bad link")?;
        netem(&lab, "del dev eth0 root")?;
    } else {
        println!("skipped bad link: this kernel has no netem (CONFIG_NET_SCH_NETEM)");
    }
    run.refusals()?;
    let failures = run.failures();
    balancer.check(&mut lab)?;
    let ended = balancer.end(&mut lab);
    lab.down()?;
    if !ended {
        println!("FAILED  hnlb had to be killed, it did not end on SIGTERM");
    }
    if failures == 0 && ended {
        println!("nothing failed");
    }
    Ok(failures == 0 && ended)
}

/// The web service of one family: requests for `a.lab` go to b1, those below `/up` of any
/// host to b2, those with a cookie to b3, and all others to b4; those for `old.lab` are redirected, and those below `/closed` get a page.
fn service(family: Family) -> String {
    let digit = if family == Family::V4 { 4 } else { 6 };
    let mut text = format!(
        "\n[[service]]\nname = \"web{digit}\"\nvip = \"{}\"\nport = {WEB_PORT}\n\
         protocol = \"http\"\nscheduler = \"round-robin\"\n",
        vip(family)
    );
    for (condition, group) in
        [("host = \"a.lab\"", "a"), ("path = \"/up\"", "up"), ("cookie = \"c=3\"", "cookie")]
    {
        text += &format!("[[service.route]]\n{condition}\ngroup = \"{group}\"\n");
    }
    text += "[[service.route]]\nhost = \"old.lab\"\n\
             redirect = { location = \"https://new-{host}{path}{query}\", status = 308 }\n\
             [[service.route]]\npath = \"/closed\"\n\
             maintenance = { text = \"<p>back soon</p>\", retry_after = \"2m\" }\n";
    for (own, group) in BACKENDS.iter().zip([Some("a"), Some("up"), Some("cookie"), None]) {
        let address = own.address(family);
        text +=
            &format!("[[service.backend]]\naddress = \"{address}\"\nport = {WEB_BACKEND_PORT}\n");
        if let Some(group) = group {
            text += &format!("group = \"{group}\"\n");
        }
    }
    text
}

/// Changes what the links of the first client and of the backend of uploads do to what
/// they send. False: the kernel has no netem.
fn netem(lab: &Lab, words: &str) -> Result<bool, LabError> {
    for name in ["c1", "b2"] {
        let output = lab.exec(name, &["sh", "-c", &format!("tc qdisc {words}")])?;
        if output.stderr.contains("qdisc kind is unknown") {
            return Ok(false);
        }
        output.success()?;
    }
    Ok(true)
}
