//! `hnlb top`: what a running load balancer does, live.
use std::io::IsTerminal;
use std::process::ExitCode;

use api::Client;
use status::{Picture, Status};
use top::{Screen, View};

use crate::cli::TopArgs;
use crate::{CommandError, CommandResult, output};

pub(crate) fn run(args: &TopArgs) -> CommandResult {
    let screen = screen(args)?;
    if args.once || args.json {
        return once(args, &screen);
    }
    if !std::io::stdout().is_terminal() {
        return Err("standard output is no terminal; --once or --json prints one picture".into());
    }
    let client = Client::new(&args.socket);
    // Refused before the terminal changes.
    let _: Status = client.get(&["v1", "status"])?;
    let ask = move || client.get(&["v1", "status"]).map_err(|error| error.to_string());
    top::live(ask, args.interval, screen)?;
    Ok(ExitCode::SUCCESS)
}

/// What the user has chosen.
fn screen(args: &TopArgs) -> Result<Screen, CommandError> {
    let view = args.view.unwrap_or_default();
    let screen =
        Screen::default().with_view(view).filtered_by(args.filter.as_deref().unwrap_or_default());
    let Some(name) = &args.sort else { return Ok(screen) };
    let column = view.column(name).ok_or_else(|| {
        let names: Vec<&str> = view.column_names().collect();
        let (view, names) = (view.name(), names.join(", "));
        format!("--sort {name}: the view {view} has the columns {names}")
    })?;
    Ok(screen.sorted_by(column))
}

/// One picture, from two reports.
fn once(args: &TopArgs, screen: &Screen) -> CommandResult {
    let client = Client::new(&args.socket);
    let before: Status = client.get(&["v1", "status"])?;
    std::thread::sleep(args.interval);
    let picture = Picture::between(Some(&before), &client.get(&["v1", "status"])?);
    let text = if args.json {
        serde_json::to_string(&picture)? + "\n"
    } else {
        let chosen = args.view.map(|view| vec![view]);
        top::page(&picture, screen, &chosen.unwrap_or_else(|| View::ALL.to_vec()))
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
