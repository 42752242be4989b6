//! The access log: what curl has asked for stands in it, also in the file that follows one
//! that was moved away.
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::checks::{Run, url};
use crate::topology::{BACKENDS, Family};
use crate::{Lab, LabError};

/// How long a line may take to get into the file; generous, for busy machines.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where HNLB writes it.
pub(super) fn path(lab: &Lab) -> PathBuf {
    lab.dir().join("access.log")
}

impl Run<'_> {
    /// Requests get lines with what is known of them.
    pub(super) fn access_log(&mut self) -> Result<(), LabError> {
        let url = url(Family::V4);
        let b1 = BACKENDS[0].address(Family::V4);
        for (words, path, wanted) in [
            (
                format!("-H Host:a.lab '{url}/log1?secret=1'"),
                "/log1",
                format!("GET a.lab web4 1 \"a\" {b1} 404 null"),
            ),
            (
                format!("-H Host:a.lab --data-binary @{} {url}/log2", self.body(65_537)),
                "/log2",
                format!("POST a.lab web4 1 \"a\" {b1} 404 null"),
            ),
            (
                format!("-H Host:old.lab {url}/log3"),
                "/log3",
                "GET old.lab web4 4 null null 308 null".to_owned(),
            ),
            (
                format!("-H Host:a.lab -H 'Content-Length: x' {url}/log4"),
                "",
                "   null null null 400 \"Length\"".to_owned(),
            ),
        ] {
            self.curl(&format!("-o /dev/null {words}"))?;
            let line = self.line(path);
            self.expect(&format!("the access log's line of {path}"), &told(&line), &wanted);
            if path == "/log2" {
                let bytes = line.get("bytes_in").and_then(Value::as_u64).unwrap_or(0);
                let whole = (65_537..66_000).contains(&bytes);
                self.expect("its length with the header", &whole.to_string(), "true");
            }
        }
        let old = self.lab.dir().join("access.log.1");
        fs::rename(path(self.lab), &old).map_err(LabError::io("move the access log"))?;
        let asked = Instant::now();
        let mut found = Value::Null;
        while found.is_null() && asked.elapsed() < PATIENCE {
            self.curl(&format!("-o /dev/null {url}/log5"))?;
            found = self.find("/log5").unwrap_or_default();
        }
        self.expect("a new file behind one moved away", &(!found.is_null()).to_string(), "true");
        Ok(())
    }

    fn body(&self, length: usize) -> String {
        self.lab.dir().join(format!("body{length}")).display().to_string()
    }

    /// The last line about the path, as soon as there is one.
    fn line(&self, path: &str) -> Value {
        let asked = Instant::now();
        loop {
            match self.find(path) {
                Some(line) => return line,
                None if asked.elapsed() > PATIENCE => return Value::Null,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn find(&self, wanted: &str) -> Option<Value> {
        let text = fs::read_to_string(path(self.lab)).ok()?;
        let lines = text.lines().rev().filter_map(|line| serde_json::from_str(line).ok());
        let mut lines = lines.filter(|line: &Value| line["path"] == wanted);
        // What could not be read has no path.
        lines.find(|line| !wanted.is_empty() || line["why"] == "Length")
    }
}

/// What is compared of a line.
fn told(line: &Value) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or("null").to_owned();
    let backend = text("backend");
    let backend = backend.rsplit_once(':').map_or("null", |(address, _)| address);
    let [method, host, service] = ["method", "host", "service"].map(text);
    format!(
        "{method} {host} {} {} {} {backend} {} {}",
        if method.is_empty() { String::new() } else { service },
        line["route"],
        line["group"],
        line["status"],
        line["why"]
    )
}
