//! Puts HNLB's version into `HNLB_VERSION`: `git describe` where there is a
//! repository, else the crate's version.
use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let crate_version = env!("CARGO_PKG_VERSION");
    let described = git(&["describe", "--always", "--dirty", "--abbrev=12"]);
    let version = match described {
        Some(commit) => format!("{crate_version}, commit {commit}"),
        None => crate_version.to_owned(),
    };
    // Figures are those of release builds; others aren't built again for each
    // commit, and say what they are.
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let version = if release { version } else { format!("{version}, not a release build") };
    println!("cargo::rustc-env=HNLB_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
    let head = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| release);
    if let Some(log) = head {
        println!("cargo::rerun-if-changed={log}");
    }
}
