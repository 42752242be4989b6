//! The hybrid load balancer: one program.
#![forbid(unsafe_code)]

mod cli;
mod cli_nf;
mod command;
mod control_process;
mod journal;
mod key_process;
mod output;
mod secrecy;
mod stop;
mod supervisor;

use std::io::IsTerminal;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use crate::cli::{Command, LogFormat};

/// Why a command ended early, told to the user on stderr.
type CommandError = Box<dyn std::error::Error + Send + Sync>;

/// What every command gives back.
type CommandResult = Result<ExitCode, CommandError>;

fn main() -> ExitCode {
    let cli = cli::parse();
    log_to_stderr(cli.log_format);
    match dispatch(cli.command, cli.log_format) {
        Ok(code) => code,
        Err(error) if output::reader_is_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", journal::last_words(&format!("hnlb: {error}")));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command, log_format: LogFormat) -> CommandResult {
    match command {
        Command::Run(args) => command::run::run(&args, log_format),
        Command::Api(args) => command::api::run(&args),
        Command::Keys => command::keys::run(),
        Command::Check(args) => command::check::run(&args),
        Command::Status(args) => command::status::run(&args),
        Command::Top(args) => command::top::run(&args),
        Command::Connections(args) => command::connections::run(&args),
        Command::Explain(args) => command::explain::run(&args),
        Command::WhyNotOffloaded(args) => command::why_not_offloaded::run(&args),
        Command::Capture(args) => command::capture::run(&args),
        Command::Config(command) => command::config::run(&command),
        Command::Backend(command) => command::backend::run(&command),
        Command::Drain(args) => command::announce::steer(&args, true),
        Command::Restore(args) => command::announce::steer(&args, false),
        Command::Announce(command) => command::announce::run(&command),
        Command::Reload(args) => command::reload::run(&args, args.dry_run),
        Command::Diff(args) => command::reload::run(&args, true),
        Command::Replay(args) => command::replay::run(&args),
        Command::Nf(command) => command::nf::run(&command),
        Command::Lab(args) => command::lab::run(args),
        Command::Bench(command) => command::bench::run(command),
        Command::Doctor(args) => command::doctor::run(&args),
        Command::Nic(command) => command::nic::run(&command),
        Command::Setup(args) => command::setup::run(&args),
        Command::Schema => command::check::schema(),
        Command::Man(args) => command::generate::man(&args.directory),
        Command::Completions(args) => command::generate::completions(args.shell),
    }
}

/// Logs go to stderr; `RUST_LOG` chooses what, as in `RUST_LOG=debug`.
fn log_to_stderr(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let stderr = std::io::stderr;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match format {
        LogFormat::Text if journal::is_stderr() => {
            log.with_ansi(false).event_format(journal::Format::default()).init();
        }
        LogFormat::Text => log.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => log.json().init(),
    }
}
