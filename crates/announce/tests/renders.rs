//! What is rendered, and what BIRD and keepalived themselves say of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use std::path::Path;
use std::process::Command;

use config::Config;

const BASE: &str = "[[port]]\nname = \"p0\"\ndevice = \"net_null0\"\n\
    [[interface]]\nport = \"p0\"\nkernel = \"gw0\"\n\
    addresses = [\"10.71.0.2/24\", \"fd71::2/64\"]\n\
    [[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"10.71.0.254\"\n\
    [[service]]\nname = \"web\"\nvip = \"10.73.0.100\"\nport = 80\nprotocol = \"tcp\"\n\
    [[service.backend]]\naddress = \"10.71.0.11\"\n\
    [announce]\ntable = 4000\ndevice = \"vips0\"\n";
const BGP: &str = "[announce.bgp]\nas = 4200000001\nbfd = \"250ms\"\n\
    [[announce.bgp.peer]]\naddress = \"10.71.0.254\"\nas = 65000\npassword = \"so'secret #1\"\n\
    [[announce.bgp.peer]]\naddress = \"fd99::1\"\nas = 65000\nmultihop = 2\n";
const VRRP: &str = "[announce.vrrp]\ninterface = \"gw0\"\nid = 71\npriority = 150\ninterval = \"250ms\"\n\
    addresses = [\"10.71.0.1/24\", \"fd71::1/64\"]\n";

fn config(text: &str) -> Config {
    Config::parse(&format!("{BASE}{text}"), "hnlb.toml").unwrap_or_else(|e| panic!("{e}"))
}

/// What `program` says of `text` in a file, if it is installed.
fn judged(program: &str, arguments: &[&str], text: &str) {
    let Some(program) = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"]
        .map(|dir| Path::new(dir).join(program))
        .into_iter()
        .find(|path| path.exists())
    else {
        eprintln!("skipped: {program} is not installed");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rendered.conf");
    std::fs::write(&file, text).unwrap();
    let done = Command::new(program).args(arguments).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}{}\n{text}", String::from_utf8_lossy(&done.stdout));
}

#[test]
fn bird_takes_what_is_rendered_for_it() {
    let text = announce::bird(&config(BGP), "/etc/hnlb/hnlb.toml").unwrap();
    for line in [
        "router id 10.71.0.2;",
        "\tkernel table 4000;",
        "\tif source = RTS_INHERIT && krt_source = 171 && ifname = \"vips0\" && net.len = 32 then accept;",
        "\tlocal as 4200000001;",
        "\tlocal fd71::2 as 4200000001;",
        "\tneighbor fd99::1 as 65000;",
        "\tpassword \"so'secret #1\";",
        "\tmultihop 2;",
    ] {
        assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
    }
    judged("bird", &["-p", "-c"], &text);
}

#[test]
fn bfd_needs_to_know_where_a_peer_that_is_not_on_link_is_spoken_to_from() {
    let sessions = |text: &str| {
        let config = Config::parse(text, "hnlb.toml").unwrap_or_else(|error| panic!("{error}"));
        let text = announce::bird(&config, "f").unwrap();
        text.matches("\tbfd on;").count()
    };
    let with = format!("{BASE}{BGP}");
    assert_eq!(sessions(&with), 2);
    let without = with.replace(", \"fd71::2/64\"", "");
    assert_ne!(with, without);
    assert_eq!(sessions(&without), 1, "the on-link peer's");
}

#[test]
fn without_a_peer_of_a_family_bird_has_no_table_of_it() {
    let bgp =
        "[announce.bgp]\nas = 65001\n[[announce.bgp.peer]]\naddress = \"10.71.0.254\"\nas = 1\n";
    let text = announce::bird(&config(bgp), "f").unwrap();
    assert!(text.contains("ipv4 table hnlb4;") && !text.contains("ipv6") && !text.contains("bfd"));
    judged("bird", &["-p", "-c"], &text);
}

#[test]
fn keepalived_takes_what_is_rendered_for_it() {
    let text = announce::keepalived(&config(VRRP), "/etc/hnlb/hnlb.toml").unwrap();
    for line in [
        "\tinterface gw0",
        "\tvirtual_router_id 71",
        "\tpriority 150",
        "\tadvert_int 0.25",
        "\t\tvips0",
        "\t\t10.71.0.1/24 dev gw0",
        "\t\tfd71::1/64 dev gw0 preferred_lft 0",
    ] {
        assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
    }
    // It says more than it fails: interfaces that are not there yet are no error.
    judged("keepalived", &["-t", "-f"], &text);
}

#[test]
fn intervals_of_keepalived_have_two_places() {
    for (interval, rendered) in [("1050ms", "1.05"), ("2s", "2.00"), ("500ms", "0.50")] {
        let text = VRRP.replace("250ms", interval);
        let text = announce::keepalived(&config(&text), "f").unwrap();
        let line = format!("\tadvert_int {rendered}");
        assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
    }
}

#[test]
fn without_a_section_there_is_nothing_to_render() {
    let error = announce::bird(&config(VRRP), "/etc/hnlb/hnlb.toml").unwrap_err().to_string();
    assert_eq!(error, "/etc/hnlb/hnlb.toml has no [announce.bgp]: BIRD has nothing to announce by");
    assert!(announce::keepalived(&config(BGP), "f").is_err());
}
