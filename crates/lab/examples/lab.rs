//! The lab by itself: `cargo run -p lab --example lab -- up --without-hnlb`.
//!
//! The same commands as `hnlb lab …`; HNLB's program is the one that the
//! environment variable `HNLB` names.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: lab::LabCommand,
}

fn main() -> ExitCode {
    let binary = std::env::var_os("HNLB").unwrap_or_else(|| "hnlb".into());
    match Arguments::parse().command.run(&PathBuf::from(binary)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
