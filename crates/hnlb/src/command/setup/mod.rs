//! `hnlb setup`: a first configuration from flags, or from questions.
mod questions;

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;

use config::Config;
use machine::Tree;

use crate::cli::SetupArgs;
use crate::{CommandError, CommandResult, output};

/// Prints the configuration, or writes it into a file that must not be there. Either
/// way `hnlb check` accepts it.
pub(crate) fn run(args: &SetupArgs) -> CommandResult {
    let args = &completed(args)?;
    let text = text(args)?;
    let name = args.out.clone().unwrap_or_else(|| "setup".into());
    let (_, warnings) = Config::parse_with_warnings(&text, &name).map_err(|errors| {
        format!("these flags make no configuration that works:\n{errors}\n\nthe text was:\n{text}")
    })?;
    for warning in &warnings {
        eprintln!("hnlb: {warning}");
    }
    if let Some(file) = &args.out {
        write(file, &text)?;
    }
    if args.json {
        let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let json = serde_json::json!({ "file": args.out, "text": text, "warnings": warnings });
        output::print(&format!("{json}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(file) = &args.out else {
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let file = file.display();
    output::print(&format!(
        "{file} is written; next:\n  hnlb doctor --config {file}\n  hnlb run --config {file}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// `args`, if they say all that is needed; otherwise what a person at the terminal adds.
fn completed(args: &SetupArgs) -> Result<SetupArgs, CommandError> {
    let missing = [
        ("--device", args.device.is_none()),
        ("--address", args.addresses.is_empty()),
        ("--vip", args.vip.is_none()),
        ("--backend", args.backends.is_empty()),
    ];
    let missing: Vec<&str> = missing.iter().filter(|own| own.1).map(|own| own.0).collect();
    if missing.is_empty() {
        return Ok(args.clone());
    }
    let (answers, questions) = (std::io::stdin(), std::io::stderr());
    if !answers.is_terminal() {
        let missing = missing.join(", ");
        return Err(format!("give {missing}, or run this on a terminal, which is asked").into());
    }
    let nics = machine::nics(&Tree::default());
    let mut person = questions::Person::new(answers.lock(), questions.lock());
    person.complete(args, &nics).map_err(|_| "the answers have ended".into())
}

/// Writes a file that must not be there.
fn write(file: &Path, text: &str) -> Result<(), CommandError> {
    let at = || format!("write {}", file.display());
    let mut out = std::fs::File::create_new(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!("{}: the file is there already; move it away, or give --out another", at())
        }
        _ => format!("{}: {error}", at()),
    })?;
    std::io::Write::write_all(&mut out, text.as_bytes())
        .map_err(|error| format!("{}: {error}", at()).into())
}

/// The configuration.
fn text(args: &SetupArgs) -> Result<String, CommandError> {
    let (device, vip) = args.device.as_ref().zip(args.vip).ok_or("--device or --vip is missing")?;
    let addresses: Vec<String> = args.addresses.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "[[port]]\nname = \"wire\"\ndevice = \"{device}\"\n\n\
         [[interface]]\nport = \"wire\"\naddresses = {addresses:?}\n"
    );
    for gateway in &args.gateway {
        let prefix = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        let _ = write!(text, "\n[[route]]\nprefix = \"{prefix}\"\nvia = \"{gateway}\"\n");
    }
    if !args.cores.is_empty() {
        let (count, cores) = (args.cores.len(), &args.cores);
        let _ = write!(text, "\n[workers]\ncount = {count}\ncores = {cores:?}\n");
    }
    let _ = write!(
        text,
        "\n[[service]]\nname = \"{}\"\nvip = \"{}\"\nport = {}\nprotocol = \"{}\"\nmode = \"{}\"\n",
        args.name,
        vip.ip(),
        vip.port(),
        args.protocol,
        args.mode
    );
    if let Some(check) = args.check {
        let _ = write!(text, "\n[service.health]\ncheck = \"{check}\"\n");
    }
    for backend in &args.backends {
        let _ = write!(text, "\n[[service.backend]]\n{}", backend_text(backend));
    }
    Ok(text)
}

/// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`, as the value parser let it pass.
fn backend_text(text: &str) -> String {
    match (text.parse::<IpAddr>(), text.parse::<std::net::SocketAddr>()) {
        (Err(_), Ok(at)) => format!("address = \"{}\"\nport = {}\n", at.ip(), at.port()),
        _ => format!("address = \"{text}\"\n"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn the_text_says_what_the_flags_say() {
        let words = "hnlb setup --device net_af_packet0,iface=eth1 --address 192.0.2.1/24 \
                     --address 2001:db8::1/64 --gateway 192.0.2.254 --cores 2,3 --check tcp \
                     --vip 192.0.2.100:80 --backend 192.0.2.11:8080 --backend 192.0.2.12";
        let Command::Setup(args) = Cli::parse_from(words.split_whitespace()).command else {
            panic!("setup")
        };
        let config =
            Config::parse(&text(&args).unwrap(), "x").unwrap_or_else(|error| panic!("{error}"));
        let service = &config.services[0];
        let backends: Vec<_> = service.backends.iter().map(|own| own.port).collect();
        assert_eq!(backends, [Some(8080), None]);
        assert_eq!((config.workers.count, config.routes.len()), (2, 1));
        assert_eq!(config.interfaces[0].addresses.len(), 2);
        assert_eq!(service.health.as_ref().map(|own| own.check), Some(flow::Check::Tcp));
    }
}
