//! `hnlb nic`: the machine's network cards.
use std::fmt::Write as _;
use std::process::ExitCode;

use machine::{Nic, Tree};

use crate::cli::{NicCommand, NicListArgs};
use crate::command::nic_probe;
use crate::{CommandResult, output};

pub(crate) fn run(command: &NicCommand) -> CommandResult {
    match command {
        NicCommand::List(args) => list(args),
        NicCommand::Probe(args) => nic_probe::run(args),
    }
}

fn list(args: &NicListArgs) -> CommandResult {
    let nics = machine::nics(&Tree::default());
    if args.json {
        output::print(&(serde_json::to_string(&nics)? + "\n"))?;
    } else if nics.is_empty() {
        output::print("no network card is on the PCI bus\n")?;
    } else {
        output::print(&page(&nics))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(nics: &[Nic]) -> String {
    let mut page = format!(
        "{:<14} {:<10} {:<22} {:<12} {:<5} {:<12} {}\n",
        "device", "id", "card", "driver", "node", "interfaces", "for DPDK"
    );
    for nic in nics {
        let node = nic.numa_node.map_or_else(|| "-".to_owned(), |node| node.to_string());
        let interfaces = match nic.interfaces.join(",") {
            none if none.is_empty() => "-".to_owned(),
            names => names,
        };
        let ready = match (nic.is_ready(), nic.iommu) {
            (true, _) => "ready",
            (false, true) => "bind it to vfio-pci",
            (false, false) => "no IOMMU: see hnlb doctor",
        };
        let _ = writeln!(
            page,
            "{:<14} {:<10} {:<22} {:<12} {node:<5} {interfaces:<12} {ready}",
            nic.address,
            nic.id,
            nic.card.unwrap_or("-"),
            nic.driver.as_deref().unwrap_or("-"),
        );
    }
    page
}
