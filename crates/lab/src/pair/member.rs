//! One of the pair: HNLB, and the program that announces it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use flow::{CardProfile, Mode, OnRemove, Scheduler};

use super::{AnnouncedBy, network};
use crate::config::Device;
use crate::service_text::ServiceText;
use crate::topology::{
    BACKENDS, BALANCER, DNS_BACKEND_PORT, DNS_PORT, Family, PORT, SECOND, WEB_BACKEND_PORT,
    WEB_PORT,
};
use crate::{Balancer, Lab, LabError};

/// How long a program may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// The kernel's interface behind the port.
const KERNEL: &str = "gw0";

/// A load balancer's place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// Its host.
    pub(super) host: &'static str,
    /// The last digit of its addresses.
    pub(super) digit: u8,
    way: AnnouncedBy,
}

impl Member {
    /// The two of a pair.
    pub(super) const fn both(way: AnnouncedBy) -> [Self; 2] {
        [Self { host: BALANCER, digit: 2, way }, Self { host: SECOND, digit: 3, way }]
    }

    /// Its address on the clients' link.
    pub(super) fn address(self, family: Family) -> String {
        match family {
            Family::V4 => format!("10.71.0.{}", self.digit),
            Family::V6 => format!("fd71::{}", self.digit),
        }
    }

    /// The name of its process in the lab.
    pub(super) fn process(self) -> String {
        format!("hnlb-{}", self.host)
    }

    fn speaker(self) -> String {
        format!("{}-{}", self.host, self.way.program().0)
    }

    /// Starts HNLB, and waits until it is ready.
    pub(super) fn start(self, lab: &mut Lab, binary: &Path) -> Result<Balancer, LabError> {
        let (process, device) = (self.process(), Device::AfPacket);
        let place = (self.host, process.as_str());
        Balancer::start_at(lab, binary, place, &process, device, |socket| self.toml(socket))
    }

    /// Starts the program that announces, with the configuration that HNLB renders.
    pub(super) fn speak(self, lab: &mut Lab, binary: &Path) -> Result<(), LabError> {
        let (program, name) = (self.way.program().0, self.speaker());
        let file = self.file(lab, "toml").display().to_string();
        let argv =
            [&binary.display().to_string(), "announce", "render", program, "--config", &file];
        let text = lab.exec(self.host, &argv)?.success()?.stdout;
        let at = self.file(lab, program);
        let log = self.file(lab, "routing.log").display().to_string();
        let text = match self.way {
            AnnouncedBy::Bgp => text + &format!("log \"{log}\" all;\n"),
            AnnouncedBy::Vrrp => text,
        };
        std::fs::write(&at, text).map_err(LabError::io(format!("write {}", at.display())))?;
        let (at, own) = (at.display().to_string(), self.file(lab, "ctl").display().to_string());
        let vrrp = self.file(lab, "vrrp.pid").display().to_string();
        let argv = match self.way {
            AnnouncedBy::Bgp => vec!["bird", "-f", "-c", &at, "-s", &own],
            AnnouncedBy::Vrrp => {
                vec!["keepalived", "-n", "-l", "-P", "-f", &at, "-p", &own, "-r", &vrrp]
            }
        };
        lab.spawn(self.host, &name, &argv).map(drop)
    }

    /// Ends that program.
    pub(super) fn silence(self, lab: &mut Lab) {
        if let Some(pid) = lab.pid(&self.speaker()) {
            lab.end(pid, GRACE);
        }
    }

    fn file(self, lab: &Lab, ending: &str) -> PathBuf {
        lab.dir().join(format!("{}.{ending}", self.process()))
    }

    /// Its configuration. Both choose the same backends: their services, the scheduler and
    /// the key are the same.
    fn toml(self, socket: &Path) -> String {
        let (digit, profile) = (self.digit, CardProfile::X550);
        let addresses = ["10.71.0", "10.72.0"]
            .map(|net| format!("\"{net}.{digit}/24\""))
            .into_iter()
            .chain(["fd71", "fd72"].map(|net| format!("\"{net}::{digit}/64\"")))
            .collect::<Vec<_>>()
            .join(", ");
        let routes = match self.way {
            AnnouncedBy::Bgp => {
                "[[route]]\nprefix = \"10.73.0.0/24\"\nvia = \"10.71.0.254\"\n\
                 [[route]]\nprefix = \"fd73::/64\"\nvia = \"fd71::254\"\n"
            }
            AnnouncedBy::Vrrp => {
                "[[route]]\nprefix = \"10.73.0.0/24\"\nvia = \"10.71.0.11\"\n\
                 [[route]]\nprefix = \"fd73::/64\"\nvia = \"fd71::11\"\n"
            }
        };
        let mut text = format!(
            "[eal]\nmemory_mb = 256\nhuge_pages = \"auto\"\n\
             [[port]]\nname = \"lab0\"\ndevice = \"net_af_packet0,iface={PORT}\"\n\
             [port.nic]\nprofile = \"{profile}\"\nqueues = 4\n\
             [[interface]]\nport = \"lab0\"\naddresses = [{addresses}]\nkernel = \"{KERNEL}\"\n\
             {routes}\
             [conntrack]\nconnections = 65536\n\
             [offload]\nencoding = \"mark\"\nadmission = \"all\"\n\
             [fleet]\nkey = \"00112233445566778899aabbccddeeff\"\n\
             [status]\nsocket = \"{}\"\n{}",
            socket.display(),
            self.announce()
        );
        for service in self.services() {
            let check = match service.protocol {
                "tcp" => "check = \"http\", path = \"/health\"",
                _ => "check = \"dns\", name = \"who.lab\"",
            };
            let port = if service.protocol == "tcp" { WEB_BACKEND_PORT } else { DNS_BACKEND_PORT };
            text += &service.toml_with(&format!(
                "health = {{ {check}, port = {port}, interval = \"500ms\", timeout = \"1s\" }}\n"
            ));
        }
        text
    }

    fn announce(self) -> String {
        match self.way {
            AnnouncedBy::Bgp => "[announce]\nsettle = \"500ms\"\nleave = \"2s\"\n\
                 [announce.bgp]\nas = 65001\nbfd = \"200ms\"\n\
                 [[announce.bgp.peer]]\naddress = \"10.71.0.254\"\nas = 65000\n\
                 [[announce.bgp.peer]]\naddress = \"fd71::254\"\nas = 65000\n"
                .to_owned(),
            AnnouncedBy::Vrrp => format!(
                "[announce]\nsettle = \"500ms\"\nleave = \"2s\"\n\
                 [announce.vrrp]\ninterface = \"{KERNEL}\"\nid = 71\npriority = {}\n\
                 interval = \"200ms\"\n\
                 addresses = [\"10.71.0.1/24\", \"10.72.0.1/24\", \"fd71::1/64\", \"fd72::1/64\"]\n",
                200 - self.digit
            ),
        }
    }

    /// Web and DNS at the VIP of each family.
    fn services(self) -> Vec<ServiceText> {
        let mode = match self.way {
            AnnouncedBy::Bgp => Mode::Dsr,
            AnnouncedBy::Vrrp => Mode::Nat,
        };
        let services = [
            ("web", "tcp", WEB_PORT, WEB_BACKEND_PORT),
            ("dns", "udp", DNS_PORT, DNS_BACKEND_PORT),
        ];
        let both = services.into_iter().flat_map(|own| [(own, Family::V4), (own, Family::V6)]);
        let all = both.map(|((name, protocol, port, backend_port), family)| ServiceText {
            name: format!("{name}{}", if family == Family::V4 { 4 } else { 6 }),
            vip: network::vip(family),
            port,
            protocol,
            mode,
            scheduler: Scheduler::Maglev,
            on_remove: OnRemove::Keep,
            pool: None,
            backend_port: (mode == Mode::Nat).then_some(backend_port),
            backends: BACKENDS.iter().map(|host| (host.address(family), 1)).collect(),
        });
        all.collect()
    }
}
