//! `hnlb connections`: what is in the connection table.
use std::process::ExitCode;

use api::Client;
use control::Filter;
use status::{Connection, ConnectionList};

use crate::cli::{ConnectionsArgs, Top};
use crate::{CommandResult, output};

pub(crate) fn run(args: &ConnectionsArgs) -> CommandResult {
    let filter = Filter {
        client: args.client,
        service: args.service.clone(),
        backend: args.backend,
        top: args.top.map(|Top::Rate| control::Top::Rate),
        skip: args.skip,
        limit: args.limit,
    };
    let list: ConnectionList = Client::new(&args.socket).connections(&filter)?;
    if args.json {
        output::print(&(serde_json::to_string(&list)? + "\n"))?;
    } else {
        let lines: String = list.connections.iter().map(line).collect();
        let shown = list.connections.len();
        output::print(&format!("{lines}{shown} of {} connections\n", list.found))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(own: &Connection) -> String {
    let Connection { protocol, client, service, vip, server, state, idle_ms, in_nic, cause, rate } =
        own;
    let place = if *in_nic { "NIC".to_owned() } else { format!("software ({cause})") };
    let idle = *idle_ms as f64 / 1000.0;
    let rate = rate.map_or_else(String::new, |rate| format!(" {rate:.0} packets/s"));
    format!("{protocol} {client} {vip} {server} {service} {state} {place}{rate} idle {idle:.1} s\n")
}
