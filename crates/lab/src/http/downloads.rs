//! Long downloads through the card: curl gets bodies byte for byte, and HNLB says which share
//! of their bytes the card has sent on.
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use flow::EncodingChoice;

use super::{bad_links, checks, service};
use crate::config::LabRun;
use crate::status::Status;
use crate::topology::{BACKENDS, CLIENTS, Family, vip};
use crate::{Balancer, Lab, LabError, LabOptions, Stop};

/// What is wanted of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// How the card is used.
    pub(crate) encoding: EncodingChoice,
    /// Bytes of a body.
    pub(crate) bytes: usize,
    /// What happens on the bad links.
    pub(crate) seed: u64,
}

/// How long one transfer may take; generous, for busy machines and bad links.
const TRANSFER: Duration = Duration::from_secs(300);
/// How long the last rule may take to go.
const SETTLED: Duration = Duration::from_secs(20);

/// The share of a good link's bytes that the card carries at least, in percent, if it
/// rewrites: the rule comes after the first bytes.
const LEAST: f64 = 50.0;

/// Whether a card can have a part of a scene's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    /// It should have most.
    Most,
    /// It can't have any.
    None,
    /// Nobody knows.
    Any,
}

/// Runs HNLB's program at `binary` and prints a line for each download. True if all passed.
///
/// # Errors
/// As [`super::run`].
pub(crate) fn run(binary: &Path, stop: &Stop, wanted: Wanted) -> Result<bool, LabError> {
    eprintln!("http: setting up the lab");
    let mut lab = Lab::up(LabOptions { stop: stop.clone(), ..LabOptions::default() })?;
    // One worker: each remembers clocks and window scales for itself.
    let how = LabRun::emulated(wanted.encoding);
    let balancer =
        Balancer::start_with(&mut lab, binary, "hnlb-downloads", how.device, |socket| {
            let own = |family| service(family) + &checks::tls::service(family);
            how.base(socket) + &own(Family::V4) + &own(Family::V6)
        })?;
    checks::tls::start(&mut lab)?;
    let mut scene = Scene::new(&lab, &balancer, wanted)?;
    scene.all()?;
    let failures = scene.failures;
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

struct Scene<'a> {
    lab: &'a Lab,
    balancer: &'a Balancer,
    wanted: Wanted,
    failures: usize,
}

/// What has gone to clients, and what of that the card has sent on.
#[derive(Clone, Copy, Default)]
struct Carried {
    bytes: u64,
    by_card: u64,
    packets_by_card: u64,
}

impl Carried {
    fn of(status: &Status) -> Self {
        let backends = status.services.iter().flat_map(|own| &own.backends);
        let count = |name: &str| status.offload.get(name).copied().unwrap_or(0);
        Self {
            bytes: backends.map(|own| own.traffic.bytes_to_client).sum(),
            by_card: count("spliced_bytes"),
            packets_by_card: count("spliced_packets"),
        }
    }
}

impl<'a> Scene<'a> {
    /// Writes the body.
    fn new(lab: &'a Lab, balancer: &'a Balancer, wanted: Wanted) -> Result<Self, LabError> {
        let scene = Self { lab, balancer, wanted, failures: 0 };
        let bytes: Vec<u8> = (0..).flat_map(u32::to_be_bytes).take(wanted.bytes).collect();
        let path = lab.dir().join("body");
        fs::write(&path, &bytes).map_err(LabError::io(format!("write {}", path.display())))?;
        for own in BACKENDS {
            let link = lab.dir().join(own.name).join("html").join("body");
            fs::hard_link(&path, &link)
                .map_err(LabError::io(format!("link {}", link.display())))?;
        }
        Ok(scene)
    }

    fn all(&mut self) -> Result<(), LabError> {
        use Share::{Any, Most, None};
        for family in [Family::V4, Family::V6] {
            let url = checks::url(family);
            let other = format!("-H Host:a.lab {url}/body");
            // The first response tells of the backend's clock.
            self.download(
                &format!("{family:?}: a client that is not known"),
                "c1",
                &[&other],
                None,
            )?;
            self.download(&format!("{family:?}: a new connection"), "c1", &[&other], Most)?;
            let three = [other.as_str(); 3];
            self.download(&format!("{family:?}: three in one connection"), "c1", &three, Most)?;
            let here = format!("{url}/body");
            let turns = [other.as_str(), &here, &other];
            self.download(&format!("{family:?}: two backends in turn"), "c1", &turns, Any)?;
        }
        let url = checks::url(Family::V4);
        let body = format!("{url}/body");
        let off = "sysctl -qw net.ipv4.tcp_timestamps=0";
        self.lab.exec(CLIENTS[1].name, &off.split(' ').collect::<Vec<_>>())?.success()?;
        self.download("no timestamps", "c2", &[&body], Most)?;
        let https = |version: &str| {
            let address = vip(Family::V4);
            format!("-k {version} --connect-to ::{address}:443 https://one.lab/body")
        };
        // The first connection of a service tells of the backend's window scale.
        self.download("TLS, a service that is not known", "c2", &[&https("--http1.1")], Any)?;
        self.download("TLS, HTTP/1.1", "c2", &[&https("--http1.1")], Most)?;
        self.download("TLS, HTTP/2", "c2", &[&https("--http2")], Most)?;
        let links = bad_links(self.lab, self.wanted.seed)?;
        self.download("bad link", "c1", &[&format!("-H Host:a.lab {body}")], Any)?;
        self.download("bad link, TLS", "c1", &[&https("--http1.1")], Any)?;
        links.into_iter().try_for_each(|link| link.remove(self.lab).map(|_| ()))
    }

    /// Moves the body as often as there are `urls`, in one connection at `client`.
    fn download(
        &mut self,
        what: &str,
        client: &str,
        urls: &[&str],
        share: Share,
    ) -> Result<(), LabError> {
        let before = self.settled()?;
        let dir = self.lab.dir();
        let parts: Vec<String> = urls
            .iter()
            .enumerate()
            .map(|(at, url)| format!("-sSg --max-time 280 -o {}/got{at} {url}", dir.display()))
            .collect();
        let same = (0..urls.len()).map(|at| {
            let dir = dir.display();
            format!(" && cmp {dir}/got{at} {dir}/body && rm {dir}/got{at}")
        });
        let script =
            format!("exec 2>&1; curl {}{}", parts.join(" --next "), same.collect::<String>());
        let began = Instant::now();
        let output = self.lab.exec_for(client, &["sh", "-c", &script], TRANSFER)?;
        let seconds = began.elapsed().as_secs_f64();
        if let Err(error) = output.success() {
            self.failures += 1;
            println!("FAILED  {what}: {error}");
            return Ok(());
        }
        let after = self.settled()?;
        let bytes = after.bytes - before.bytes;
        let by_card = after.by_card - before.by_card;
        let packets = after.packets_by_card - before.packets_by_card;
        let percent = by_card as f64 * 100.0 / bytes.max(1) as f64;
        let rewrites = self.wanted.encoding == EncodingChoice::Fixed(flow::Encoding::Rewrite);
        let good = match share {
            Share::Most => !rewrites || percent >= LEAST,
            Share::None => by_card == 0,
            Share::Any => true,
        };
        self.failures += usize::from(!good);
        let word = if good { "ok    " } else { "FAILED" };
        println!(
            "{word}  {what}: {percent:.1} % of {bytes} bytes by the card, in {packets} packets; {seconds:.1} s"
        );
        Ok(())
    }

    /// What has been carried, once no rule of a connection is left that counts on.
    fn settled(&self) -> Result<Carried, LabError> {
        let until = Instant::now() + SETTLED;
        loop {
            let status = self.balancer.status(self.lab)?;
            let rules = status.offload.get("rules_spliced").copied().unwrap_or(0);
            let doomed = status.offload.get("doomed").copied().unwrap_or(0);
            if (rules, doomed) == (0, 0) || Instant::now() > until {
                // Counts are a few milliseconds old.
                std::thread::sleep(Duration::from_millis(200));
                return Ok(Carried::of(&self.balancer.status(self.lab)?));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
