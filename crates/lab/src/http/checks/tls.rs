//! Services of protocol tls with real clients and servers: openssl and curl, and nginx
//! with a certificate of its own in each of two backends.
use std::fs;

use super::Run;
use crate::topology::{BACKENDS, Family, vip};
use crate::{Lab, LabError};

/// Where clients and backends speak TLS.
const VIP_PORT: u16 = 443;
const BACKEND_PORT: u16 = 8443;
/// The names of the two certificates, one for each of the first backends.
const NAMES: [&str; 2] = ["one.lab", "two.lab"];
/// The length of the body that is moved.
const BODY: usize = 1 << 20;

/// Starts the servers. Their certificates sign themselves.
pub(in crate::http) fn start(lab: &mut Lab) -> Result<(), LabError> {
    for (host, name) in BACKENDS.iter().zip(NAMES) {
        let dir = lab.dir().join(host.name);
        let shown = dir.display();
        let argv = format!(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
             -keyout {shown}/key.pem -out {shown}/cert.pem -subj /CN={name} \
             -addext subjectAltName=DNS:{name},DNS:*.{name},DNS:three.lab"
        );
        lab.exec(host.name, &argv.split(' ').collect::<Vec<_>>())?.success()?;
        let path = dir.join("tls.conf");
        let text = nginx(host.name, &shown.to_string());
        fs::write(&path, text).map_err(LabError::io(format!("write {}", path.display())))?;
        let path = path.display().to_string();
        let argv = ["nginx", "-p", &shown.to_string(), "-c", &path, "-e", "stderr"];
        lab.spawn(host.name, &format!("{}-tls", host.name), &argv)?;
    }
    Ok(())
}

fn nginx(name: &str, dir: &str) -> String {
    format!(
        "daemon off;
user root;
worker_processes 1;
pid {dir}/tls.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_certificate {dir}/cert.pem;
  ssl_certificate_key {dir}/key.pem;
  server {{
    listen {BACKEND_PORT} ssl http2;
    listen [::]:{BACKEND_PORT} ssl http2 ipv6only=on;
    root {dir}/html;
    default_type text/plain;
    location = / {{ return 200 \"{name} $ssl_protocol $ssl_server_name $server_protocol\"; }}
  }}
}}
"
    )
}

/// The TLS service of one family: a backend for each of two names, and for a third one if
/// the client offers HTTP/2.
pub(in crate::http) fn service(family: Family) -> String {
    let digit = if family == Family::V4 { 4 } else { 6 };
    let [one, two] = NAMES;
    let mut text = format!(
        "\n[[service]]\nname = \"tls{digit}\"\nvip = \"{}\"\nport = {VIP_PORT}\nprotocol = \"tls\"\n\
         [[service.route]]\nserver_name = \"{one}\"\ngroup = \"{one}\"\n\
         [[service.route]]\nserver_name = \"*.{two}\"\ngroup = \"{two}\"\n\
         [[service.route]]\nserver_name = \"three.lab\"\nalpn = \"h2\"\ngroup = \"{two}\"\n",
        vip(family)
    );
    for (own, group) in BACKENDS.iter().zip(NAMES) {
        let address = own.address(family);
        text += &format!(
            "[[service.backend]]\naddress = \"{address}\"\nport = {BACKEND_PORT}\ngroup = \"{group}\"\n"
        );
    }
    text
}

impl Run<'_> {
    /// Connections reach the backend of their name and protocol, in both versions of TLS;
    /// the others end with the right alert.
    pub(in crate::http) fn tls(&mut self) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            self.tls_routes(family)?;
            self.tls_alerts(family)?;
        }
        self.tls_in_pieces()?;
        self.tls_body("good link")
    }

    fn tls_routes(&mut self, family: Family) -> Result<(), LabError> {
        let [b1, b2, ..] = BACKENDS.map(|host| host.name);
        for (words, name, wanted) in [
            ("--tls-max 1.2", "one.lab", format!("{b1} TLSv1.2 one.lab HTTP/2.0")),
            ("--tlsv1.3", "one.lab", format!("{b1} TLSv1.3 one.lab HTTP/2.0")),
            ("--tls-max 1.2 --http1.1", "a.two.lab", format!("{b2} TLSv1.2 a.two.lab HTTP/1.1")),
            ("--tlsv1.3 --http1.1", "A.TWO.lab", format!("{b2} TLSv1.3 A.TWO.lab HTTP/1.1")),
            ("--http2", "three.lab", format!("{b2} TLSv1.3 three.lab HTTP/2.0")),
        ] {
            let found = self.curl(&self.https(family, words, name, ""))?;
            // Whether a client lowers its name is its own affair.
            self.expect(
                &format!("{family:?} {words} {name}"),
                &found.trim().to_ascii_lowercase(),
                &wanted.to_ascii_lowercase(),
            );
        }
        for (own, name) in BACKENDS.iter().zip(["one.lab", "a.two.lab"]) {
            let file = self.lab.dir().join(own.name).join("cert.pem");
            let words = format!(
                "-servername {name} -CAfile {} -verify_return_error -brief",
                file.display()
            );
            let found = self.s_client(family, &words)?;
            let verified = found.contains("Verification: OK");
            self.expect(&format!("{family:?} s_client {name}"), &verified.to_string(), "true");
        }
        Ok(())
    }

    fn tls_alerts(&mut self, family: Family) -> Result<(), LabError> {
        for (words, wanted) in [
            ("-noservername", "unrecognized name"),
            ("-servername four.lab", "unrecognized name"),
            ("-servername two.lab", "unrecognized name"),
            ("-servername three.lab", "no application protocol"),
            ("-servername three.lab -alpn http/1.1", "no application protocol"),
        ] {
            let found = self.s_client(family, words)?;
            let shown = if found.contains(wanted) { wanted } else { found.as_str() };
            self.expect(&format!("{family:?} s_client {words}"), shown, wanted);
        }
        let url = format!("http://{}/", self.authority(family));
        let found = self.curl(&format!("-o /dev/null {url}; echo $?"))?;
        // CURLE_RECV_ERROR: a reset.
        let code = found.lines().last().unwrap_or_default();
        self.expect(&format!("{family:?} no TLS at all"), code, "56");
        Ok(())
    }

    /// A hello that takes several segments.
    fn tls_in_pieces(&mut self) -> Result<(), LabError> {
        let vip = vip(Family::V4);
        let route = |change: &str| {
            let script = format!(
                "ip route {change} {vip}/32 dev $(ip -o route get {vip} | sed 's/.* dev \\([^ ]*\\).*/\\1/') mtu lock 160"
            );
            self.lab.exec("c1", &["sh", "-c", &script])?.success()
        };
        route("add")?;
        let found = self.curl(&self.https(Family::V4, "--tlsv1.3", "one.lab", ""))?;
        route("del")?;
        let wanted = format!("{} TLSv1.3 one.lab HTTP/2.0", BACKENDS[0].name);
        self.expect("a hello of several segments", found.trim(), &wanted);
        Ok(())
    }

    /// A body within TLS arrives as it was sent.
    pub(in crate::http) fn tls_body(&mut self, link: &str) -> Result<(), LabError> {
        let (got, body) = (self.lab.dir().join("got"), self.file(BODY));
        let words = format!("--tlsv1.3 -o {}", got.display());
        let https = self.https(Family::V4, &words, "one.lab", &format!("body{BODY}"));
        let found = self.curl(&format!("{https} && cmp {} {}", got.display(), body.display()));
        self.passes(&format!("{link}: {BODY} bytes down within TLS"), found)
    }

    /// A backend that is dead.
    pub(in crate::http) fn tls_refusal(&mut self) -> Result<(), LabError> {
        let name = BACKENDS[0].name;
        let pid = self.lab.pid(&format!("{name}-tls")).unwrap_or(0);
        let kill = format!("kill -s KILL -- -{pid}");
        self.lab.exec(name, &["sh", "-c", &kill])?.success()?;
        let found = self.s_client(Family::V4, "-servername one.lab")?;
        let wanted = "internal error";
        let shown = if found.contains(wanted) { wanted } else { found.as_str() };
        self.expect("a backend of TLS that is dead", shown, wanted);
        Ok(())
    }

    /// The words with which curl asks for `path` at the server `name`.
    fn https(&self, family: Family, words: &str, name: &str, path: &str) -> String {
        let address = match vip(family) {
            std::net::IpAddr::V4(own) => own.to_string(),
            std::net::IpAddr::V6(own) => format!("[{own}]"),
        };
        let at = usize::from(!name.ends_with("one.lab"));
        let cert = self.lab.dir().join(BACKENDS[at].name).join("cert.pem");
        let cert = cert.display();
        format!(
            "{words} --cacert {cert} --resolve {name}:{VIP_PORT}:{address} https://{name}/{path}"
        )
    }

    fn authority(&self, family: Family) -> String {
        std::net::SocketAddr::new(vip(family), VIP_PORT).to_string()
    }

    /// What openssl prints of a connection that it ends at once; whether it failed is in
    /// that.
    fn s_client(&self, family: Family, words: &str) -> Result<String, LabError> {
        let to = self.authority(family);
        let script = format!("timeout 20 openssl s_client -connect {to} {words} < /dev/null 2>&1");
        self.lab.exec("c1", &["sh", "-c", &script]).map(|output| output.stdout)
    }
}
