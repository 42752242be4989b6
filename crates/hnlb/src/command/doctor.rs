//! `hnlb doctor`: what the machine lacks for a configuration.
use std::fmt::Write as _;
use std::process::ExitCode;

use config::Config;
use machine::{Finding, Grade, Tree};

use crate::cli::DoctorArgs;
use crate::{CommandResult, output};

/// Fails if something keeps HNLB from starting, or loses packets.
pub(crate) fn run(args: &DoctorArgs) -> CommandResult {
    let config = Config::load(&args.config)?;
    let findings = machine::examine(&Tree::default(), &config);
    if args.json {
        output::print(&(serde_json::to_string(&findings)? + "\n"))?;
    } else {
        output::print(&page(&findings))?;
    }
    let wrong = findings.iter().any(|own| own.grade == Grade::Wrong);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn page(findings: &[Finding]) -> String {
    let mut page = String::new();
    for Finding { subject, grade, text, remedy } in findings {
        let grade = match grade {
            Grade::Good => "good",
            Grade::Slow => "slow",
            Grade::Wrong => "WRONG",
        };
        let _ = writeln!(page, "{grade:<6} {subject:<12} {text}");
        if let Some(remedy) = remedy {
            let _ = writeln!(page, "{:<19} {remedy}", "");
        }
    }
    page
}
