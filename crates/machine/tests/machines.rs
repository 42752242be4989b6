//! Machines made of files, and what is found of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use config::Config;
use machine::{Finding, Grade, Tree, examine, nics, survey};

const HUGE: &str = "sys/kernel/mm/hugepages/hugepages-2048kB";
const CPU: &str = "sys/devices/system/cpu";
const CARD: &str = "sys/bus/pci/devices/0000:3b:00.0";

struct Machine(tempfile::TempDir);

impl Machine {
    /// Four cores in two physical ones, a card on node 0, all as it should be.
    fn good() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (file, text) in [
            ("proc/mounts", "none /dev/hugepages hugetlbfs rw 0 0\n"),
            ("proc/cpuinfo", "vendor_id : GenuineIntel\n"),
            ("sys/class/iommu/dmar0/x", ""),
            ("sys/devices/system/node/node0/cpulist", "0-3\n"),
            ("sys/class/net/eth1/mtu", "1500\n"),
            ("sys/class/net/eth1/operstate", "up\n"),
        ] {
            machine.put(file, text);
        }
        machine.put(&format!("{HUGE}/free_hugepages"), "256\n");
        machine.put(&format!("{HUGE}/nr_hugepages"), "256\n");
        machine.put(&format!("{CPU}/online"), "0-3\n");
        machine.put(&format!("{CPU}/isolated"), "2-3\n");
        for core in 0..4 {
            let own = format!("{CPU}/cpu{core}");
            machine.put(&format!("{own}/cpufreq/scaling_governor"), "performance\n");
            let pair = if core % 2 == 0 { "0,2" } else { "1,3" };
            machine.put(&format!("{own}/topology/thread_siblings_list"), pair);
            machine.put(&format!("{own}/node0/x"), "");
        }
        for (file, text) in [
            ("class", "0x020000\n"),
            ("vendor", "0x8086\n"),
            ("device", "0x1563\n"),
            ("numa_node", "0\n"),
            ("iommu_group/x", ""),
        ] {
            machine.put(&format!("{CARD}/{file}"), text);
        }
        machine.bind("vfio-pci");
        machine
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.0.path().join(file)
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn bind(&self, driver: &str) {
        let _ = fs::remove_file(self.path(&format!("{CARD}/driver")));
        symlink(Path::new("../../drivers").join(driver), self.path(&format!("{CARD}/driver")))
            .unwrap();
    }

    fn tree(&self) -> Tree {
        Tree::below(self.0.path())
    }

    /// What isn't good, as subject and remedy.
    fn lacks(&self, config: &str) -> Vec<(Grade, String, String)> {
        let config = Config::parse(config, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        let bad = |own: &Finding| own.grade != Grade::Good;
        let all = examine(&self.tree(), &config).into_iter().filter(bad);
        all.map(|own| (own.grade, own.subject, own.remedy.unwrap())).collect()
    }
}

fn config(device: &str, more: &str) -> String {
    format!(
        "[[port]]\nname = \"p0\"\ndevice = \"{device}\"\n\
         [[interface]]\nport = \"p0\"\naddresses = [\"192.0.2.1/24\"]\n\
         [[service]]\nname = \"web\"\nvip = \"192.0.2.100\"\nport = 80\nprotocol = \"tcp\"\n\
         [[service.backend]]\naddress = \"192.0.2.11\"\n{more}"
    )
}

const WORKERS: &str = "[workers]\ncount = 2\ncores = [2, 3]\n";

#[test]
fn a_good_machine_lacks_nothing() {
    let machine = Machine::good();
    assert_eq!(machine.lacks(&config("0000:3b:00.0", WORKERS)), []);
    assert_eq!(machine.lacks(&config("net_af_packet0,iface=eth1", WORKERS)), []);
}

#[test]
fn a_machine_without_a_configuration_lacks_nothing_that_is_wrong_yet() {
    let machine = Machine::good();
    machine.put(&format!("{HUGE}/free_hugepages"), "6");
    machine.bind("ixgbe");
    fs::remove_dir_all(machine.path("sys/class/iommu")).unwrap();
    let findings = survey(&machine.tree());
    assert!(findings.iter().all(|own| own.grade != Grade::Wrong), "{findings:?}");
    let remedies: Vec<String> = findings.iter().filter_map(|own| own.remedy.clone()).collect();
    for remedy in ["vm.nr_hugepages=", "--bind=vfio-pci 0000:3b:00.0", "intel_iommu=on"] {
        assert!(remedies.iter().any(|own| own.contains(remedy)), "{remedy}: {remedies:?}");
    }
    assert!(findings.iter().any(|own| own.text == "4, of which 2 are isolated"), "{findings:?}");
    // Without a card nothing is said of the IOMMU.
    fs::remove_dir_all(machine.path(CARD)).unwrap();
    let findings = survey(&machine.tree());
    assert!(findings.iter().all(|own| own.subject != "IOMMU"), "{findings:?}");
}

#[test]
fn each_lack_is_found_with_its_remedy() {
    type Break = fn(&Machine);
    let pci = config("0000:3b:00.0", WORKERS);
    let require = format!("{pci}[eal]\nhuge_pages = \"require\"\n");
    let cases: [(&str, &str, Break, Grade, &str, &str); 10] = [
        (
            "no pages",
            &pci,
            |m| m.put(&format!("{HUGE}/free_hugepages"), "6"),
            Grade::Slow,
            "huge pages",
            "vm.nr_hugepages=506",
        ),
        (
            "pages required",
            &require,
            |m| m.put(&format!("{HUGE}/free_hugepages"), "0"),
            Grade::Wrong,
            "huge pages",
            "vm.nr_hugepages=512",
        ),
        (
            "not mounted",
            &pci,
            |m| m.put("proc/mounts", ""),
            Grade::Slow,
            "hugetlbfs",
            "mount -t hugetlbfs",
        ),
        (
            "no iommu",
            &pci,
            |m| fs::remove_dir_all(m.path("sys/class/iommu")).unwrap(),
            Grade::Wrong,
            "IOMMU",
            "intel_iommu=on",
        ),
        (
            "kernel's",
            &pci,
            |m| m.bind("ixgbe"),
            Grade::Wrong,
            "port p0",
            "--bind=vfio-pci 0000:3b:00.0",
        ),
        (
            "no card",
            &pci,
            |m| fs::remove_dir_all(m.path(CARD)).unwrap(),
            Grade::Wrong,
            "port p0",
            "nic list",
        ),
        (
            "not isolated",
            &pci,
            |m| m.put(&format!("{CPU}/isolated"), "3"),
            Grade::Slow,
            "isolation",
            "isolcpus=2,3",
        ),
        (
            "governor",
            &pci,
            |m| m.put(&format!("{CPU}/cpu3/cpufreq/scaling_governor"), "powersave"),
            Grade::Slow,
            "frequency",
            "for core in 3;",
        ),
        (
            "siblings",
            &pci,
            |m| m.put(&format!("{CPU}/cpu2/topology/thread_siblings_list"), "2-3"),
            Grade::Slow,
            "SMT",
            "lscpu",
        ),
        (
            "far",
            &pci,
            |m| fs::remove_dir_all(m.path(&format!("{CPU}/cpu2/node0"))).unwrap(),
            Grade::Slow,
            "port p0",
            "some of 0-3",
        ),
    ];
    for (name, config, damage, grade, subject, remedy) in cases {
        let machine = Machine::good();
        damage(&machine);
        let found = machine.lacks(config);
        let [(own, about, text)] = &found[..] else { panic!("{name}: {found:?}") };
        assert_eq!((*own, about.as_str()), (grade, subject), "{name}");
        assert!(text.contains(remedy), "{name}: {text}");
    }
}

#[test]
fn links_beneath_ports_are_looked_at() {
    let text = config("net_af_xdp0,iface=eth1", WORKERS);
    for (file, value, remedy) in
        [("mtu", "1400", "ip link set eth1 mtu 1500"), ("operstate", "down", "ip link set eth1 up")]
    {
        let machine = Machine::good();
        machine.put(&format!("sys/class/net/eth1/{file}"), value);
        let found = machine.lacks(&text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].2.as_str()), (Grade::Wrong, remedy));
    }
    let found = Machine::good().lacks(&config("net_af_xdp0,iface=eth9", WORKERS));
    assert_eq!((found[0].0, found[0].2.as_str()), (Grade::Wrong, "ip link show"));
}

#[test]
fn what_the_kernel_must_have_for_its_interfaces_is_looked_at() {
    let text = config("0000:3b:00.0", WORKERS);
    let text = text.replacen("addresses = ", "kernel = \"hnlb0\"\naddresses = ", 1);
    let machine = Machine::good();
    let remedy = |machine: &Machine| machine.lacks(&text).pop().map(|(_, _, remedy)| remedy);
    assert_eq!(remedy(&machine).as_deref(), Some("modprobe tun"));
    machine.put("dev/net/tun", "");
    assert_eq!(remedy(&machine), None);
    machine.put("sys/class/net/hnlb0/mtu", "1500\n");
    assert!(remedy(&machine).unwrap().contains("hnlb0-old"));
    machine.put("sys/class/net/hnlb0/tun_flags", "0x1002\n");
    assert_eq!(remedy(&machine), None, "HNLB's own, which runs");
}

#[test]
fn cards_are_listed_with_what_binds_them() {
    let machine = Machine::good();
    machine.put("sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n");
    let [card] = &nics(&machine.tree())[..] else { panic!("one card") };
    assert_eq!((card.address.as_str(), card.id.as_str()), ("0000:3b:00.0", "8086:1563"));
    assert_eq!((card.card, card.driver.as_deref()), (Some("Intel X550"), Some("vfio-pci")));
    assert!(card.is_ready() && card.iommu && card.numa_node == Some(0));
    machine.bind("ixgbe");
    machine.put(&format!("{CARD}/net/eth7/x"), "");
    let card = &nics(&machine.tree())[0];
    assert!(!card.is_ready() && card.interfaces == ["eth7"]);
    assert!(nics(&Tree::below(machine.path("nothing"))).is_empty());
}

/// Routes: the default over `default`, 198.51.100.0/24 and 2001:db8:2::/64 over eth2.
fn routes(machine: &Machine, default: &str) {
    let head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n";
    let v4 = format!(
        "{default} 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n\
         eth2 006433C6 00000000 0001 0 0 0 00FFFFFF 0 0 0\n"
    );
    machine.put("proc/net/route", &format!("{head}{v4}"));
    let none = "00000000000000000000000000000000";
    machine.put(
        "proc/net/ipv6_route",
        &format!(
            "20010db8000200000000000000000000 40 {none} 00 {none} 00000100 1 0 1 eth2\n\
             {none} 00 {none} 00 {none} ffffffff 1 0 200200 lo\n"
        ),
    );
}

/// Established connections from these addresses, as the kernel prints them, to `port`.
fn connections(machine: &Machine, port: &str, v4: &str, v6: &str) {
    let line = |local: &str, peer| format!("0: {local}:{port} {peer}:D431 01 00000000:00000000\n");
    machine.put("proc/net/tcp", &line("0A0200C0", v4));
    machine.put("proc/net/tcp6", &line("B80D0120000002000000000001000000", v6));
}

/// What is said of the kernel's card, and the remedy.
fn of_the_card(machine: &Machine) -> (String, String) {
    let config = Config::parse(&config("0000:3b:00.0", WORKERS), "test.toml").unwrap();
    let mut findings = examine(&machine.tree(), &config).into_iter();
    let own = findings.find(|own| own.subject == "port p0" && own.grade == Grade::Wrong).unwrap();
    (own.text, own.remedy.unwrap())
}

#[test]
fn a_card_that_the_machine_is_reached_by_is_not_bound_without_a_warning() {
    const V4: &str = "076433C6";
    const V6: &str = "B80D01200000020000000000090000FF";
    let machine = Machine::good();
    machine.bind("ixgbe");
    machine.put(&format!("{CARD}/net/eth2/mtu"), "1500");
    // Nothing would be missed: the command alone.
    routes(&machine, "eth9");
    connections(&machine, "01BB", V4, V6);
    let (text, remedy) = of_the_card(&machine);
    assert!(text.ends_with("the kernel uses it as eth2"), "{text}");
    assert!(remedy.starts_with("modprobe"), "{remedy}");
    // An ssh connection of each family, by the networks of the interface.
    connections(&machine, "0016", V4, V6);
    let (text, remedy) = of_the_card(&machine);
    let peers = "ssh from 198.51.100.7 and ssh from 2001:db8:2::ff00:9";
    assert!(text.contains(&format!("eth2 has {peers}, which the machine loses")), "{text}");
    assert!(!remedy.starts_with("modprobe"), "{remedy}");
    // The same IPv4 peer at a socket of both families; it comes by the default route of a
    // VLAN in a bridge over the card.
    routes(&machine, "br0");
    machine.put("sys/class/net/eth2/upper_eth2.7/x", "");
    machine.put("sys/class/net/eth2.7/upper_br0/x", "");
    connections(&machine, "0016", "077100CB", "0000000000000000FFFF0000077100CB");
    let (text, _) = of_the_card(&machine);
    assert!(text.contains("eth2 has the default route and ssh from 203.0.113.7,"), "{text}");
}

#[test]
fn an_xdp_port_at_the_default_route_is_warned_of() {
    let machine = Machine::good();
    routes(&machine, "eth1");
    let lacks = machine.lacks(&config("xdp:eth1", WORKERS));
    assert!(lacks.iter().any(|(_, _, remedy)| remedy.contains("kernel = ")), "{lacks:?}");
    let lacks = machine.lacks(&config("net_af_packet0,iface=eth1", WORKERS));
    assert!(lacks.is_empty(), "{lacks:?}");
}
