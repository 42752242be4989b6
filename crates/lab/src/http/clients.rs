//! Clients besides curl and wrk: h2load and ab, which ask for the same again and again, and a
//! browser.
use std::fs;

use super::checks::{Run, TRANSFER, url};
use crate::topology::{BACKENDS, CLIENTS, Family};
use crate::{LabError, host};

/// Connections that h2load and ab have at a time.
const OPEN: usize = 16;
/// What ab gets, so that the bytes of all responses are known.
const LENGTH: usize = 14_600;
/// Names that Chromium has.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// What the browser moves, down and up.
const BODIES: [usize; 6] = [0, 1, 1448, 65_535, 65_537, 1 << 20];

/// A page that fetches bodies, compares every byte, sends them to a backend, and says in the
/// end what it has seen.
const PAGE: &str = include_str!("page.html");

impl Run<'_> {
    /// Each of them has no failed request.
    pub(super) fn clients(&mut self, link: &str, requests: usize) -> Result<(), LabError> {
        for family in [Family::V4, Family::V6] {
            self.h2load(link, family, requests)?;
            for last in [true, false] {
                self.ab(link, family, requests, last)?;
            }
        }
        Ok(())
    }

    /// h2load sends requests without waiting for the responses before.
    fn h2load(&mut self, link: &str, family: Family, requests: usize) -> Result<(), LabError> {
        let words = format!("h2load --h1 -n{requests} -c{OPEN} -m8 -T60 -N60 {}/", url(family));
        let found = self.asks(&words)?;
        let line = found.lines().find(|line| line.starts_with("requests:")).unwrap_or(&found);
        let wanted = format!(
            "requests: {requests} total, {requests} started, {requests} done, \
             {requests} succeeded, 0 failed, 0 errored, 0 timeout"
        );
        self.expect(&format!("{link}: h2load, pipelined, {family:?}"), line, &wanted);
        Ok(())
    }

    /// ab speaks HTTP/1.0, on connections that `last` or on one for each request.
    fn ab(
        &mut self,
        link: &str,
        family: Family,
        requests: usize,
        last: bool,
    ) -> Result<(), LabError> {
        let (keep, which) = if last { ("-k ", "kept") } else { ("", "new") };
        let words =
            format!("ab -q -s 60 {keep}-n {requests} -c {OPEN} {}/body{LENGTH}", url(family));
        let found = self.asks(&words)?;
        let value = |name: &str| {
            let line = found.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()).unwrap_or("-").to_owned()
        };
        let names =
            ["Complete requests:", "Failed requests:", "Non-2xx responses:", "HTML transferred:"];
        let bytes = requests * LENGTH;
        let what = format!("{link}: ab, {which} connections, {family:?}");
        self.expect(&what, &names.map(value).join(" "), &format!("{requests} 0 - {bytes}"));
        Ok(())
    }

    /// What a load prints, at the first client.
    fn asks(&self, words: &str) -> Result<String, LabError> {
        let argv: Vec<&str> = words.split(' ').collect();
        let output = self.lab.exec_for(CLIENTS[0].name, &argv, TRANSFER)?;
        Ok(output.stdout + &output.stderr)
    }

    /// A browser moves bodies both ways, several at a time. It is not needed: where there is
    /// none, that is said.
    pub(super) fn browser(&mut self) -> Result<(), LabError> {
        let Some(program) = BROWSERS.into_iter().find(|name| host::has(name)) else {
            println!("skipped a browser: none of {} is installed", BROWSERS.join(", "));
            return Ok(());
        };
        for own in &BACKENDS {
            let path = self.lab.dir().join(own.name).join("html/page.html");
            let page = PAGE.replace("LENGTHS", &format!("{BODIES:?}"));
            fs::write(&path, page).map_err(LabError::io(format!("write {}", path.display())))?;
        }
        let home = self.lab.dir().join("browser");
        for family in [Family::V4, Family::V6] {
            let script = format!(
                "HOME={home} exec {program} --headless --no-sandbox --disable-gpu \
                 --disable-dev-shm-usage --user-data-dir={home}/profile \
                 --virtual-time-budget=120000 --dump-dom {}/page.html 2>{home}.log",
                url(family),
                home = home.display(),
            );
            let output = self.lab.exec_for(CLIENTS[0].name, &["sh", "-c", &script], TRANSFER)?;
            let told = output.stdout.split_once("<pre id=\"told\">");
            let told = told.and_then(|(_, rest)| rest.split_once("</pre>"));
            let (told, _) = told.unwrap_or((output.stdout.as_str(), ""));
            let all = BODIES.map(|length| length.to_string()).join(" ");
            let wanted = format!("down {all} up {all}");
            self.expect(&format!("{program}, {family:?}"), told.trim(), &wanted);
            for length in BODIES {
                let stored = self.lab.dir().join(BACKENDS[1].name);
                let stored = stored.join(format!("html/up/browser{length}"));
                let same = fs::read(&stored).ok().is_some_and(|got| {
                    fs::read(self.file(length)).is_ok_and(|wanted| got == wanted)
                });
                let _ = fs::remove_file(stored);
                let what = format!("{program}, {family:?}: {length} bytes as they were sent");
                self.expect(&what, &same.to_string(), "true");
            }
        }
        Ok(())
    }
}
