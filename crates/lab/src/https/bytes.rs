//! TLS terminated in front of TCP: openssl s_client before HNLB, and servers behind it that
//! send back what they get.
use std::fs;
use std::time::Duration;

use super::certificates::Certificates;
use super::checks::{Run, TRANSFER};
use super::sealed;
use crate::topology::{BACKENDS, Family, vip};
use crate::{Lab, LabError};

/// The program of the servers.
const ECHO: &str = include_str!("echo.py");
/// Where they listen.
const ECHO_PORT: u16 = 7000;
/// The service in front of them: by name to b1, by protocol to b2, and otherwise nowhere.
const PORT: u16 = 9500;
/// A service whose backend is nginx, over TLS.
const SEALED_PORT: u16 = 9501;
/// A protocol of ALPN.
const PROTOCOL: &str = "echo/1";

/// Starts the servers.
pub(super) fn start(lab: &mut Lab) -> Result<(), LabError> {
    let file = lab.dir().join("echo.py");
    fs::write(&file, ECHO).map_err(LabError::io(format!("write {}", file.display())))?;
    let (file, port) = (file.display().to_string(), ECHO_PORT.to_string());
    for name in [BACKENDS[0].name, BACKENDS[1].name] {
        lab.spawn(name, &format!("{name}-echo"), &["python3", &file, &port, name])?;
        let there = format!(
            "i=0; until ss -ltn 'sport = :{port}' | grep -q {port}; do i=$((i+1)); \
             test $i -lt 200 || exit 1; sleep 0.1; done"
        );
        lab.exec_for(name, &["sh", "-c", &there], Duration::from_secs(60))?.success()?;
    }
    Ok(())
}

/// The services.
pub(super) fn services(certificates: &Certificates) -> String {
    let head = |name: &str, port| {
        format!(
            "\n[[service]]\nname = \"{name}\"\nvip = \"{}\"\nport = {port}\n\
             protocol = \"tls\"\nterminate = true\nscheduler = \"round-robin\"\n\
             [service.tls]\n{}",
            vip(Family::V4),
            certificates.tables()
        )
    };
    let [by_name, by_protocol] = [&BACKENDS[0], &BACKENDS[1]].map(|own| own.address(Family::V4));
    let routes = format!(
        "[[service.route]]\nserver_name = \"a.lab\"\ngroup = \"a\"\n\
         [[service.route]]\nalpn = \"{PROTOCOL}\"\ngroup = \"p\"\n\
         [[service.backend]]\naddress = \"{by_name}\"\nport = {ECHO_PORT}\ngroup = \"a\"\n\
         [[service.backend]]\naddress = \"{by_protocol}\"\nport = {ECHO_PORT}\ngroup = \"p\"\n"
    );
    let believed = format!(
        "[service.backend_tls]\nca = \"{}\"\nname = \"{}\"\n\
         [[service.backend]]\naddress = \"{by_protocol}\"\nport = {}\n",
        certificates.ca().display(),
        sealed::NAME,
        sealed::TLS_PORT,
    );
    head("bytes", PORT) + &routes + &head("bytes-sealed", SEALED_PORT) + &believed
}

impl Run<'_> {
    /// Each connection reaches the backend of its name or protocol, whole.
    pub(super) fn bytes(&mut self) -> Result<(), LabError> {
        let [b1, b2, ..] = BACKENDS.map(|host| host.name);
        for (words, wanted) in [
            ("-servername a.lab", b1),
            ("-servername A.LAB -tls1_2", b1),
            (&format!("-servername www.lab -alpn h2,{PROTOCOL}"), b2),
        ] {
            self.echo(words, 10_000_000, wanted)?;
        }
        for (words, wanted) in [
            ("-servername www.lab", "no application protocol"),
            ("-servername www.lab -alpn h2", "no application protocol"),
        ] {
            let found = self.speak("true", PORT, words)?;
            let said = if found.contains(wanted) { wanted } else { &found };
            self.expect(&format!("TLS in front of TCP, {words}"), said, wanted);
        }
        let found = self.speak("printf 'GET / HTTP/1.0\\r\\n\\r\\n'", SEALED_PORT, "")?;
        let line = found.lines().last().unwrap_or_default().trim().to_owned();
        let wanted = format!("TLSv1.3 {}", sealed::NAME);
        self.expect("TLS in front of TCP, its backend over TLS", &line, &wanted);
        Ok(())
    }

    /// The body comes back from the backend `wanted`, behind its name.
    fn echo(&mut self, words: &str, length: usize, wanted: &str) -> Result<(), LabError> {
        let (body, dir) = (self.file(length), self.lab.dir().display());
        let script = format!(
            "cd {dir} && (echo {wanted}; cat {0}; echo quit) > sent && \
             (cat {0}; echo quit) | timeout 300 openssl s_client -connect {1}:{PORT} \
             -CAfile {2} -verify_return_error -quiet {words} > echoed 2> said; \
             cmp sent echoed || {{ cat said; exit 1; }}",
            body.display(),
            vip(Family::V4),
            self.certificates.ca().display(),
        );
        let found = self.lab.exec_for("c1", &["sh", "-c", &script], TRANSFER)?;
        let found = found.success().map(|output| output.stdout);
        self.passes(&format!("TLS in front of TCP, {words}: {length} bytes from {wanted}"), found)
    }

    /// What a server of the service at `port` says to `input`.
    fn speak(&self, input: &str, port: u16, words: &str) -> Result<String, LabError> {
        let script = format!(
            "{input} | timeout 20 openssl s_client -connect {}:{port} -CAfile {} -quiet {words} \
             2>&1; true",
            vip(Family::V4),
            self.certificates.ca().display()
        );
        let output = self.lab.exec_for("c1", &["sh", "-c", &script], TRANSFER)?;
        output.success().map(|output| output.stdout)
    }
}
