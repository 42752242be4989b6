//! TLS towards backends: nginx with a certificate, which is believed, or not.
use std::fs;

use super::certificates::Certificates;
use super::checks::Run;
use crate::topology::{BACKENDS, Family, vip};
use crate::{Lab, LabError};

/// The name in the backend's certificate.
pub(super) const NAME: &str = "backend.lab";
/// Where the backend speaks TLS.
pub(super) const TLS_PORT: u16 = 8443;
/// The same behind a header of the PROXY protocol.
pub(super) const PROXY_TLS_PORT: u16 = 8543;
/// Services whose backend is nginx with TLS: believed by its authority, by its pin, under a
/// wrong name, with a wrong pin; and one whose backend does not speak TLS.
const SERVICES: [(u16, &str); 5] = [
    (9443, "an authority"),
    (9444, "a pin"),
    (9445, "a wrong name"),
    (9446, "a wrong pin"),
    (9447, "no TLS"),
];

/// Starts nginx with the certificate in the backend, beside the one without.
pub(super) fn start(lab: &mut Lab, certificates: &Certificates) -> Result<(), LabError> {
    let host = BACKENDS[1].name;
    let dir = lab.dir().join(host);
    let [chain, key] = certificates.of(NAME);
    let (at, chain, key) = (dir.display(), chain.display(), key.display());
    let text = format!(
        "daemon off;
user root;
worker_processes 1;
pid {at}/tls.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_timeout 3600s;
  client_body_temp_path {at}/tls-body;
  server {{
    listen {TLS_PORT} ssl;
    listen [::]:{TLS_PORT} ssl ipv6only=on;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_certificate {chain};
    ssl_certificate_key {key};
    root {at}/html;
    default_type text/plain;
    location = / {{ return 200 \"$ssl_protocol $ssl_server_name $ssl_alpn_protocol\\n\"; }}
    location /up/ {{ dav_methods PUT; create_full_put_path on; client_max_body_size 0; }}
  }}
  server {{
    listen {PROXY_TLS_PORT} ssl proxy_protocol;
    ssl_certificate {chain};
    ssl_certificate_key {key};
    default_type text/plain;
    location = / {{
      return 200 \"$proxy_protocol_addr $proxy_protocol_server_addr $proxy_protocol_server_port\\n\";
    }}
  }}
}}
"
    );
    let file = dir.join("tls.conf");
    fs::write(&file, text).map_err(LabError::io(format!("write {}", file.display())))?;
    let file = file.display().to_string();
    lab.spawn(host, &format!("{host}-tls"), &["nginx", "-c", &file, "-e", "stderr"])?;
    Ok(())
}

/// The services of these backends.
pub(super) fn services(certificates: &Certificates) -> String {
    let mut text = String::new();
    for (at, (port, _)) in SERVICES.into_iter().enumerate() {
        let ca = format!("ca = \"{}\"\n", certificates.ca().display());
        let pin = |pin: &str| format!("pins = [\"{pin}\"]\n");
        let name = format!("name = \"{NAME}\"\n");
        let believed = match at {
            0 => ca + &name,
            1 => pin(&certificates.fingerprint(NAME)) + &name,
            2 => ca + "name = \"other.lab\"\n",
            3 => pin(&"00".repeat(32)) + &name,
            _ => ca + &name,
        };
        let backend = if at == 4 { crate::topology::WEB_BACKEND_PORT } else { TLS_PORT };
        text += &format!(
            "\n[[service]]\nname = \"sealed{at}\"\nvip = \"{}\"\nport = {port}\n\
             protocol = \"https\"\nscheduler = \"round-robin\"\n\
             [service.backend_tls]\n{believed}[service.tls]\n{}\
             [[service.backend]]\naddress = \"{}\"\nport = {backend}\n",
            vip(Family::V4),
            certificates.tables(),
            BACKENDS[1].address(Family::V4),
        );
    }
    text
}

impl Run<'_> {
    /// Requests over TLS to a backend, or why there are none.
    pub(super) fn sealed(&mut self) -> Result<(), LabError> {
        let status = "-w ' %{http_code}'";
        for (port, what) in SERVICES {
            let url = format!("https://www.lab:{port}/");
            let to = format!("--connect-to www.lab:{port}:{}:{port}", vip(Family::V4));
            let found = self.curl(Family::V4, &format!("{to} {status} {url}"))?;
            let believed = format!("TLSv1.3 {NAME} http/1.1 200");
            let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
            let wanted =
                if port < SERVICES[2].0 { &believed } else { "Backends refuse connections. 502" };
            self.expect(&format!("a backend over TLS, {what}"), &found, wanted);
        }
        let (port, body) = (SERVICES[0].0, self.file(1 << 20));
        let to = format!("--connect-to www.lab:{port}:{}:{port}", vip(Family::V4));
        let (body, got) = (body.display(), self.lab.dir().join("got"));
        let url = format!("https://www.lab:{port}");
        let stored = self.lab.dir().join(BACKENDS[1].name).join("html/up/sealed");
        for (what, words) in [
            ("down", format!("-o {0} {url}/body1048576 && cmp {0} {body}", got.display())),
            ("up", format!("-T {body} {url}/up/sealed && cmp {} {body}", stored.display())),
        ] {
            let found = self.curl(Family::V4, &format!("{to} {words}"));
            self.passes(&format!("a backend over TLS: 1 MiB {what}"), found)?;
        }
        let log = fs::read_to_string(self.lab.log(crate::balancer::NAME)).unwrap_or_default();
        let said = if log.contains("TLS with a backend failed") { "said" } else { &log };
        self.expect("the log says why", said, "said");
        Ok(())
    }
}
