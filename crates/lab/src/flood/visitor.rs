//! New connections, at a steady pace: how many are served, and how soon.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::topology::{Family, WEB_PORT, vip};
use crate::{LabError, Stop};

/// How long a connection and its answer may take: a lost SYN is sent again after
/// 1, 3 and 7 s.
const PATIENCE: Duration = Duration::from_secs(10);
/// Visitors at a time. Each opens one connection after the other, so that one
/// that waits does not keep the others.
const VISITORS: u32 = 32;

/// What the visitors are to do.
#[derive(Debug, Clone, Args)]
pub struct Visitor {
    /// New connections a second, if none has to wait
    #[arg(long)]
    rate: u32,
}

/// What became of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Visited {
    pub(crate) tried: u64,
    pub(crate) served: u64,
    /// Microseconds from the first SYN to the whole answer, of those served.
    pub(super) p50_us: u64,
    pub(crate) p99_us: u64,
    /// SYNs that this host's kernel sent again meanwhile, of these and other connections.
    pub(super) syn_again: u64,
    /// Why others were not served, with their number.
    pub(crate) errors: std::collections::BTreeMap<String, u64>,
}

impl Visitor {
    /// Opens connections until the stop; prints what became of them.
    ///
    /// # Errors
    /// None; what fails is counted.
    pub fn run(&self, stop: &Stop) -> Result<bool, LabError> {
        let pause = Duration::from_secs(1) * VISITORS / self.rate.max(1);
        let all = Mutex::new((Vec::new(), Visited::default()));
        let before = syns_again();
        std::thread::scope(|scope| {
            for number in 0..VISITORS {
                let all = &all;
                scope.spawn(move || {
                    // Not all at the same moment.
                    let mut next = Instant::now() + pause * number / VISITORS;
                    while stop.sleep(next.saturating_duration_since(Instant::now())).is_ok() {
                        next = Instant::now() + pause;
                        let family = if number % 2 == 0 { Family::V4 } else { Family::V6 };
                        let (begin, done) = (Instant::now(), visit(family));
                        let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        all.1.tried += 1;
                        match done {
                            Ok(()) => all.0.push(begin.elapsed()),
                            Err(error) => *all.1.errors.entry(error.to_string()).or_default() += 1,
                        }
                    }
                });
            }
        });
        let (mut times, mut seen) =
            all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        times.sort_unstable();
        seen.served = times.len() as u64;
        seen.syn_again = syns_again() - before;
        (seen.p50_us, seen.p99_us) = (quantile(&times, 50), quantile(&times, 99));
        println!("{}", serde_json::json!(seen));
        Ok(true)
    }
}

/// The quantile in percent of sorted times, in microseconds; 0 without any.
fn quantile(times: &[Duration], percent: usize) -> u64 {
    let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(at).map_or(0, |time| time.as_micros() as u64)
}

/// SYNs that the kernel of this namespace has sent again (`TCPSynRetrans` of
/// proc(5), `/proc/net/netstat`: a line of names, then a line of counts).
fn syns_again() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap_or_default();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, counts) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut both = names.split_ascii_whitespace().zip(counts.split_ascii_whitespace());
    both.find(|(name, _)| *name == "TCPSynRetrans").map_or(0, |(_, own)| own.parse().unwrap_or(0))
}

/// One request on a connection of its own.
fn visit(family: Family) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(vip(family), WEB_PORT), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match (answer.starts_with("HTTP/1.1 200 "), answer.rsplit_once("\r\n\r\n")) {
        (true, Some((_, body))) if body.starts_with('b') => Ok(()),
        _ => Err(std::io::Error::other("an answer that is not a backend's")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_smallest_value_that_so_many_do_not_exceed() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        assert_eq!((quantile(&times, 50), quantile(&times, 99)), (100, 198));
        assert_eq!((quantile(&times[..1], 99), quantile(&[], 50)), (1, 0));
    }
}
