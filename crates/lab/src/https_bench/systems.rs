//! The systems with TLS, and the time that each uses.
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use flow::Encoding;

use crate::compare::{busy_share, process_ns, threads_ns};
use crate::config::LabRun;
use crate::http_bench::{self, System};
use crate::https::Certificates;
use crate::status::Status;
use crate::topology::{BACKENDS, Host, VIP4, WEB_BACKEND_PORT};
use crate::{Balancer, Lab, LabError};

/// Where all of them listen.
pub(super) const PORT: u16 = 443;
/// What the balancer answers itself, so that a handshake costs no backend anything.
pub(super) const SHAKE: &str = "/shake";
/// The threads of HNLB's that do nothing but TLS.
const THREADS: [&str; 2] = ["terminator", "handshake"];
/// Its thread that polls without end.
const WORKER: &str = "worker";

pub(super) const fn target() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(VIP4), PORT)
}

pub(super) fn url(path: &str) -> String {
    format!("https://{}{path}", target())
}

/// A system at work.
pub(super) struct Running(http_bench::Running);

/// What a system has used up to now.
pub(super) enum Reading {
    /// The worker's status, how many nanoseconds it has run, and those of the threads.
    Hnlb(Box<Status>, u64, u64),
    Process(u64),
}

impl Reading {
    /// Nanoseconds since `before`.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn since(&self, before: &Self) -> f64 {
        match (before, self) {
            (Self::Hnlb(before, began, from), Self::Hnlb(after, ended, to)) => {
                let run_ns = ended.saturating_sub(*began) as f64;
                busy_share(before, after) * run_ns + to.saturating_sub(*from) as f64
            }
            (Self::Process(from), Self::Process(to)) => to.saturating_sub(*from) as f64,
            _ => 0.0,
        }
    }
}

impl Running {
    /// Starts `system`.
    pub(super) fn start(
        system: System,
        lab: &mut Lab,
        binary: &Path,
        certificates: &Certificates,
    ) -> Result<Self, LabError> {
        let running = match system {
            System::Hnlb(_) => {
                let run = LabRun::emulated(Encoding::Off);
                let started =
                    Balancer::start_with(lab, binary, "hnlb-bench", run.device, |socket| {
                        run.base(socket) + &service(certificates)
                    })?;
                http_bench::Running::hnlb(started)
            }
            System::Haproxy(_) => {
                let both = together(lab, certificates)?;
                http_bench::Running::proxy(lab, system, &haproxy(&both), PORT)?
            }
            System::Nginx(_) => {
                let text = nginx(certificates, lab.dir());
                http_bench::Running::proxy(lab, system, &text, PORT)?
            }
        };
        Ok(Self(running))
    }

    pub(super) const fn system(&self) -> System {
        self.0.system()
    }

    pub(super) fn read(&self, lab: &Lab) -> Result<Reading, LabError> {
        let pid = self.0.pid();
        match self.0.balancer() {
            Some(balancer) => {
                let status = Box::new(balancer.status(lab)?);
                Ok(Reading::Hnlb(status, threads_ns(pid, &[WORKER])?, threads_ns(pid, &THREADS)?))
            }
            None => process_ns(pid).map(Reading::Process),
        }
    }

    pub(super) fn check(&self, lab: &mut Lab) -> Result<(), LabError> {
        self.0.check(lab)
    }

    pub(super) fn stop(self, lab: &mut Lab) -> Result<(), LabError> {
        self.0.stop(lab)
    }
}

fn service(certificates: &Certificates) -> String {
    let mut text = format!(
        "\n[[service]]\nname = \"web\"\nvip = \"{VIP4}\"\nport = {PORT}\n\
         protocol = \"https\"\nscheduler = \"round-robin\"\n[service.tls]\n{}\
         [[service.route]]\npath = \"{SHAKE}\"\n\
         maintenance = {{ text = \"ok\", status = 200, content_type = \"text/plain\" }}\n",
        certificates.tables()
    );
    for Host { v4, .. } in &BACKENDS {
        text += &format!("[[service.backend]]\naddress = \"{v4}\"\nport = {WEB_BACKEND_PORT}\n");
    }
    text
}

/// The chain and the key in one file, as HAProxy has them.
fn together(lab: &Lab, certificates: &Certificates) -> Result<String, LabError> {
    let file = lab.dir().join("haproxy.pem");
    let mut text = String::new();
    for path in certificates.of(Certificates::FIRST) {
        text += &std::fs::read_to_string(&path)
            .map_err(LabError::io(format!("read {}", path.display())))?;
    }
    std::fs::write(&file, text).map_err(LabError::io(format!("write {}", file.display())))?;
    Ok(file.display().to_string())
}

/// Connections to backends are kept and shared; the fields are those of HNLB.
fn haproxy(both: &str) -> String {
    let mut text = format!(
        "global\n  nbthread 1\n  maxconn 4096\n  ssl-default-bind-options ssl-min-ver TLSv1.2\n\
         defaults\n  mode http\n  timeout connect 10s\n  timeout client 120s\n  \
         timeout server 120s\n  timeout http-keep-alive 120s\n  option http-keep-alive\n  \
         http-reuse always\n  option splice-auto\n\
         listen web\n  bind {VIP4}:{PORT} backlog 4096 ssl crt {both} alpn h2,http/1.1\n  \
         http-request return status 200 content-type text/plain string ok if {{ path {SHAKE} }}\n  \
         balance roundrobin\n  option forwardfor\n  \
         http-request set-header X-Forwarded-Proto https\n  \
         http-request set-header X-Forwarded-Host %[req.hdr(host)]\n  \
         unique-id-format %[uuid()]\n  unique-id-header X-Request-Id\n"
    );
    for Host { name, v4, .. } in &BACKENDS {
        text += &format!("  server {name} {v4}:{WEB_BACKEND_PORT}\n");
    }
    text
}

/// Connections to backends are kept; bodies are passed on through memory, not files.
fn nginx(certificates: &Certificates, dir: &Path) -> String {
    let [chain, key] = certificates.of(Certificates::FIRST);
    let (dir, chain, key) = (dir.display(), chain.display(), key.display());
    let servers: String = BACKENDS
        .iter()
        .map(|Host { v4, .. }| format!("    server {v4}:{WEB_BACKEND_PORT};\n"))
        .collect();
    format!(
        "daemon off;\nmaster_process off;\nuser root;\nworker_rlimit_nofile 16384;\n\
         pid {dir}/proxy.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 8192; multi_accept on; }}\n\
         http {{\n  access_log off;\n  keepalive_timeout 3600s;\n  \
         keepalive_requests 1000000000;\n  tcp_nodelay on;\n  \
         client_body_temp_path {dir}/body;\n  proxy_temp_path {dir}/proxy;\n  \
         fastcgi_temp_path {dir}/fastcgi;\n  uwsgi_temp_path {dir}/uwsgi;\n  \
         scgi_temp_path {dir}/scgi;\n  \
         upstream web {{\n{servers}    keepalive 64;\n    keepalive_requests 1000000000;\n  }}\n  \
         server {{\n    listen {VIP4}:{PORT} ssl backlog=4096;\n    \
         ssl_certificate {chain};\n    ssl_certificate_key {key};\n    \
         ssl_protocols TLSv1.2 TLSv1.3;\n    ssl_session_cache shared:tls:10m;\n    \
         location = {SHAKE} {{ return 200 \"ok\"; }}\n    \
         location / {{\n      proxy_pass http://web;\n      proxy_http_version 1.1;\n      \
         proxy_set_header Connection \"\";\n      proxy_buffers 16 64k;\n      \
         proxy_buffer_size 64k;\n      proxy_busy_buffers_size 256k;\n      \
         proxy_max_temp_file_size 0;\n      \
         proxy_set_header X-Forwarded-For $remote_addr;\n      \
         proxy_set_header X-Forwarded-Proto $scheme;\n      \
         proxy_set_header X-Forwarded-Host $host;\n      \
         proxy_set_header X-Request-Id $request_id;\n    }}\n  }}\n}}\n"
    )
}
