//! Loads, of which no request may fail.
use std::fs;

use super::certificates::NAMES;
use super::checks::{Run, TRANSFER};
use crate::LabError;
use crate::topology::{Family, vip};

/// Requests of one run of h2load.
const REQUESTS: u32 = 2_000;

impl Run<'_> {
    /// wrk and h2load, and wrk while certificates are exchanged.
    pub(super) fn loads(&mut self) -> Result<(), LabError> {
        self.wrk_load()?;
        self.h2load("h2load --h1", "--h1 -c 16")?;
        self.h2load("h2load -m 32", "-c 4 -m 32")?;
        self.flood()?;
        self.swap()
    }

    /// Connections that are established, alone and beside clients that do nothing but
    /// handshakes: no request fails. What they wait is for the reader to judge.
    fn flood(&mut self) -> Result<(), LabError> {
        let to = vip(Family::V4);
        let asks = format!("wrk -t1 -c4 -d3s --latency --timeout 10s https://{to}/");
        let asks: Vec<&str> = asks.split(' ').collect();
        let alone = self.lab.exec_for("c2", &asks, TRANSFER)?.success()?.stdout;
        let out = self.lab.dir().join("flood");
        let script = format!(
            "timeout 20 wrk -t1 -c64 -d6s --timeout 10s -H 'Connection: close' https://{to}/ \
             > {} 2>&1 & sleep 1; echo begun",
            out.display()
        );
        self.lab.exec("c1", &["sh", "-c", &script])?.success()?;
        let beside = self.lab.exec_for("c2", &asks, TRANSFER)?.success()?.stdout;
        let wait = format!("while ! grep -q Requests/sec {}; do sleep 0.2; done", out.display());
        self.lab.exec_for("c1", &["timeout", "30", "sh", "-c", &wait], TRANSFER)?;
        let flood = fs::read_to_string(&out).map_err(LabError::io("read wrk's report"))?;
        let p99 = |found: &str| {
            let line = found.lines().find_map(|line| line.trim().strip_prefix("99%"));
            line.map_or("?", str::trim).to_owned()
        };
        println!(
            "        p99 of established connections: {} alone, {} beside handshakes ({})",
            p99(&alone),
            p99(&beside),
            flood.lines().find(|line| line.contains("Requests/sec")).unwrap_or("").trim()
        );
        self.loaded("wrk beside handshakes", &beside);
        Ok(())
    }

    /// No request of h2load's fails.
    fn h2load(&mut self, what: &str, words: &str) -> Result<(), LabError> {
        let text = format!("h2load -t 1 -n {REQUESTS} {words} https://{}/", vip(Family::V4));
        let argv: Vec<&str> = text.split(' ').collect();
        let found = self.lab.exec_for("c2", &argv, TRANSFER)?.success()?.stdout;
        let line = |start: &str| found.lines().find_map(|line| line.strip_prefix(start));
        let succeeded = format!("{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout");
        let answered = format!(" {REQUESTS} 2xx,");
        let protocol = if words.contains("--h1") { "http/1.1" } else { "h2" };
        let all = line("Application protocol: ") == Some(protocol)
            && line("requests:").is_some_and(|rest| rest.contains(&succeeded))
            && line("status codes:").is_some_and(|rest| rest.starts_with(&answered));
        if all {
            println!("ok      {what}: {}", line("finished in ").unwrap_or_default());
        } else {
            self.fail(what, &found);
        }
        Ok(())
    }

    fn wrk(&self, seconds: u64) -> String {
        format!("wrk -t1 -c16 -d{seconds}s --timeout 10s https://{}/", vip(Family::V4))
    }

    /// No request of wrk's fails.
    fn wrk_load(&mut self) -> Result<(), LabError> {
        let words = self.wrk(self.seconds);
        let argv: Vec<&str> = words.split(' ').collect();
        let found = self.lab.exec_for("c2", &argv, TRANSFER)?.success()?.stdout;
        self.loaded("wrk", &found);
        Ok(())
    }

    /// Judges a report of wrk's.
    fn loaded(&mut self, what: &str, found: &str) {
        let rate = found.lines().find(|line| line.contains("Requests/sec")).unwrap_or("");
        let fails = ["Non-2xx", "Socket errors"].iter().any(|word| found.contains(word));
        if fails || rate.is_empty() {
            self.fail(what, found);
        } else {
            println!("ok      {what}: {}", rate.trim());
        }
    }

    /// Certificates are exchanged while wrk asks.
    fn swap(&mut self) -> Result<(), LabError> {
        let out = self.lab.dir().join("wrk");
        let (words, at) = (self.wrk(600), out.display());
        let start = format!("{words} > {at} 2>&1 & echo $!");
        let pid = self.lab.exec("c2", &["sh", "-c", &start])?.success()?.stdout;
        let shown = |run: &Self| -> Result<String, LabError> {
            let found = run.s_client("-servername a.lab")?;
            let lines = found.lines().skip_while(|line| !line.contains("BEGIN CERTIFICATE"));
            Ok(lines.take_while(|line| !line.contains("END CERTIFICATE")).collect())
        };
        let (mut last, mut changed) = (shown(self)?, 0);
        for _ in 0..self.swaps {
            for name in NAMES {
                self.certificates.renew(self.lab, name)?;
            }
            self.balancer.reload(self.lab, &self.lab.dir().join("hnlb-https.toml"))?;
            let now = shown(self)?;
            changed += u32::from(now != last);
            last = now;
        }
        // SIGINT: wrk reports what it has so far.
        let end = format!(
            "kill -s INT {0}; while kill -0 {0} 2>/dev/null; do sleep 0.1; done",
            pid.trim()
        );
        self.lab.exec("c2", &["sh", "-c", &end])?.success()?;
        let found = fs::read_to_string(&out).map_err(LabError::io("read wrk's report"))?;
        self.expect("certificates exchanged", &changed.to_string(), &self.swaps.to_string());
        self.loaded("wrk meanwhile", &found);
        Ok(())
    }
}
