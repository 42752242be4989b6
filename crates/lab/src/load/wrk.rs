//! HTTP load by wrk.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use super::{Length, PerBackend};
use crate::topology::WEB_PORT;
use crate::{Lab, LabError};

/// The script that makes wrk count backends and print JSON.
const SCRIPT: &str = include_str!("wrk.lua");

/// How connections are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Opened once, used for the whole run.
    KeepAlive,
    /// A new one for each request.
    Short,
}

/// What an HTTP load run saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HttpResult {
    /// Requests answered, with whatever status.
    pub requests: u64,
    /// Requests that failed: socket errors, timeouts, status not 2xx or 3xx.
    pub failed: u64,
    /// The failures by kind.
    pub errors: HttpErrors,
    /// Connections opened, as far as the client knows.
    pub connections: u64,
    /// Requests a second.
    pub rps: f64,
    /// Median latency, in microseconds.
    pub p50_us: u64,
    /// 99th percentile of the latency, in microseconds.
    pub p99_us: u64,
    /// 99.9th percentile of the latency, in microseconds.
    pub p999_us: u64,
    /// Answers by backend.
    pub backends: PerBackend,
}

/// Failed requests by kind, as wrk tells them apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct HttpErrors {
    /// No connection.
    pub connect: u64,
    /// Connection lost while reading.
    pub read: u64,
    /// Connection lost while writing.
    pub write: u64,
    /// A status that is not 2xx or 3xx.
    pub status: u64,
    /// No answer in time.
    pub timeout: u64,
}

/// The line of JSON that the script prints.
#[derive(Deserialize)]
struct Report {
    requests: u64,
    duration_us: u64,
    #[serde(flatten)]
    errors: HttpErrors,
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
    backends: PerBackend,
}

/// A load of HTTP requests.
#[derive(Debug, Clone, Copy)]
pub struct HttpLoad<'a> {
    /// How long it lasts.
    pub length: Length<'a>,
    /// Connections open at a time.
    pub connections: u32,
    /// How they are used.
    pub use_: Connections,
    /// Milliseconds that a connection waits before each request.
    pub pause_ms: u32,
}

impl HttpLoad<'_> {
    /// Without pauses.
    #[must_use]
    pub const fn of(seconds: u64, connections: u32, use_: Connections) -> Self {
        Self { length: Length::Seconds(seconds), connections, use_, pause_ms: 0 }
    }

    /// Runs wrk from a client against the web service at a VIP.
    ///
    /// # Errors
    /// If wrk cannot run or reach the VIP at all, or the lab is to stop. Requests
    /// that fail in the course are counted in the result.
    pub fn run(&self, lab: &Lab, client: &str, vip: IpAddr) -> Result<HttpResult, LabError> {
        self.run_at(lab, client, SocketAddr::new(vip, WEB_PORT))
    }

    /// As [`HttpLoad::run`], against any server.
    ///
    /// # Errors
    /// As [`HttpLoad::run`].
    pub fn run_at(
        &self,
        lab: &Lab,
        client: &str,
        server: SocketAddr,
    ) -> Result<HttpResult, LabError> {
        self.run_path(lab, client, server, "/")
    }

    /// As [`HttpLoad::run_at`], with requests for `path`.
    ///
    /// # Errors
    /// As [`HttpLoad::run`].
    pub fn run_path(
        &self,
        lab: &Lab,
        client: &str,
        server: SocketAddr,
        path: &str,
    ) -> Result<HttpResult, LabError> {
        self.run_url(lab, client, &url(server.ip(), server.port(), path))
    }

    /// As [`HttpLoad::run_at`], with requests for a whole URL, of `http` or `https`.
    ///
    /// # Errors
    /// As [`HttpLoad::run`].
    pub fn run_url(&self, lab: &Lab, client: &str, url: &str) -> Result<HttpResult, LabError> {
        let script = lab.shared_file("wrk.lua", SCRIPT)?;
        let (c, d) = (format!("-c{}", self.connections), format!("-d{}s", self.length.seconds()));
        let pause = self.pause_ms.to_string();
        let mut argv = vec!["wrk", "-t1", &c, &d, "--timeout", "10s", "-s", &script];
        if self.use_ == Connections::Short {
            argv.extend(["-H", "Connection: close"]);
        }
        argv.push(url);
        if self.pause_ms > 0 {
            argv.extend(["--", &pause]);
        }
        let output = lab.exec_load(client, &argv, self.length)?.success()?;
        parse(&output.stdout, self.connections, self.use_)
    }
}

/// `http://ADDRESS:PORT/path`, IPv6 addresses in brackets.
pub(crate) fn url(address: IpAddr, port: u16, path: &str) -> String {
    format!("http://{}{path}", std::net::SocketAddr::new(address, port))
}

fn parse(stdout: &str, connections: u32, use_: Connections) -> Result<HttpResult, LabError> {
    let bad = |detail: String| LabError::Parse { tool: "wrk", detail };
    let line = stdout.lines().rev().find(|line| line.starts_with('{'));
    let line = line.ok_or_else(|| bad(format!("no line of JSON in: {stdout}")))?;
    let report: Report = serde_json::from_str(line).map_err(|e| bad(format!("{e} in: {line}")))?;
    let HttpErrors { connect, read, write, status, timeout } = report.errors;
    let socket = connect + read + write + timeout;
    let opened = match use_ {
        Connections::KeepAlive => u64::from(connections),
        Connections::Short => report.requests,
    };
    #[allow(clippy::cast_precision_loss)]
    let rps = report.requests as f64 / (report.duration_us.max(1) as f64 / 1e6);
    Ok(HttpResult {
        requests: report.requests,
        failed: socket + status,
        errors: report.errors,
        connections: opened + socket,
        rps,
        p50_us: report.p50_us,
        p99_us: report.p99_us,
        p999_us: report.p999_us,
        backends: report.backends,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Running 1s test @ http://10.71.0.100/\n\
        \x20 1 threads and 2 connections\n\
        \x20 Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
        Requests/sec:  29921.79\n\n\
        {\"requests\":3000,\"duration_us\":1500000,\"bytes\":5,\"connect\":1,\"read\":2,\
        \"write\":3,\"status\":4,\"timeout\":5,\"p50_us\":60,\"p99_us\":700,\"p999_us\":800,\"max_us\":900,\
        \"backends\":{\"b1\":1000,\"b2\":2000}}\n";

    #[test]
    fn every_kind_of_error_is_a_failure() {
        let result = parse(PRINTED, 2, Connections::KeepAlive).unwrap();
        assert_eq!(result.requests, 3000);
        assert_eq!(result.failed, 15);
        assert_eq!((result.p50_us, result.p99_us, result.p999_us), (60, 700, 800));
        assert!((result.rps - 2000.0).abs() < 0.01, "{}", result.rps);
        assert_eq!(result.backends["b2"], 2000);
    }

    #[test]
    fn short_connections_are_as_many_as_requests() {
        assert_eq!(parse(PRINTED, 2, Connections::Short).unwrap().connections, 3011);
        assert_eq!(parse(PRINTED, 2, Connections::KeepAlive).unwrap().connections, 13);
    }

    #[test]
    fn output_without_the_report_is_an_error() {
        for text in ["", "Requests/sec: 12\n", "{\"requests\":1}\n"] {
            assert!(parse(text, 1, Connections::Short).is_err(), "{text}");
        }
    }

    #[test]
    fn ipv6_addresses_are_bracketed() {
        assert_eq!(url("fd71::100".parse().unwrap(), 80, "/big"), "http://[fd71::100]:80/big");
    }
}
