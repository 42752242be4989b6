//! `hnlb status`: what a running load balancer does.
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use api::Client;
use status::{
    AnnouncedVip, BackendStatus, ClientConnections, Explanation, FirstAnswers, RequestsStatus,
    ResponseClasses, StatelessStatus, Status, TrafficStatus, WorkerStatus,
};

use crate::cli::StatusArgs;
use crate::{CommandResult, output};

pub(crate) fn run(args: &StatusArgs) -> CommandResult {
    if let Some(client) = args.connection {
        return explain(args, client);
    }
    let text = Client::new(&args.socket).text(&["v1", "status"])?;
    if args.json {
        output::print(&(text + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let status: Status = serde_json::from_str(&text)?;
    output::print(&page(&status))?;
    Ok(ExitCode::SUCCESS)
}

/// Why the connections of `client` are where they are. Fails if there are none.
fn explain(args: &StatusArgs, client: SocketAddr) -> CommandResult {
    let path = ["v1", "clients", &client.to_string(), "connections"];
    let text = Client::new(&args.socket).text(&path)?;
    let answer: ClientConnections = serde_json::from_str(&text)?;
    if args.json {
        output::print(&(text + "\n"))?;
    } else {
        output::print(&answer.connections.iter().map(explanation).collect::<String>())?;
    }
    if answer.connections.is_empty() {
        return Err(format!("no connection of {client} is in the table").into());
    }
    Ok(ExitCode::SUCCESS)
}

/// A connection, and why it is where it is.
pub(crate) fn explanation(connection: &Explanation) -> String {
    let rate = connection.rate.map_or_else(String::new, |rate| format!(", {rate:.0} packets/s"));
    let since = connection.since_seconds;
    let since = since.map_or_else(String::new, |since| format!(", for {since:.1} s"));
    let counted = match connection.hardware_packets {
        0 => String::new(),
        packets => format!(
            "  sent on by the NIC: {packets} packets, {} bytes\n",
            connection.hardware_bytes
        ),
    };
    format!(
        "{} {} to {}, backend {}: {}{rate}\n  to the backend: {}; to the client: {}{since}\n{counted}  {}\n",
        connection.protocol,
        connection.client,
        connection.vip,
        connection.server,
        connection.state,
        connection.forward,
        connection.reply,
        connection.why
    )
}

/// The report as a page for people.
fn page(status: &Status) -> String {
    let mut page = String::new();
    head(&mut page, status);
    for worker in &status.workers {
        worker_line(&mut page, worker);
    }
    balance_line(&mut page, status);
    announce(&mut page, status);
    services(&mut page, status);
    spliced(&mut page, status);
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
        if let Some(link) = port.link_mtu.filter(|link| *link < u32::from(port.mtu)) {
            let _ = writeln!(
                page,
                "               mtu {} as configured, but {link} at the interface: longer packets are lost",
                port.mtu
            );
        }
        for reason in &port.reasons {
            let _ = writeln!(page, "               {reason}");
        }
    }
    let _ = writeln!(
        page,
        "rules        {} of {} (a NAT connection takes two, one per direction)",
        status.nic.rules, status.nic.capacity
    );
    admission(page, status);
    if status.nic.forwarded > 0 {
        let all: u64 = status.workers.iter().map(|worker| worker.totals.packets).sum();
        let share = status.nic.forwarded as f64 * 100.0 / (status.nic.forwarded + all) as f64;
        let _ = writeln!(
            page,
            "past workers {} packets, {} bytes: rewritten and sent on by the NIC, {share:.1} % of all",
            status.nic.forwarded, status.nic.forwarded_bytes
        );
        for port in &status.ports {
            let packets = port.counters.get("past_workers").copied().unwrap_or_default();
            let _ = writeln!(page, "               {} {packets}", port.name);
        }
    }
    sent_on_by_nic(page, status);
    let _ = writeln!(
        page,
        "connections  {} open, {} ever, room for {} IPv4 and {} IPv6",
        status.connections.active,
        status.connections.created,
        status.connections.capacity,
        status.connections.capacity_v6
    );
}

/// What the NIC does for services with `protocol = "http"` and `"tls"`, if it has done
/// anything.
fn sent_on_by_nic(page: &mut String, status: &Status) {
    let count = |name: &str| status.offload.get(name).copied().unwrap_or_default();
    if count("spliced_packets") + count("rules_spliced") > 0 {
        let _ = writeln!(
            page,
            "  spliced    {} packets, {} bytes of responses sent on by the NIC, {} rules",
            count("spliced_packets"),
            count("spliced_bytes"),
            count("rules_spliced")
        );
    }
}

fn admission(page: &mut String, status: &Status) {
    let admission = &status.admission;
    let or_unknown = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |n| n.to_string());
    let _ = writeln!(
        page,
        "admission    {}: {} of {} connections, {} in the last second of {}/s; {:.1} % of sampled packets matched, {:.0} packets/s needed",
        admission.policy,
        admission.held,
        or_unknown(admission.entries),
        admission.budget_used,
        or_unknown(admission.budget),
        admission.share_matched * 100.0,
        admission.threshold
    );
}

fn waiting(status: &Status) -> String {
    format!("waiting for {}", status.waiting_for.join(", "))
}

fn worker_line(page: &mut String, worker: &WorkerStatus) {
    let _ = writeln!(
        page,
        "worker {:<5} util {:>5.1} %  util+ {:>5.1} %  {} queues{}, {} packets{}",
        worker.worker,
        worker.util * 100.0,
        worker.util_plus * 100.0,
        worker.queues,
        if worker.buckets > 0 { format!(", {} buckets", worker.buckets) } else { String::new() },
        worker.totals.packets,
        slept(worker)
    );
}

/// What a worker has slept, if it sleeps at all.
fn slept(worker: &WorkerStatus) -> String {
    match worker.naps {
        0 => String::new(),
        naps => format!(", slept {:.1} s in {naps} naps", worker.slept_ms as f64 / 1000.0),
    }
}

/// How buckets moved between workers, where there are several.
fn balance_line(page: &mut String, status: &Status) {
    if status.workers.len() < 2 {
        return;
    }
    let balance = &status.balance;
    let count = |name: &str| balance.counters.get(name).copied().unwrap_or(0);
    let _ = writeln!(
        page,
        "balance      {}   {} moved, {} late, {} refused, {} given up; longest wait {} us",
        balance.mode,
        count("moved"),
        count("late"),
        count("refused"),
        count("given_up"),
        balance.longest_wait_us
    );
    for port in &balance.ports {
        let _ = writeln!(page, "             {port}");
    }
}

/// Which VIPs routers are told of, with `[announce]`.
fn announce(page: &mut String, status: &Status) {
    let Some(own) = &status.announce else { return };
    let withdrawn = if own.withdrawn { "; all are withdrawn (hnlb drain --all)" } else { "" };
    let _ = writeln!(page, "announce     table {}, device {}{withdrawn}", own.table, own.device);
    for AnnouncedVip { vip, state, .. } in &own.vips {
        let _ = writeln!(page, "               {vip:<28} {state}");
    }
    if !own.error.is_empty() {
        let _ = writeln!(page, "               the kernel refuses a route: {}", own.error);
    }
}

fn services(page: &mut String, status: &Status) {
    for service in &status.services {
        let removed = if service.removed { "   removed" } else { "" };
        let _ = writeln!(
            page,
            "service      {} {}   id {}.{}   {} embryonic{removed}",
            service.name, service.vip, service.id, service.generation, service.embryonic
        );
        times(page, "first answers", &service.first_answers);
        service.requests.iter().for_each(|own| requests(page, own));
        match &service.stateless {
            Some(stateless) => shares(page, stateless),
            None => service.backends.iter().for_each(|own| {
                backend(page, own, &state(own));
            }),
        }
        service.departed.iter().for_each(|own| backend(page, own, "   removed"));
    }
}

/// What became of the service's requests, if it has had any.
fn requests(page: &mut String, own: &RequestsStatus) {
    for (whose, classes) in [("responses", &own.responses), ("own answers", &own.own)] {
        if classes.sum() > 0 {
            let _ = writeln!(page, "               {whose}: {}", by_class(classes));
        }
    }
    times(page, "first bytes", &own.first_bytes);
}

/// The classes that are not empty.
fn by_class(classes: &ResponseClasses) -> String {
    let some = classes.all().into_iter().filter(|(_, count)| *count > 0);
    some.map(|(class, count)| format!("{count} of {class}")).collect::<Vec<_>>().join(", ")
}

/// How soon the service's backends answered, if they have.
fn times(page: &mut String, what: &str, own: &FirstAnswers) {
    if own.count == 0 {
        return;
    }
    let below = |part| {
        own.quantile_ms(part)
            .map_or_else(|| "more than 30 s".to_owned(), |ms| format!("below {ms} ms"))
    };
    let _ = writeln!(
        page,
        "               {what}: {}, in the mean after {:.1} ms; half {}, 99 % {}",
        own.count,
        own.sum_ms as f64 / own.count as f64,
        below(0.5),
        below(0.99)
    );
}

/// What keeps a backend from new connections, or from its whole weight.
fn state(backend: &BackendStatus) -> String {
    let mut state = String::new();
    if backend.drained {
        state += "   drained";
    }
    match &backend.health {
        Some(health) if health.state == "down" => {
            let _ = write!(state, "   down: {}", health.last_failure);
        }
        Some(health) if health.percent < 100 => {
            let _ = write!(state, "   {}, with {} % of its weight", health.state, health.percent);
        }
        Some(health) => {
            let _ = write!(state, "   {}", health.state);
            if let Some(own) = health.passive.as_ref().filter(|own| own.spared) {
                let _ = write!(state, ", spared: {}", own.why);
            }
        }
        None => {}
    }
    state
}

fn backend(page: &mut String, backend: &BackendStatus, state: &str) {
    let _ = writeln!(
        page,
        "               {:<28} weight {:<3} {:>7} open   id {}.{}   next hop {}{state}",
        backend.address,
        backend.weight,
        backend.active,
        backend.id,
        backend.generation,
        backend.next_hop
    );
    traffic(page, &backend.traffic);
    if let Some(own) = backend.requests.as_ref().filter(|own| own.responses.sum() > 0) {
        let _ = writeln!(
            page,
            "               {:<28} responses: {}; first byte in the mean after {:.1} ms",
            "",
            by_class(&own.responses),
            own.first_bytes.sum_ms as f64 / own.first_bytes.count.max(1) as f64
        );
    }
}

/// What a backend has carried, unless that is nothing.
fn traffic(page: &mut String, own: &TrafficStatus) {
    if *own == TrafficStatus::default() {
        return;
    }
    let _ = writeln!(
        page,
        "               {:<28} {} packets ({} bytes) to it, {} ({} bytes) from it, {} connections, resets {} + {}",
        "",
        own.packets_to_backend,
        own.bytes_to_backend,
        own.packets_to_client,
        own.bytes_to_client,
        own.opened,
        own.resets_by_client,
        own.resets_by_backend
    );
}

/// How a stateless service's clients are divided, and what the NICs did.
fn shares(page: &mut String, stateless: &StatelessStatus) {
    let ports = |ports: &[usize]| ports.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        page,
        "               stateless: {} entries over {} bits of {}, shares within {:.1} % of the weights; in the NIC of ports [{}]",
        stateless.entries.len(),
        stateless.bits,
        if stateless.by_hash { "the flow's hash" } else { "the client's address" },
        stateless.deviation * 100.0,
        ports(&stateless.in_hardware)
    );
    for (port, reason) in &stateless.reasons {
        let _ = writeln!(page, "               port {port} in software: {reason}");
    }
    for share in &stateless.shares {
        let drained = if share.drained { "   drained" } else { "" };
        let _ = writeln!(
            page,
            "               {:<28} weight {:>5.1} %, clients {:>5.1} %, packets {:>5.1} % ({}, {} bytes){drained}",
            share.address,
            share.wanted * 100.0,
            share.assigned * 100.0,
            share.seen * 100.0,
            share.packets,
            share.bytes
        );
    }
    for entry in &stateless.entries {
        let _ = writeln!(
            page,
            "                 clients {:#06x} of mask {:#06x} to {:<28} {:>12} packets {:>14} bytes",
            entry.value, entry.mask, entry.backend, entry.packets, entry.bytes
        );
    }
}

/// What the L7 agents have now, if there are any.
fn spliced(page: &mut String, status: &Status) {
    let level = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let (open, bytes) = (level("http_open"), level("http_bytes"));
    if open == 0 {
        return;
    }
    let _ = writeln!(
        page,
        "http         {open} connections ({} half-open, {} idle), {} headers held ({} of more than \
         512 bytes), {bytes} bytes, {} a connection",
        level("http_half_open"),
        level("http_idle"),
        level("http_headers_held") + level("http_short_headers_held"),
        level("http_headers_held"),
        bytes / open
    );
}

fn counters(page: &mut String, status: &Status) {
    let tables = [
        ("counters", &status.counters),
        ("offload", &status.offload),
        ("admission", &status.admission.counters),
    ];
    for (title, table) in tables {
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
