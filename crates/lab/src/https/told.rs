//! What is told of requests: counts by backend, the access log, and to backends by the PROXY
//! protocol who the client is.
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::certificates::Certificates;
use super::checks::{PROTOCOLS, Run};
use super::sealed::{NAME, PROXY_TLS_PORT};
use crate::topology::{BACKENDS, CLIENTS, Family, PROXY_BACKEND_PORT, vip};
use crate::{Lab, LabError};

/// How long a line may take to get into the file; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(20);

/// The ports of services with the PROXY protocol: backends in the clear, and over TLS.
const PORTS: [(u16, u16); 2] = [(8445, PROXY_BACKEND_PORT), (8446, PROXY_TLS_PORT)];

/// Where HNLB writes the access log.
fn log(lab: &Lab) -> PathBuf {
    lab.dir().join("access.log")
}

/// The access log, and the services with the PROXY protocol.
pub(super) fn config(lab: &Lab, certificates: &Certificates) -> String {
    let mut text = format!("\n[access_log]\nfile = \"{}\"\n", log(lab).display());
    for (port, backend) in PORTS {
        let ca = certificates.ca();
        let believed = match backend {
            PROXY_TLS_PORT => {
                format!("[service.backend_tls]\nca = \"{}\"\nname = \"{NAME}\"\n", ca.display())
            }
            _ => String::new(),
        };
        text += &format!(
            "\n[[service]]\nname = \"told{port}\"\nvip = \"{}\"\nport = {port}\n\
             protocol = \"https\"\nscheduler = \"round-robin\"\nproxy_protocol = \"v2\"\n\
             {believed}[service.tls]\n{}[[service.backend]]\naddress = \"{}\"\nport = {backend}\n",
            vip(Family::V4),
            certificates.tables(),
            BACKENDS[1].address(Family::V4),
        );
    }
    text
}

impl Run<'_> {
    /// Requests of both protocols are counted and logged one by one.
    pub(super) fn told(&mut self) -> Result<(), LabError> {
        for protocol in PROTOCOLS {
            let before = self.counted()?;
            let one = "https://a.lab/log";
            let urls = format!(
                "https://a.lab/ https://a.lab/body1447 {one}{protocol} https://www.lab/old"
            );
            self.curl(Family::V4, &format!("-o /dev/null {protocol} {urls}"))?;
            let more = self.counted()?.into_iter().zip(before).map(|(now, old)| now - old);
            let found = more.map(|own| own.to_string()).collect::<Vec<_>>().join(" ");
            // The connection to b1 serves all three requests.
            self.expect(
                &format!("counts of b1 and of the service ({protocol})"),
                &found,
                "2 1 3 1 1",
            );
            let line = self.line(&format!("/log{protocol}"));
            let text = |name: &str| line[name].as_str().unwrap_or("null").to_owned();
            let backend = text("backend");
            let told = format!(
                "{} {} {} {} {} {}",
                text("method"),
                text("host"),
                text("service"),
                line["route"],
                backend.rsplit_once(':').map_or("null", |(own, _)| own),
                line["status"],
            );
            let wanted = format!("GET a.lab tls4 1 {} 404", BACKENDS[0].address(Family::V4));
            self.expect(&format!("the access log's line ({protocol})"), &told, &wanted);
        }
        self.told_by_proxy()
    }

    /// nginx says what it was told.
    fn told_by_proxy(&mut self) -> Result<(), LabError> {
        let own = vip(Family::V4);
        for (port, backend) in PORTS {
            for protocol in PROTOCOLS {
                let to = format!("--connect-to www.lab:{port}:{own}:{port}");
                let words = format!("{to} {protocol} https://www.lab:{port}/");
                let found = self.curl(Family::V4, &words)?;
                let wanted = format!("{} {own} {port}", CLIENTS[0].address(Family::V4));
                let what = format!("nginx at {backend} by the PROXY protocol ({protocol})");
                self.expect(&what, found.trim(), &wanted);
            }
        }
        Ok(())
    }

    /// Of the first backend: responses of 2xx and 4xx, first bytes, connections. Of its
    /// service: HNLB's own answers of 3xx.
    fn counted(&self) -> Result<[u64; 5], LabError> {
        let status = self.balancer.status(self.lab)?;
        let service = status.services.iter().find(|own| own.name == "tls4");
        let backend = service.and_then(|own| own.backends.first());
        let own = service.and_then(|own| own.requests.clone()).unwrap_or_default().own;
        let requests = backend.and_then(|own| own.requests.clone()).unwrap_or_default();
        let opened = backend.map_or(0, |own| own.traffic.opened);
        let (responses, times) = (requests.responses, requests.first_bytes.count);
        Ok([responses.successful, responses.client_error, times, opened, own.redirection])
    }

    /// The line about the path, as soon as there is one.
    fn line(&self, path: &str) -> Value {
        let asked = Instant::now();
        while asked.elapsed() < PATIENCE {
            let text = fs::read_to_string(log(self.lab)).unwrap_or_default();
            let mut lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            if let Some(found) = lines.find(|line: &Value| line["path"] == path) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Value::Null
    }
}
