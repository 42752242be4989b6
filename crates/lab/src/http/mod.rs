//! The L7 agent with real clients and servers: curl, wrk, h2load, ab, openssl and a browser,
//! nginx behind HNLB. Bodies must arrive byte for byte in both directions, over a good link and over one that
//! loses, repeats, delays and reorders; each request must reach a backend of its route.

mod checks;
mod clients;
mod downloads;
mod logged;
pub(crate) mod parity;
mod proxied;
mod slow;

use std::path::Path;

use flow::Encoding;

use crate::config::LabRun;
use crate::faulty::{Faults, FaultyLink, Tally};
use crate::topology::{BACKENDS, CLIENTS, Family, Host, WEB_BACKEND_PORT, WEB_PORT, vip};
use crate::{Balancer, Lab, LabError, LabOptions, Stop, host};

pub(crate) use downloads::Wanted as Downloads;
pub(crate) use slow::Wanted as Slow;

/// What the links of the first client and of two backends do in the second part, in both
/// directions.
const FAULTS: Faults = Faults { lost: 5, repeated: 5, late: 20, delay_us: 500, late_us: 2_000 };

/// The clients, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 5] = [
    ("curl", "curl"),
    ("wrk", "wrk"),
    ("openssl", "openssl"),
    ("h2load", "nghttp2-client"),
    ("ab", "apache2-utils"),
];

/// What is wanted of a run.
pub(crate) struct Wanted {
    /// Bodies of 1 GiB, and more requests.
    pub(crate) long: bool,
    /// Nothing but bodies over bad links, but longer ones.
    pub(crate) faulty: bool,
    /// What happens on the bad links.
    pub(crate) seed: u64,
    /// Nothing but the same requests through HAProxy and through HNLB.
    pub(crate) compare: bool,
    /// Nothing but slow clients and a flood beside real ones.
    pub(crate) slow: Option<slow::Wanted>,
    /// Nothing but long downloads, of which the card carries what it can.
    pub(crate) downloads: Option<downloads::Wanted>,
}

/// Runs HNLB's program at `binary` and prints a line for each check. True if all passed.
///
/// # Errors
/// If the lab cannot be set up, HNLB doesn't start or ends, or the stop is requested.
/// The lab is gone in any case.
pub(crate) fn run(binary: &Path, stop: &Stop, wanted: &Wanted) -> Result<bool, LabError> {
    if wanted.compare {
        return parity::run(binary, stop);
    }
    if let Some(wanted) = wanted.slow {
        return slow::run(binary, stop, wanted);
    }
    if let Some(wanted) = wanted.downloads {
        return downloads::run(binary, stop, wanted);
    }
    for (program, package) in PROGRAMS {
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
    let log = format!("\n[access_log]\nfile = \"{}\"\n", logged::path(&lab).display());
    let balancer = Balancer::start_with(&mut lab, binary, "hnlb-http", how.device, |socket| {
        let own = |family| service(family) + &checks::tls::service(family);
        how.base(socket)
            + &own(Family::V4)
            + &own(Family::V6)
            + &sticky()
            + &proxied::services()
            + &log
    })?;
    checks::tls::start(&mut lab)?;
    let mut run = checks::Run::new(&lab, &balancer, wanted)?;
    if !wanted.faulty {
        run.all("good link")?;
        run.clients("good link", MANY)?;
        run.browser()?;
        run.tls()?;
    }
    bad_link(&lab, &mut run, wanted.seed)?;
    run.refusals()?;
    run.tls_refusal()?;
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

/// Whose links are bad in the second part.
const BAD: [&Host; 3] = [&CLIENTS[0], &BACKENDS[1], &BACKENDS[3]];

/// Requests of h2load and ab over good links, and over bad ones.
const MANY: usize = 2_000;
const FEW: usize = 200;

/// Bad links of the client, and of two backends.
fn bad_links(lab: &Lab, seed: u64) -> Result<Vec<FaultyLink>, LabError> {
    BAD.into_iter()
        .zip(seed..)
        .map(|(host, seed)| FaultyLink::insert(lab, host, FAULTS, seed))
        .collect()
}

/// Moves bodies over bad links of the client, and of the backends that send and store
/// them.
fn bad_link(lab: &Lab, run: &mut checks::Run<'_>, seed: u64) -> Result<(), LabError> {
    let links = bad_links(lab, seed)?;
    run.bodies("bad link")?;
    run.tls_body("bad link")?;
    run.clients("bad link", FEW)?;
    for (host, link) in BAD.iter().zip(links) {
        let [out, back] = link.remove(lab)?;
        for (way, tally) in [("from", out), ("to", back)] {
            let Tally { sent, lost, repeated, late } = tally;
            println!(
                "        {way} {}: {sent} frames, {lost} lost, {repeated} repeated, {late} late",
                host.name
            );
        }
    }
    Ok(())
}

/// The port of the service whose clients stay at their backends by a cookie.
const STICKY_PORT: u16 = 8081;

/// A service of all backends, of which each request gets the next one if it has no cookie.
fn sticky() -> String {
    let mut text = format!(
        "\n[[service]]\nname = \"sticky\"\nvip = \"{}\"\nport = {STICKY_PORT}\n\
         protocol = \"http\"\nscheduler = \"round-robin\"\nrebalance = \"per-request\"\n\
         sticky = {{ cookie = \"at\", key = \"000102030405060708090a0b0c0d0e0f\", \
         same_site = \"strict\", max_age = \"1h\" }}\n",
        vip(Family::V4)
    );
    for own in &BACKENDS {
        let address = own.address(Family::V4);
        text +=
            &format!("[[service.backend]]\naddress = \"{address}\"\nport = {WEB_BACKEND_PORT}\n");
    }
    text
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
    // Only one of the two, so that responses pass as they are in the other.
    if family == Family::V4 {
        text += "response_headers = { set = [\"Strict-Transport-Security: max-age=60\"], \
                 add = [\"Vary: Origin\"], remove = [\"Server\"] }\n\
                 request_headers = { set = [\"X-Forwarded-Proto: https\"] }\n";
    }
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
