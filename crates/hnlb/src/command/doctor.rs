//! `hnlb doctor`: what the machine lacks for a configuration.
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use config::Config;
use machine::{Finding, Grade, Tree};

use crate::cli::DoctorArgs;
use crate::{CommandError, CommandResult, output};

/// Where the configuration is unless another file is named.
const USUAL: &str = "/etc/hnlb/hnlb.toml";

/// Fails if something keeps HNLB from starting, or loses packets.
pub(crate) fn run(args: &DoctorArgs) -> CommandResult {
    let findings = findings(args)?;
    if args.json {
        output::print(&(serde_json::to_string(&findings)? + "\n"))?;
    } else {
        output::print(&page(&findings))?;
    }
    let wrong = findings.iter().any(|own| own.grade == Grade::Wrong);
    Ok(if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Of a file that was named, or that is in its usual place; without one, of the machine.
fn findings(args: &DoctorArgs) -> Result<Vec<Finding>, CommandError> {
    let usual = Path::new(USUAL);
    let file = match &args.config {
        Some(file) => file,
        None if usual.exists() => usual,
        None => {
            eprintln!("hnlb: there is no {USUAL}: this is the machine without a configuration");
            return Ok(machine::survey(&Tree::default()));
        }
    };
    Ok(machine::examine(&Tree::default(), &Config::load(file)?))
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
