//! `hnlb-ndpi`: a network function that classifies every flow with libndpi.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use middlebox::{Attachment, Function};
use ndpi::Inspector;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Deep packet inspection at an attachment of `hnlb nf run`, until Ctrl-C or SIGTERM;
/// then prints what it has seen as JSON. Example: hnlb-ndpi --attach
/// vhost:/run/hnlb/nf0.sock
#[derive(Debug, Parser)]
#[command(name = "hnlb-ndpi", version, max_term_width = 100)]
struct Cli {
    /// The attachment, as it is in the server's configuration.
    #[arg(long, value_name = "ATTACHMENT")]
    attach: Attachment,
    /// Take memory from huge pages only.
    #[arg(long)]
    huge_pages: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hnlb-ndpi: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let mut inspector = Inspector::new().ok_or("libndpi has no memory for its protocols")?;
    let pages = if cli.huge_pages { dpdk::HugePages::Require } else { dpdk::HugePages::Auto };
    let report = Function::attach(&cli.attach, pages)?.run(&mut inspector, &stop)?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
