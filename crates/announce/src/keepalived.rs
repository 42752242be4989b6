//! The configuration of keepalived.
use std::fmt::Write;

use config::{Announce, Config, Vrrp};
use ipnet::IpNet;

use crate::RenderError;

/// The configuration of keepalived for `config`, which is from `file`: a whole file.
///
/// The floating addresses are given to the load balancer that announces VIPs: both
/// families move together.
///
/// # Errors
/// There is no `[announce.vrrp]`.
pub fn keepalived(config: &Config, file: &str) -> Result<String, RenderError> {
    let missing = || RenderError { file: file.to_owned(), section: "vrrp", what: "keepalived" };
    let announce = config.announce.as_ref().ok_or_else(missing)?;
    let vrrp = announce.vrrp.as_ref().ok_or_else(missing)?;
    let Announce { device, .. } = announce;
    let mut text = format!(
        "# keepalived 2. Made of {file} by `hnlb announce render keepalived`; make it anew\n\
         # instead of editing it. {device} is up while HNLB announces VIPs.\n\
         global_defs {{\n\tdynamic_interfaces allow_if_changes\n\tvrrp_version 3\n\tvrrp_garp_master_delay 1\n}}\n"
    );
    let families: Vec<u8> = [4, 6]
        .into_iter()
        .filter(|family| vrrp.addresses.iter().any(|own| is_of(own, *family)))
        .collect();
    let members: Vec<String> =
        families.iter().map(|family| format!("\t\thnlb{family}\n")).collect();
    let _ = write!(text, "\nvrrp_sync_group hnlb {{\n\tgroup {{\n{}\t}}\n}}\n", members.concat());
    for family in families {
        instance(&mut text, device, vrrp, family);
    }
    Ok(text)
}

fn is_of(address: &IpNet, family: u8) -> bool {
    address.addr().is_ipv4() == (family == 4)
}

fn instance(text: &mut String, device: &str, vrrp: &Vrrp, family: u8) {
    let Vrrp { interface, id, priority, interval, addresses } = vrrp;
    let interval = interval.as_millis();
    // keepalived takes seconds with two places; the schema has no finer intervals.
    let (whole, hundredths) = (interval / 1000, interval % 1000 / 10);
    let own = addresses.iter().filter(|own| is_of(own, family));
    // Answers to what the kernel itself asks must come to an address that HNLB knows for
    // the kernel's: it takes no deprecated one as the source of its packets (RFC 6724,
    // section 5, rule 3). Of IPv4 addresses of a network it takes the first.
    let deprecated = if family == 6 { " preferred_lft 0" } else { "" };
    let lines: Vec<String> =
        own.map(|own| format!("\t\t{own} dev {interface}{deprecated}\n")).collect();
    // Writing to a String doesn't fail.
    let _ = write!(
        text,
        "\nvrrp_instance hnlb{family} {{\n\
         \tstate BACKUP\n\
         \tinterface {interface}\n\
         \tvirtual_router_id {id}\n\
         \tpriority {priority}\n\
         \tadvert_int {whole}.{hundredths:02}\n\
         \ttrack_interface {{\n\t\t{device}\n\t}}\n\
         \tvirtual_ipaddress {{\n{}\t}}\n\
         }}\n",
        lines.concat()
    );
}
