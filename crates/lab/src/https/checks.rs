//! What is checked, and with which clients.
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::certificates::{Certificates, NAMES};
use super::{CHANGED_PORT, MUTUAL_PORT, Wanted};
use crate::topology::{BACKENDS, CLIENTS, Family, vip};
use crate::{Balancer, Lab, LabError};

/// Lengths of bodies: none, one byte, around one record and two, and many.
const LENGTHS: [usize; 9] = [0, 1, 1447, 16_383, 16_384, 16_385, 65_537, 1 << 20, 10_000_000];
/// A longer one over bad links.
const FAULTY: usize = 100_000_000;
/// The body of the long form.
const LONG: usize = 1 << 30;
/// How long one transfer may take; generous, for busy machines and bad links.
pub(super) const TRANSFER: Duration = Duration::from_secs(550);

/// How curl is told which protocol to speak.
pub(super) const PROTOCOLS: [&str; 2] = ["--http1.1", "--http2"];

/// The checks of one run of HNLB.
pub(super) struct Run<'a> {
    pub(super) lab: &'a Lab,
    pub(super) balancer: &'a Balancer,
    pub(super) certificates: &'a Certificates,
    lengths: Vec<usize>,
    /// A length for bad links only.
    faulty: Option<usize>,
    /// Seconds of load.
    pub(super) seconds: u64,
    pub(super) swaps: u32,
    failures: usize,
}

impl<'a> Run<'a> {
    /// Writes the bodies.
    pub(super) fn new(
        lab: &'a Lab,
        balancer: &'a Balancer,
        certificates: &'a Certificates,
        wanted: &Wanted,
    ) -> Result<Self, LabError> {
        let mut lengths = LENGTHS.to_vec();
        lengths.extend(wanted.long.then_some(LONG));
        let faulty = wanted.faulty.then_some(FAULTY);
        let (seconds, swaps) = (if wanted.long { 20 } else { 3 }, wanted.swaps);
        let run =
            Self { lab, balancer, certificates, lengths, faulty, seconds, swaps, failures: 0 };
        for &length in run.lengths.iter().chain(&run.faulty) {
            let path = run.file(length);
            let bytes: Vec<u8> = (0..).flat_map(u32::to_be_bytes).take(length).collect();
            fs::write(&path, &bytes).map_err(LabError::io(format!("write {}", path.display())))?;
            for own in BACKENDS {
                let link = lab.dir().join(own.name).join("html").join(format!("body{length}"));
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
    pub(super) fn all(&mut self) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            self.routes(family)?;
        }
        self.versions()?;
        self.names()?;
        self.tickets()?;
        self.client_certificates()?;
        self.memory()?;
        self.misuse()?;
        for protocol in PROTOCOLS {
            self.keep_alive(protocol)?;
            self.headers(protocol)?;
        }
        self.sealed()?;
        self.bytes()?;
        self.told()?;
        for length in self.lengths.clone() {
            for protocol in PROTOCOLS {
                self.body("good link", protocol, length)?;
            }
        }
        self.loads()
    }

    /// Bodies over bad links.
    pub(super) fn bad_bodies(&mut self) -> Result<(), LabError> {
        let most = if self.faulty.is_some() { 10_000_000 } else { 1 << 20 };
        let short = self.lengths.iter().copied().filter(|length| *length <= most);
        let lengths: Vec<usize> = short.chain(self.faulty).collect();
        for length in lengths {
            for protocol in PROTOCOLS {
                self.body("bad link", protocol, length)?;
            }
        }
        Ok(())
    }

    /// Each request reaches a backend of its route, and says who has sent it.
    fn routes(&mut self, family: Family) -> Result<(), LabError> {
        let [b1, .., b4] = BACKENDS.map(|host| host.name);
        for (host, path, wanted) in [("www.lab", "/", b4), ("a.lab", "/", b1)] {
            let found = self.curl(family, &format!("https://{host}{path}"))?;
            self.expect(&format!("{family:?} {host}{path}"), found.trim(), wanted);
        }
        let client = CLIENTS[0].address(family);
        let words = "-H X-Forwarded-For:9.9.9.9 https://www.lab/seen";
        let found = self.curl(family, words)?;
        self.expect(
            "X-Forwarded-For, X-Forwarded-Host",
            found.trim(),
            &format!("{client} www.lab"),
        );
        let format =
            "-o /dev/null -w '%{http_code} %{redirect_url} %header{strict-transport-security}'";
        let found = self.curl(family, &format!("{format} 'https://www.lab/old/a?b=c'"))?;
        self.expect("a redirect", found.trim(), "308 https://new-www.lab/old/a?b=c");
        let found = self.curl(family, &format!("{format} https://www.lab/"))?;
        self.expect("Strict-Transport-Security", found.trim(), "200  max-age=3600");
        Ok(())
    }

    /// Both versions, and none that is older.
    fn versions(&mut self) -> Result<(), LabError> {
        for (words, wanted) in [
            ("-tls1_3", "TLSv1.3"),
            ("-tls1_2", "TLSv1.2"),
            ("-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2"),
            ("-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256", "TLSv1.3"),
            ("-tls1_1 -cipher DEFAULT@SECLEVEL=0", "(NONE)"),
        ] {
            let found = self.s_client(&format!("{words} -servername www.lab"))?;
            let line = found.lines().find_map(|line| line.split_once("New, "));
            let version = line.map_or("", |(_, rest)| rest.split(',').next().unwrap_or(""));
            self.expect(&format!("openssl s_client {words}"), version, wanted);
        }
        Ok(())
    }

    /// The certificate is the one of the name.
    fn names(&mut self) -> Result<(), LabError> {
        for (words, wanted) in [
            ("-servername a.lab", NAMES[1]),
            ("-servername www.lab", NAMES[0]),
            ("-servername other.lab", NAMES[0]),
            ("-noservername", NAMES[0]),
        ] {
            let found = self.s_client(words)?;
            let line = found.lines().find_map(|line| line.strip_prefix("subject=CN"));
            let name = line.map_or("", |rest| rest.trim_start_matches([' ', '=']));
            self.expect(&format!("openssl s_client {words}"), name, wanted);
        }
        Ok(())
    }

    /// Tickets are taken, in both versions.
    fn tickets(&mut self) -> Result<(), LabError> {
        let file = self.lab.dir().join("session");
        for version in ["-tls1_2", "-tls1_3"] {
            let at = file.display();
            let request =
                "printf 'GET / HTTP/1.1\\r\\nHost: www.lab\\r\\nConnection: close\\r\\n\\r\\n'";
            let to = format!("{version} -servername www.lab");
            self.s_client_with(&format!("({request}; sleep 1)"), &format!("{to} -sess_out {at}"))?;
            let found = self.s_client(&format!("{to} -sess_in {at}"))?;
            let reused = found.lines().any(|line| line.starts_with("Reused, "));
            self.expect(
                &format!("a ticket with {version}"),
                if reused { "reused" } else { &found },
                "reused",
            );
        }
        Ok(())
    }

    /// A client without a certificate gets nothing from the service that asks for one.
    fn client_certificates(&mut self) -> Result<(), LabError> {
        let url = format!("https://www.lab:{MUTUAL_PORT}/");
        let [chain, key] = self.certificates.of("client");
        let with = format!("--cert {} --key {} {url}", chain.display(), key.display());
        let found = self.curl(Family::V4, &with)?;
        self.expect("a client with a certificate", found.trim(), BACKENDS[3].name);
        let forged = "-H 'X-Client-Cert-Subject: CN=root' -H 'X_Client_Cert_Serial: 1' \
                      -H 'Client-Cert: :AA==:'";
        let file = chain.display();
        let script = format!(
            "exec 2>&1; cd {}; s=$(openssl x509 -in {file} -noout -serial | cut -d= -f2 | tr A-F a-f); \
             f=$(openssl x509 -in {file} -noout -fingerprint -sha256 | cut -d= -f2 | tr -d : | tr A-F a-f); \
             d=$(openssl x509 -in {file} -outform der | base64 -w0); echo CN=client $s $f :$d:",
            self.lab.dir().display()
        );
        let wanted = self.lab.exec("c1", &["sh", "-c", &script])?.success()?.stdout;
        for protocol in PROTOCOLS {
            let words = format!("{protocol} {forged} {with}client");
            let found = self.curl(Family::V4, &words)?;
            let what = format!("who the client is, {protocol}");
            // openssl leaves out a zero in front of the serial number, as DER may have one.
            self.expect(&what, &found.trim().replacen(" 00", " ", 1), wanted.trim());
        }
        let found = self.curl(Family::V4, &format!("{forged} https://www.lab/client"))?;
        self.expect("what a client says of itself", found.trim(), "");
        let found = self.curl(Family::V4, &format!("{url} || echo refused"))?;
        let refused = if found.contains("refused") { "refused" } else { &found };
        self.expect("a client without a certificate", refused, "refused");
        Ok(())
    }

    /// One connection carries requests for different backends.
    fn keep_alive(&mut self, protocol: &str) -> Result<(), LabError> {
        let format = "-w ' %{num_connects}/%{http_version} '";
        let [b1, .., b4] = BACKENDS.map(|host| host.name);
        let a = format!("-s {protocol} {format} -H Host:a.lab https://www.lab/");
        let other = format!("-s {protocol} {format} https://www.lab/");
        let words =
            [other.as_str(), &a, &a, &other].join(&format!(" --next {} ", self.to(Family::V4)));
        let found = self.curl(Family::V4, &words)?;
        let found: Vec<&str> = found.split_whitespace().collect();
        let version = if protocol == "--http2" { "2" } else { "1.1" };
        let [first, next] = [1, 0].map(|connects| format!("{connects}/{version}"));
        let wanted = [b4, &first, b1, &next, b1, &next, b4, &next];
        let what = format!("four requests in one connection, {protocol}");
        self.expect(&what, &found.join(" "), &wanted.join(" "));
        Ok(())
    }

    /// Fields are set and removed, and a cookie leads to the same backend.
    fn headers(&mut self, protocol: &str) -> Result<(), LabError> {
        let url = format!("https://www.lab:{CHANGED_PORT}/seen");
        let format = "-o /dev/null -w '%{http_code} [%header{server}] %header{x-frame-options}'";
        let found = self.curl(Family::V4, &format!("{protocol} {format} {url}"))?;
        let what = format!("fields set and removed, {protocol}");
        self.expect(&what, found.trim(), "200 [] DENY");
        let jar = self.lab.dir().join("cookies");
        let names = format!("https://www.lab:{CHANGED_PORT}/");
        let at = jar.display();
        let script = format!("{protocol} -c {at} {names}");
        let first = self.curl(Family::V4, &script)?;
        let mut same = first.contains('b');
        for _ in 0..4 {
            same &= self.curl(Family::V4, &format!("{protocol} -b {at} {names}"))? == first;
        }
        let what = format!("a cookie leads to the same backend, {protocol}");
        self.expect(&what, if same { "same" } else { "another" }, "same");
        Ok(())
    }

    /// A body, down and up.
    fn body(&mut self, link: &str, protocol: &str, length: usize) -> Result<(), LabError> {
        let body = self.file(length);
        let (body, got) = (body.display(), self.lab.dir().join("got"));
        // An answer of HNLB's own is in the place of the body, and says why.
        let down = format!(
            "{protocol} -w '%{{http_code}} after %{{time_total}} s\n' -o {0} \
             https://www.lab/body{length} && (cmp {0} {body} || ! head -c 300 {0})",
            got.display()
        );
        let found = self.curl(Family::V4, &down);
        self.passes(&format!("{link}, {protocol}: {length} bytes down"), found)?;
        let name = format!("up/{length}-{}{protocol}", link.replace(' ', "-"));
        let stored = self.lab.dir().join(BACKENDS[1].name).join("html").join(&name);
        let up = format!(
            "{protocol} -w '%{{http_code}} after %{{time_total}} s\n' -T {body} \
             https://www.lab/{name} && cmp {} {body}",
            stored.display()
        );
        let found = self.curl(Family::V4, &up);
        self.passes(&format!("{link}, {protocol}: {length} bytes up"), found)
    }

    /// What HNLB answers itself.
    pub(super) fn refusals(&mut self) -> Result<(), LabError> {
        let status = "-o /dev/null -w %{http_code} --http1.1";
        let long = format!("-H X:{} https://www.lab/", "x".repeat(9000));
        for (what, words, wanted) in [
            ("a header of 9000 bytes", long.as_str(), "431"),
            (
                "two lengths",
                "-X POST -H Content-Length:1 -H Transfer-Encoding:chunked -d x https://www.lab/",
                "400",
            ),
        ] {
            let found = self.curl(Family::V4, &format!("{status} {words}"))?;
            self.expect(what, &found, wanted);
        }
        let web = format!("{}-nginx", BACKENDS[0].name);
        let pid = self.lab.pid(&web).unwrap_or(0);
        let kill = format!("kill -s KILL -- -{pid}");
        self.lab.exec(BACKENDS[0].name, &["sh", "-c", &kill])?.success()?;
        let found = self.curl(Family::V4, &format!("{status} https://a.lab/"))?;
        self.expect("a backend that is dead", &found, "502");
        Ok(())
    }

    /// Words that let curl find the VIP and believe its certificate.
    fn to(&self, family: Family) -> String {
        let vip = match vip(family) {
            std::net::IpAddr::V4(own) => own.to_string(),
            std::net::IpAddr::V6(own) => format!("[{own}]"),
        };
        let ca = self.certificates.ca();
        format!(
            "--cacert {} --connect-to www.lab:443:{vip}:443 --connect-to a.lab:443:{vip}:443 \
             --connect-to www.lab:{MUTUAL_PORT}:{vip}:{MUTUAL_PORT} \
             --connect-to www.lab:{CHANGED_PORT}:{vip}:{CHANGED_PORT}",
            ca.display()
        )
    }

    /// What curl prints with these words, at the first client.
    pub(super) fn curl(&self, family: Family, words: &str) -> Result<String, LabError> {
        let script = format!("exec 2>&1; curl -sSg --max-time 500 {} {words}", self.to(family));
        let output = self.lab.exec_for("c1", &["sh", "-c", &script], TRANSFER)?;
        output.success().map(|output| output.stdout)
    }

    /// What openssl prints of a connection.
    pub(super) fn s_client(&self, words: &str) -> Result<String, LabError> {
        self.s_client_with("true", words)
    }

    pub(super) fn s_client_with(&self, input: &str, words: &str) -> Result<String, LabError> {
        let script = format!(
            "{input} | timeout 20 openssl s_client -connect {}:443 -CAfile {} {words} 2>&1; true",
            vip(Family::V4),
            self.certificates.ca().display()
        );
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

    pub(super) fn passes(
        &mut self,
        what: &str,
        found: Result<String, LabError>,
    ) -> Result<(), LabError> {
        match found {
            Err(LabError::Interrupted) => return Err(LabError::Interrupted),
            Err(error) => self.fail(what, &error.to_string()),
            Ok(_) => println!("ok      {what}"),
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, what: &str, why: &str) {
        self.failures += 1;
        println!("FAILED  {what}: {why}");
    }

    pub(super) fn file(&self, length: usize) -> PathBuf {
        self.lab.dir().join(format!("body{length}"))
    }
}
