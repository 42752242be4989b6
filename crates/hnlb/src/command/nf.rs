//! `hnlb nf`: a middlebox server and its functions.
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api::Socket;
use middlebox::{Config, Function, Report, Server, Work};

use crate::cli_nf::{NfCheckArgs, NfCommand, NfFunctionArgs, NfRunArgs, NfStatusArgs};
use crate::supervisor::Supervisor;
use crate::{CommandResult, output, stop};

/// How often the main thread looks at links and at the status socket.
const LOOK: Duration = Duration::from_millis(5);
/// How long a server that ends may take to let go of the socket.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(command: &NfCommand) -> CommandResult {
    match command {
        NfCommand::Run(args) => serve(args),
        NfCommand::Check(args) => check(args),
        NfCommand::Status(args) => status(args),
        NfCommand::Function(args) => function(args),
    }
}

fn serve(args: &NfRunArgs) -> CommandResult {
    let config = Config::load(&args.config)?;
    let signals = stop::on_signal()?;
    let status = config::Status { socket: config.socket.clone(), ..config::Status::default() };
    let socket = Socket::bind(&status, PATIENCE)?;
    socket.listener().set_nonblocking(true)?;
    let (pairs, functions) = (config.pairs.len(), config.functions.len());
    let mut server = Server::start(config)?;
    tracing::info!(pairs, functions, "running; `hnlb nf status` shows what it does");
    let mut supervisor = Supervisor::from_env();
    supervisor.ready();
    while !signals.stop.load(Ordering::Relaxed) {
        server.watch()?;
        middlebox::answer(socket.listener(), &server.report());
        supervisor.alive(std::time::Instant::now());
        std::thread::sleep(LOOK);
    }
    supervisor.stopping();
    Ok(ExitCode::SUCCESS)
}

fn check(args: &NfCheckArgs) -> CommandResult {
    let config = Config::load(&args.config)?;
    if args.json {
        let json = serde_json::json!({
            "file": args.config,
            "ports": config.ports.len(),
            "pairs": config.pairs.len(),
            "functions": config.functions.len(),
            "buckets": config.buckets,
        });
        output::print(&format!("{json}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&format!(
        "{}: {} ports in {} pairs, {} functions, {} buckets\n",
        args.config.display(),
        config.ports.len(),
        config.pairs.len(),
        config.functions.len(),
        config.buckets
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn status(args: &NfStatusArgs) -> CommandResult {
    let text = middlebox::ask(&args.socket)?;
    if args.json {
        output::print(&text)?;
    } else {
        let report: Report = serde_json::from_str(&text)?;
        output::print(&report.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn function(args: &NfFunctionArgs) -> CommandResult {
    let signals = stop::on_signal()?;
    let huge_pages = if args.huge_pages { dpdk::HugePages::Require } else { dpdk::HugePages::Auto };
    let function = Function::attach(&args.attach, huge_pages)?;
    tracing::info!(attachment = %args.attach, "attached");
    let mut work = Work::new(args.cycles_per_packet, args.millicycles_per_byte, args.drop_every);
    let report = function.run(&mut work, &signals.stop)?;
    output::print(&(serde_json::to_string(&report)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}
