//! `hnlb why-not-offloaded`: why connections are not in the NIC.
use std::net::SocketAddr;
use std::process::ExitCode;

use api::Client;
use status::{CauseCount, ClientConnections, Explanation, OffloadCauses, Status};

use crate::cli::WhyNotOffloadedArgs;
use crate::command::status::explanation;
use crate::{CommandError, CommandResult, output};

pub(crate) fn run(args: &WhyNotOffloadedArgs) -> CommandResult {
    match args.connection.as_slice() {
        [] => totals(args),
        [client] => connections(args, endpoint(client)?, &|_| true),
        [protocol, client, vip] => {
            let (protocol, client) = (protocol.parse::<flow::Transport>()?, endpoint(client)?);
            let (protocol, vip) = (protocol.to_string(), endpoint(vip)?.to_string());
            connections(args, client, &|own| own.protocol == protocol && own.vip == vip)
        }
        _ => Err(
            "give a client's address and port, or a 5-tuple: tcp 198.51.100.7:40000 192.0.2.100:80"
                .into(),
        ),
    }
}

fn endpoint(text: &str) -> Result<SocketAddr, CommandError> {
    let what = || format!("'{text}' is no address and port; write them as in 198.51.100.7:40000");
    Ok(text.parse().map_err(|_| what())?)
}

/// The connections of `client` of which `is_wanted`. Fails if there are none.
fn connections(
    args: &WhyNotOffloadedArgs,
    client: SocketAddr,
    is_wanted: &dyn Fn(&Explanation) -> bool,
) -> CommandResult {
    let path = ["v1", "clients", &client.to_string(), "connections"];
    let mut answer: ClientConnections = Client::new(&args.socket).get(&path)?;
    answer.connections.retain(is_wanted);
    if args.json {
        output::print(&(serde_json::to_string(&answer)? + "\n"))?;
    } else {
        output::print(&answer.connections.iter().map(explanation).collect::<String>())?;
    }
    if answer.connections.is_empty() {
        return Err(format!("no such connection of {client} is in the table").into());
    }
    Ok(ExitCode::SUCCESS)
}

/// How many connections have which cause, and what the ports can't.
fn totals(args: &WhyNotOffloadedArgs) -> CommandResult {
    let client = Client::new(&args.socket);
    let causes: OffloadCauses = client.get(&["v1", "offload", "causes"])?;
    if args.json {
        output::print(&(serde_json::to_string(&causes)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let line = |own: &CauseCount| {
        let percent = own.connections as f64 * 100.0 / causes.connections as f64;
        format!("{:>9} {percent:5.1} %  {:<17} {}\n", own.connections, own.cause, own.help)
    };
    let lines: String = causes.causes.iter().map(line).collect();
    output::print(&format!("{} connections\n{lines}", causes.connections))?;
    let status: Status = client.get(&["v1", "status"])?;
    for port in &status.ports {
        let reasons: String = port.reasons.iter().map(|reason| format!("  {reason}\n")).collect();
        output::print(&format!("port {}: encoding {}\n{reasons}", port.name, port.encoding))?;
    }
    let refused =
        status.offload.iter().filter(|(name, count)| name.starts_with("refused") && **count > 0);
    for (name, count) in refused {
        output::print(&format!("{name} {count}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
