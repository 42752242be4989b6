//! Writes a report of invented rows, to look at: `cargo run -p measure --example synthetic DIR`.
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use measure::report::{Machine, Report};

fn main() {
    let dir = std::env::args().nth(1).expect("a directory to write to");
    let settings = vec![("Repetitions".to_owned(), "7".to_owned())];
    let mut report = Report::new(Machine::this("unknown"), settings, synthetic::findings(7));
    report.notes.push("These rows are invented, to try the report.".into());
    let files = report.write(dir.as_ref()).expect("a directory that can be written");
    for file in files {
        println!("{}", file.display());
    }
}
