//! `hnlb status`: what a running load balancer does.
use std::fmt::Write as _;
use std::process::ExitCode;

use dataplane::status::{Status, WorkerStatus};

use crate::cli::StatusArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &StatusArgs) -> CommandResult {
    let text = dataplane::status_socket::read(&args.socket)?;
    if args.json {
        output::print(&(text + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let status: Status = serde_json::from_str(&text)?;
    output::print(&page(&status))?;
    Ok(ExitCode::SUCCESS)
}

/// The report as a page for people.
fn page(status: &Status) -> String {
    let mut page = String::new();
    head(&mut page, status);
    for worker in &status.workers {
        worker_line(&mut page, worker);
    }
    services(&mut page, status);
    counters(&mut page, status);
    page
}

fn head(page: &mut String, status: &Status) {
    let state = if status.ready { "ready".to_owned() } else { waiting(status) };
    let _ = writeln!(page, "hnlb {}, {state}, up {:.0} s", status.version, status.uptime_seconds);
    let _ = writeln!(page, "memory       {}", status.memory);
    for port in &status.ports {
        let link = if port.link_up { "up" } else { "down" };
        let _ = writeln!(
            page,
            "port         {} ({}, {}): link {link}, encoding {}",
            port.name, port.device, port.driver, port.encoding
        );
        for reason in &port.reasons {
            let _ = writeln!(page, "               {reason}");
        }
    }
    let _ = writeln!(
        page,
        "rules        {} of {} (a NAT connection takes two, one per direction)",
        status.nic.rules, status.nic.capacity
    );
    let _ = writeln!(
        page,
        "connections  {} open, {} ever, room for {} IPv4 and {} IPv6",
        status.connections.active,
        status.connections.created,
        status.connections.capacity,
        status.connections.capacity_v6
    );
}

fn waiting(status: &Status) -> String {
    format!("waiting for {}", status.waiting_for.join(", "))
}

fn worker_line(page: &mut String, worker: &WorkerStatus) {
    let _ = writeln!(
        page,
        "worker {:<5} util {:>5.1} %  util+ {:>5.1} %  {} queues, {} packets",
        worker.worker,
        worker.util * 100.0,
        worker.util_plus * 100.0,
        worker.queues,
        worker.totals.packets
    );
}

fn services(page: &mut String, status: &Status) {
    for service in &status.services {
        let _ = writeln!(page, "service      {} {}", service.name, service.vip);
        for backend in &service.backends {
            let _ = writeln!(
                page,
                "               {:<28} weight {:<3} {:>7} open   next hop {}",
                backend.address, backend.weight, backend.active, backend.next_hop
            );
        }
    }
}

fn counters(page: &mut String, status: &Status) {
    for (title, table) in [("counters", &status.counters), ("offload", &status.offload)] {
        let _ = writeln!(page, "{title}");
        for (name, value) in table.iter().filter(|(_, value)| **value > 0) {
            let _ = writeln!(page, "  {name:<32} {value:>14}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_waits_says_for_what() {
        let status = Status { waiting_for: vec!["10.72.0.11".to_owned()], ..Status::default() };
        assert!(page(&status).contains("waiting for 10.72.0.11"));
    }
}
