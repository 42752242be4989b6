//! `hnlb announce`, `hnlb drain`, `hnlb restore`: which VIPs routers are told of.
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use api::Client;
use config::Config;
use serde_json::json;
use status::AnnounceStatus;

use crate::cli::{AnnounceCommand, AnnounceShowArgs, DrainArgs, RenderArgs, Renderer};
use crate::{CommandResult, output};

pub(crate) fn run(command: &AnnounceCommand) -> CommandResult {
    match command {
        AnnounceCommand::Show(args) => show(args),
        AnnounceCommand::Render(args) => render(args),
    }
}

/// Withdraws all VIPs, or has them announced again.
pub(crate) fn steer(args: &DrainArgs, withdraw: bool) -> CommandResult {
    let verb = if withdraw { "withdraw" } else { "resume" };
    let done: AnnounceStatus = Client::new(&args.socket).post(&["v1", "announce", verb], &())?;
    print(&done, args.json)
}

fn show(args: &AnnounceShowArgs) -> CommandResult {
    let text = Client::new(&args.socket).text(&["v1", "announce"])?;
    print(&serde_json::from_str(&text)?, args.json)
}

fn print(own: &AnnounceStatus, json: bool) -> CommandResult {
    if json {
        output::print(&(serde_json::to_string(own)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for vip in &own.vips {
        let _ = writeln!(text, "{:<40} {}", vip.vip, vip.state);
    }
    if !own.error.is_empty() {
        let AnnounceStatus { device, table, error, .. } = own;
        eprintln!("warning: the kernel refuses a route over {device} in table {table}: {error}");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn render(args: &RenderArgs) -> CommandResult {
    let config = Config::load(&args.config)?;
    let file = whole(&args.config).display().to_string();
    let (program, text) = match args.program {
        Renderer::Bird => ("bird", announce::bird(&config, &file)?),
        Renderer::Keepalived => ("keepalived", announce::keepalived(&config, &file)?),
    };
    if args.json {
        output::print(&(json!({ "program": program, "text": text }).to_string() + "\n"))?;
    } else {
        output::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The path from the root, as far as it can be told.
fn whole(path: &Path) -> std::path::PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
