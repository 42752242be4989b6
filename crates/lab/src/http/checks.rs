//! What is checked, and with which clients.
pub(super) mod tls;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::{STICKY_PORT, Wanted};
use crate::topology::{BACKENDS, Family, vip};
use crate::{Balancer, Lab, LabError};

/// Lengths of bodies: none, one byte, around one and two segments, around a receive
/// window, and many segments.
const LENGTHS: [usize; 9] = [0, 1, 1447, 1448, 2897, 14_600, 65_535, 65_537, 1 << 20];
/// Longer ones over bad links.
const FAULTY: [usize; 2] = [10_000_000, 100_000_000];
/// The body of the long form.
const LONG: usize = 1 << 30;
/// How long one transfer may take; generous, for busy machines and bad links.
pub(super) const TRANSFER: Duration = Duration::from_secs(300);

/// The checks of one run of HNLB.
pub(super) struct Run<'a> {
    pub(super) lab: &'a Lab,
    balancer: &'a Balancer,
    lengths: Vec<usize>,
    /// Seconds of load.
    seconds: u64,
    failures: usize,
}

impl<'a> Run<'a> {
    /// Writes the bodies.
    pub(super) fn new(
        lab: &'a Lab,
        balancer: &'a Balancer,
        wanted: &Wanted,
    ) -> Result<Self, LabError> {
        let mut lengths = LENGTHS.to_vec();
        if wanted.faulty {
            lengths.extend(FAULTY);
        }
        if wanted.long {
            lengths.push(LONG);
        }
        let seconds = if wanted.long { 20 } else { 2 };
        let run = Self { lab, balancer, lengths, seconds, failures: 0 };
        for &length in &run.lengths {
            let path = run.file(length);
            let bytes: Vec<u8> = (0..).flat_map(u32::to_be_bytes).take(length).collect();
            let names = BACKENDS.map(|own| lab.dir().join(own.name).join("html"));
            fs::write(&path, &bytes).map_err(LabError::io(format!("write {}", path.display())))?;
            for dir in names {
                let link = dir.join(format!("body{length}"));
                fs::hard_link(&path, &link)
                    .map_err(LabError::io(format!("link {}", link.display())))?;
            }
        }
        Ok(run)
    }

    pub(super) const fn failures(&self) -> usize {
        self.failures
    }

    /// Everything that is checked over a good link.
    pub(super) fn all(&mut self, link: &str) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            self.routes(family)?;
        }
        self.headers()?;
        self.sticky()?;
        self.counts()?;
        self.access_log()?;
        self.proxied()?;
        self.bodies(link)?;
        self.keep_alive()?;
        self.load()
    }

    /// Each request reaches a backend of its route, and says who has sent it.
    fn routes(&mut self, family: Family) -> Result<(), LabError> {
        let url = url(family);
        let own = BACKENDS.map(|host| host.name);
        for (words, path, wanted) in [
            ("", "/", own[3]),
            ("-H Host:A.LAB:80", "/", own[0]),
            ("-H Host:b.lab", "/", own[3]),
            ("-b 'x=1;c=3'", "/", own[2]),
            ("-b c=33", "/", own[3]),
            ("-H Host:a.lab -b c=3", "/", own[0]),
        ] {
            let words = format!("{words} {url}{path}");
            let found = self.curl(&words)?;
            self.expect(words.trim(), found.trim(), wanted);
        }
        let format = "%{http_code} %{redirect_url} %header{retry-after} %{size_download}";
        for (words, wanted) in [
            (format!("-H Host:Old.lab:80 '{url}/a/b?c=d'"), "308 https://new-Old.lab/a/b?c=d  0"),
            (format!("{url}/closed/shop"), "503  120 16"),
            (format!("-I {url}/closed"), "503  120 0"),
        ] {
            let found = self.curl(&format!("-o /dev/null -w '{format}' {words}"))?;
            self.expect(&words, found.trim(), wanted);
        }
        let client = crate::topology::CLIENTS[0].address(family);
        let found = self.curl(&format!("-H X-Forwarded-For:9.9.9.9 -H Host:me.lab {url}/seen"))?;
        self.expect("X-Forwarded-For, X-Forwarded-Host", found.trim(), &format!("{client} me.lab"));
        Ok(())
    }

    /// Fields of responses are changed in one family, and pass in the other.
    fn headers(&mut self) -> Result<(), LabError> {
        let fields = "%header{strict-transport-security}|%header{vary}|%header{server}";
        for (family, wanted) in [(Family::V4, "max-age=60|Origin|"), (Family::V6, "||nginx")] {
            for (method, body) in [("-I", "nothing"), ("-X GET", "a body")] {
                let words = format!("-o /dev/null -w '{fields}' {method} {}/", url(family));
                let found = self.curl(&words)?;
                let found = found.split('/').next().unwrap_or("").trim();
                self.expect(
                    &format!("{family:?}: fields of a response with {body}"),
                    found,
                    wanted,
                );
            }
        }
        Ok(())
    }

    /// A client with a cookie stays at its backend, in one connection and in many.
    fn sticky(&mut self) -> Result<(), LabError> {
        let url = format!("{}:{STICKY_PORT}/", url(Family::V4));
        let jar = self.lab.dir().join("jar");
        let _ = fs::remove_file(&jar);
        let jar = jar.display().to_string();
        let first = self.curl(&format!("-c {jar} {url}"))?;
        let first = first.trim().to_owned();
        let again = format!("-s -b {jar} -c {jar} {url}");
        let one = [again.as_str(); 5].join(" --next ");
        let found = self.curl(&one)?;
        let words: Vec<&str> = found.split_whitespace().collect();
        self.expect("a cookie, one connection", &words.join(" "), &[first.as_str(); 5].join(" "));
        for _ in 0..5 {
            let found = self.curl(&format!("-b {jar} {url}"))?;
            self.expect("a cookie, another connection", found.trim(), &first);
        }
        let field = "-o /dev/null -w '%header{set-cookie}'";
        let found = self.curl(&format!("-b {jar} {field} {url}"))?;
        self.expect("no second cookie", found.trim(), "");
        let found = self.curl(&format!("-b at=0123456789abcdef {field} {url}"))?;
        let (name, rest) = found.split_once('=').unwrap_or_default();
        let attributes = rest.split_once(';').unwrap_or_default().1.trim();
        let wanted = "at Path=/; Max-Age=3600; HttpOnly; SameSite=Strict";
        self.expect("a cookie of no backend", &format!("{name} {attributes}"), wanted);
        let all = self.curl(&[format!("-s {url}").as_str(); 4].join(" --next "))?;
        let mut all: Vec<&str> = all.split_whitespace().collect();
        all.sort_unstable();
        self.expect("no cookie", &all.join(" "), &BACKENDS.map(|own| own.name).join(" "));
        Ok(())
    }

    /// Responses count for their backend by class, HNLB's own for the service.
    fn counts(&mut self) -> Result<(), LabError> {
        let url = url(Family::V4);
        let before = self.counted()?;
        let requests = [
            format!("-H Host:a.lab {url}/"),
            format!("-H Host:a.lab {url}/body1448"),
            format!("-H Host:a.lab {url}/missing"),
            format!("-X CONNECT --request-target a:1 {url}/"),
            format!("-H Host:old.lab {url}/"),
        ];
        for words in requests {
            self.curl(&format!("-o /dev/null {words}"))?;
        }
        let more: Vec<_> = self.counted()?.iter().zip(before).map(|(now, old)| now - old).collect();
        let found = more.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        self.expect("counts of b1 and of the service", &found, "2 1 3 3 1 1");
        Ok(())
    }

    /// Of the first backend: responses of 2xx and 4xx, first bytes, connections. Of its
    /// service: HNLB's own answers of 3xx and 4xx.
    fn counted(&self) -> Result<[u64; 6], LabError> {
        let status = self.balancer.status(self.lab)?;
        let service = status.services.iter().find(|own| own.name == "web4");
        let backend = service.and_then(|own| own.backends.first());
        let own = service.and_then(|own| own.requests.clone()).unwrap_or_default().own;
        let requests = backend.and_then(|own| own.requests.clone()).unwrap_or_default();
        let opened = backend.map_or(0, |own| own.traffic.opened);
        let (responses, times) = (requests.responses, requests.first_bytes.count);
        let [served, missed] = [responses.successful, responses.client_error];
        Ok([served, missed, times, opened, own.redirection, own.client_error])
    }

    /// Bodies of all lengths, down and up.
    pub(super) fn bodies(&mut self, link: &str) -> Result<(), LabError> {
        for &length in &self.lengths.clone() {
            let (url, body) = (url(Family::V4), self.file(length));
            let (body, got) = (body.display(), self.lab.dir().join("got"));
            let down = format!("-o {0} {url}/body{length} && cmp {0} {body}", got.display());
            let found = self.curl(&down);
            self.passes(&format!("{link}: {length} bytes down"), found)?;
            let name = format!("up/{length}-{}", link.replace(' ', "-"));
            let up = format!("-T {body} {url}/{name}");
            let stored = self.lab.dir().join(BACKENDS[1].name).join("html").join(&name);
            let found = self.curl(&format!("{up} && cmp {} {body}", stored.display()));
            self.passes(&format!("{link}: {length} bytes up"), found)?;
        }
        Ok(())
    }

    /// One connection carries requests for different backends.
    fn keep_alive(&mut self) -> Result<(), LabError> {
        let (url, format) = (url(Family::V4), "-w ' %{num_connects} '");
        let (a, other) =
            (format!("-s -H Host:a.lab {format} {url}/"), format!("-s {format} {url}/"));
        let [b1, .., b4] = BACKENDS.map(|host| host.name);
        let found = self.curl(&format!("{other} --next {a} --next {a} --next {other}"))?;
        let words: Vec<&str> = found.split_whitespace().collect();
        let wanted = [b4, "1", b1, "0", b1, "0", b4, "0"];
        self.expect("four requests in one connection", &words.join(" "), &wanted.join(" "));
        Ok(())
    }

    /// No request of a load fails.
    fn load(&mut self) -> Result<(), LabError> {
        let seconds = self.seconds;
        let words = format!("wrk -t1 -c32 -d{seconds}s --timeout 10s {}/", url(Family::V4));
        let argv: Vec<&str> = words.split(' ').collect();
        let found = self.lab.exec_for("c2", &argv, TRANSFER)?.success()?.stdout;
        let rate = found.lines().find(|line| line.contains("Requests/sec")).unwrap_or("");
        let fails = ["Non-2xx", "Socket errors"].iter().any(|word| found.contains(word));
        if fails || rate.is_empty() {
            self.fail("wrk", &found);
        } else {
            println!("ok      wrk: {}", rate.trim());
        }
        Ok(())
    }

    /// What HNLB answers itself.
    pub(super) fn refusals(&mut self) -> Result<(), LabError> {
        let url = url(Family::V4);
        let status = "-o /dev/null -w %{http_code}";
        let long = format!("-H X:{} {url}/", "x".repeat(9000));
        for (what, words, wanted) in [
            ("a header of 9000 bytes", long.as_str(), "431"),
            (
                "two lengths",
                &format!("-X POST -H Content-Length:1 -H Transfer-Encoding:chunked -d x {url}/"),
                "400",
            ),
            ("CONNECT", &format!("-X CONNECT --request-target a:1 {url}/"), "405"),
        ] {
            let found = self.curl(&format!("{status} {words}"))?;
            self.expect(what, &found, wanted);
        }
        let web = format!("{}-nginx", BACKENDS[0].name);
        let pid = self.lab.pid(&web).unwrap_or(0);
        let kill = format!("kill -s KILL -- -{pid}");
        self.lab.exec(BACKENDS[0].name, &["sh", "-c", &kill])?.success()?;
        let found = self.curl(&format!("{status} -H Host:a.lab {url}/"))?;
        self.expect("a backend that is dead", &found, "502");
        let status = self.balancer.status(self.lab)?;
        println!("        {} services in the status", status.services.len());
        Ok(())
    }

    /// What curl prints with these words, at the first client.
    pub(super) fn curl(&self, words: &str) -> Result<String, LabError> {
        let script = format!("exec 2>&1; curl -sSg --max-time 280 {words}");
        let output = self.lab.exec_for("c1", &["sh", "-c", &script], TRANSFER)?;
        output.success().map(|output| output.stdout)
    }

    pub(super) fn expect(&mut self, what: &str, found: &str, wanted: &str) {
        if found == wanted {
            println!("ok      {what}: {wanted}");
        } else {
            self.fail(what, &format!("{found:?}, not {wanted:?}"));
        }
    }

    fn passes(&mut self, what: &str, found: Result<String, LabError>) -> Result<(), LabError> {
        match found {
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => self.fail(what, &error.to_string()),
            Ok(_) => println!("ok      {what}"),
        }
        Ok(())
    }

    fn fail(&mut self, what: &str, why: &str) {
        self.failures += 1;
        println!("FAILED  {what}: {why}");
    }

    pub(super) fn file(&self, length: usize) -> PathBuf {
        self.lab.dir().join(format!("body{length}"))
    }
}

pub(super) fn url(family: Family) -> String {
    match vip(family) {
        std::net::IpAddr::V4(own) => format!("http://{own}"),
        std::net::IpAddr::V6(own) => format!("http://[{own}]"),
    }
}
