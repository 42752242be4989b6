//! DNS load by dnsperf.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::Length;
use crate::topology::DNS_PORT;
use crate::{Lab, LabError};

/// What a DNS load run saw.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DnsResult {
    /// Queries sent.
    pub sent: u64,
    /// Queries answered.
    pub completed: u64,
    /// Queries without an answer within five seconds.
    pub lost: u64,
    /// Answers with another code than NOERROR.
    pub errors: u64,
    /// Answered queries a second.
    pub qps: f64,
}

impl DnsResult {
    /// Queries that failed: lost, or answered with an error.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.lost + self.errors
    }
}

/// The questions, each round of them again.
const QUESTIONS: [&str; 3] = ["who.lab TXT", "who.lab A", "who.lab AAAA"];

/// Runs dnsperf from a client against a VIP's DNS service, from `sockets` source
/// ports, with at most 20 queries unanswered, so that a slow answer slows the
/// load instead of overflowing a socket, and at most `rate` queries a second.
///
/// # Errors
/// If dnsperf cannot run, or the lab is to stop.
pub fn dns(
    lab: &Lab,
    client: &str,
    vip: IpAddr,
    length: Length<'_>,
    sockets: u32,
    rate: Option<u32>,
) -> Result<DnsResult, LabError> {
    dns_at(lab, client, SocketAddr::new(vip, DNS_PORT), length, sockets, rate)
}

/// As [`dns`], against any server.
///
/// # Errors
/// As [`dns`].
pub fn dns_at(
    lab: &Lab,
    client: &str,
    server: SocketAddr,
    length: Length<'_>,
    sockets: u32,
    rate: Option<u32>,
) -> Result<DnsResult, LabError> {
    let queries = questions(lab)?;
    let (server, port) = (server.ip().to_string(), server.port().to_string());
    let (seconds, clients) = (length.seconds().to_string(), sockets.to_string());
    let mut argv = vec![
        "dnsperf", "-s", &server, "-p", &port, "-d", &queries, "-l", &seconds, "-c", &clients,
        "-T", "1", "-q", "20", "-t", "5",
    ];
    let rate = rate.map(|rate| rate.to_string());
    if let Some(rate) = &rate {
        argv.extend(["-Q", rate]);
    }
    let output = lab.exec_load(client, &argv, length)?.success()?;
    parse(&output.stdout)
}

/// As [`dns`], but `queries` in all, rounded down to whole rounds of the
/// questions; from one of the client's addresses and one socket, with `rate`
/// queries a second and at most 10 unanswered.
///
/// # Errors
/// As [`dns`].
pub fn dns_from(
    lab: &Lab,
    client: &str,
    from: IpAddr,
    vip: IpAddr,
    queries: u32,
    rate: u32,
) -> Result<DnsResult, LabError> {
    let file = questions(lab)?;
    let (server, port, from) = (vip.to_string(), DNS_PORT.to_string(), from.to_string());
    let rounds = (queries / QUESTIONS.len() as u32).to_string();
    let limit = Duration::from_secs(u64::from(queries / rate.max(1)) + 60);
    let rate = rate.to_string();
    let argv = [
        "dnsperf", "-s", &server, "-p", &port, "-a", &from, "-d", &file, "-n", &rounds, "-c", "1",
        "-T", "1", "-Q", &rate, "-q", "10", "-t", "5",
    ];
    let output = lab.exec_for(client, &argv, limit)?.success()?;
    parse(&output.stdout)
}

/// The file of the questions.
fn questions(lab: &Lab) -> Result<String, LabError> {
    lab.shared_file("queries", &(QUESTIONS.join("\n") + "\n"))
}

fn parse(stdout: &str) -> Result<DnsResult, LabError> {
    let field = |name: &str| -> Result<&str, LabError> {
        let value = stdout.lines().find_map(|line| line.trim().strip_prefix(name));
        value.map(str::trim).ok_or_else(|| LabError::Parse {
            tool: "dnsperf",
            detail: format!("no line `{name}` in: {stdout}"),
        })
    };
    let number = |name: &str| -> Result<f64, LabError> {
        let text = field(name)?.split_ascii_whitespace().next().unwrap_or_default();
        text.parse().map_err(|e| LabError::Parse {
            tool: "dnsperf",
            detail: format!("`{name} {text}`: {e}"),
        })
    };
    let count = |name: &str| -> Result<u64, LabError> {
        let value = number(name)?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let whole = value.max(0.0) as u64;
        Ok(whole)
    };
    let completed = count("Queries completed:")?;
    // Without an answer there is no line of codes.
    let fine = field("Response codes:").map(no_error).unwrap_or(0);
    Ok(DnsResult {
        sent: count("Queries sent:")?,
        completed,
        lost: count("Queries lost:")?,
        errors: completed.saturating_sub(fine),
        qps: number("Queries per second:")?,
    })
}

/// The count after NOERROR in `NOERROR 12 (99.0%), SERVFAIL 1 (1.0%)`.
fn no_error(codes: &str) -> u64 {
    let part = codes.split(',').find_map(|part| part.trim().strip_prefix("NOERROR "));
    let text = part.and_then(|part| part.split_ascii_whitespace().next());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "[Status] Testing complete (time limit)\n\nStatistics:\n\n\
        \x20 Queries sent:         1003\n\
        \x20 Queries completed:    1001 (99.80%)\n\
        \x20 Queries lost:         2 (0.20%)\n\n\
        \x20 Response codes:       NOERROR 998 (99.70%), SERVFAIL 3 (0.30%)\n\
        \x20 Average packet size:  request 25, response 41\n\
        \x20 Run time (s):         2.000043\n\
        \x20 Queries per second:   500.489\n";

    #[test]
    fn losses_and_error_answers_are_failures() {
        let result = parse(PRINTED).unwrap();
        assert_eq!((result.sent, result.completed, result.lost), (1003, 1001, 2));
        assert_eq!(result.failed(), 5);
        assert!((result.qps - 500.489).abs() < 1e-6);
    }

    #[test]
    fn nothing_answered_is_read_too() {
        let text = "  Queries sent:  10\n  Queries completed: 0 (0.00%)\n\
                    \x20 Queries lost: 10 (100.00%)\n  Queries per second: 0.000000\n";
        assert_eq!(parse(text).unwrap().failed(), 10);
    }

    #[test]
    fn other_output_is_an_error() {
        assert!(parse("dnsperf: unable to open\n").is_err());
        assert!(parse(&PRINTED.replace("1003", "many")).is_err());
    }
}
