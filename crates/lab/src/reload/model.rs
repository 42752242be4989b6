//! The configuration in force, and random changes of it.
//!
//! The services of [`LabRun::services`] carry the load: they stay, whatever else
//! changes about them, each keeps a backend that takes connections, and removed
//! backends keep their connections. Other services, pools, routes, neighbours
//! and interfaces come and go beside them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use flow::{Mode, OnRemove, Scheduler};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedMutRandom, IndexedRandom, SliceRandom};

use crate::config::{LabRun, POOL, POOL_ADDRESSES, pool};
use crate::service_text::ServiceText;
use crate::topology::BACKENDS;

/// Numbers of the services, routes and neighbours that come and go.
const NUMBERS: std::ops::Range<u8> = 0..4;
/// Whether services of this name come and go.
const EXTRA: &str = "extra";

#[derive(Debug, Clone)]
pub(super) struct Model {
    run: LabRun,
    services: Vec<ServiceText>,
    /// Service and backend.
    drained: BTreeSet<(String, IpAddr)>,
    routes: Vec<u8>,
    neighbours: BTreeSet<u8>,
    /// Whether there is an interface in a VLAN, a pool that no service has, and a
    /// third address in the pool that `fullnat` services have.
    vlan: bool,
    spare_pool: bool,
    wider_pool: bool,
    /// Idle time of a UDP flow, in seconds: longer than any run.
    udp_seconds: u32,
}

impl Model {
    pub(super) fn new(run: &LabRun) -> Self {
        Self {
            run: run.clone(),
            services: run.services(),
            drained: BTreeSet::new(),
            routes: Vec::new(),
            neighbours: BTreeSet::new(),
            vlan: false,
            spare_pool: false,
            wider_pool: false,
            udp_seconds: 4000,
        }
    }

    /// The backends that a new connection to the service `name` may get.
    pub(super) fn eligible(&self, name: &str) -> Vec<IpAddr> {
        let service = self.services.iter().find(|own| own.name == name);
        let backends = service.into_iter().flat_map(|own| &own.backends);
        let takes = backends.filter(|(_, weight)| *weight > 0).map(|(address, _)| *address);
        takes.filter(|address| !self.drained.contains(&(name.to_owned(), *address))).collect()
    }

    /// A backend to drain (`true`) or to let serve again, by command.
    pub(super) fn steer(&mut self, rng: &mut StdRng) -> Option<(bool, String, IpAddr)> {
        let names: Vec<String> = self.services.iter().map(|own| own.name.clone()).collect();
        let name = names.choose(rng)?;
        let drained: Vec<_> = self.drained.iter().filter(|one| one.0 == *name).cloned().collect();
        let eligible = self.eligible(name);
        if let Some(one) = drained.choose(rng).filter(|_| rng.random_bool(0.6)) {
            self.drained.remove(one);
            return Some((false, one.0.clone(), one.1));
        }
        let backend = *eligible.choose(rng).filter(|_| eligible.len() > 1)?;
        self.drained.insert((name.clone(), backend));
        Some((true, name.clone(), backend))
    }

    /// One change of the file. One after which a service would have no backend
    /// that takes connections is not made.
    pub(super) fn change(&mut self, rng: &mut StdRng) {
        let mut next = self.clone();
        match rng.random_range(0..20) {
            0..12 => next.change_service(rng),
            12 => next.services.shuffle(rng),
            13..15 => next.change_extra(rng),
            15 => toggle(&mut next.spare_pool),
            16 => toggle(&mut next.wider_pool),
            17 => toggle(&mut next.vlan),
            18 => next.change_network(rng),
            _ => next.udp_seconds = rng.random_range(4000..4100),
        }
        if next.services.iter().all(|own| !next.eligible(&own.name).is_empty()) {
            *self = next;
        }
    }

    fn change_service(&mut self, rng: &mut StdRng) {
        let run = self.run.clone();
        let Some(service) = self.services.choose_mut(rng) else { return };
        let backends = &mut service.backends;
        let place = rng.random_range(0..backends.len());
        let weight = rng.random_range(1..5);
        match rng.random_range(0..10) {
            0..3 => {
                let family = run.outside(service.protocol, family(service.vip));
                let hosts = BACKENDS.iter().map(|host| host.address(family));
                let new = hosts.filter(|own| backends.iter().all(|(address, _)| address != own));
                let new: Vec<IpAddr> = new.collect();
                new.choose(rng).into_iter().for_each(|own| backends.insert(place, (*own, weight)));
            }
            3..6 => {
                if backends.len() > 1 {
                    backends.remove(place);
                }
            }
            6 => backends.shuffle(rng),
            7 => {
                let all: Vec<Scheduler> = Scheduler::ALL
                    .iter()
                    .copied()
                    .filter(|own| !own.measures_answers() || !service.mode.is_one_way())
                    .collect();
                service.scheduler = *all.choose(rng).unwrap_or(&service.scheduler);
            }
            _ => {
                let weight = rng.random_range(0..5);
                backends.get_mut(place).into_iter().for_each(|own| own.1 = weight);
            }
        }
    }

    /// A service beside those with load comes, or goes.
    fn change_extra(&mut self, rng: &mut StdRng) {
        let number = rng.random_range(NUMBERS);
        let name = format!("{EXTRA}{number}");
        if self.services.iter().any(|own| own.name == name) {
            return self.services.retain(|own| own.name != name);
        }
        let services = self.run.services();
        let Some(like) = services.choose(rng) else { return };
        let vip = match like.vip {
            IpAddr::V4(_) => IpAddr::from([10, 71, 0, 110 + number]),
            IpAddr::V6(_) => IpAddr::from([0xfd71, 0, 0, 0, 0, 0, 0, 0x110 + u16::from(number)]),
        };
        let on_remove = *OnRemove::ALL.choose(rng).unwrap_or(&OnRemove::Keep);
        let place = rng.random_range(0..=self.services.len());
        self.services.insert(place, ServiceText { name, vip, on_remove, ..like.clone() });
    }

    /// A route or a neighbour comes or goes, or the routes change places.
    fn change_network(&mut self, rng: &mut StdRng) {
        let number = rng.random_range(NUMBERS);
        match rng.random_range(0..3) {
            0 => self.routes.shuffle(rng),
            1 if self.routes.contains(&number) => self.routes.retain(|own| *own != number),
            1 => self.routes.push(number),
            _ if self.neighbours.contains(&number) => drop(self.neighbours.remove(&number)),
            _ => drop(self.neighbours.insert(number)),
        }
    }

    /// The file is in force: a drain has ended if its backend has left the file or
    /// got weight 0 there.
    pub(super) fn reloaded(&mut self) {
        let Self { services, drained, .. } = self;
        drained.retain(|(name, address)| {
            let own = services.iter().find(|own| own.name == *name);
            own.is_some_and(|own| own.backends.iter().any(|(at, w)| at == address && *w > 0))
        });
    }

    /// The file, with the status socket at `socket`.
    pub(super) fn toml(&self, socket: &Path) -> String {
        let mut text = self.run.base(socket);
        text += &format!("\n[conntrack]\nudp = \"{}s\"\n", self.udp_seconds);
        if self.vlan {
            text += "\n[[interface]]\nport = \"lab0\"\nvlan = 9\naddresses = [\"10.79.0.1/24\"]\n";
        }
        for n in &self.routes {
            text += &format!("\n[[route]]\nprefix = \"10.80.{n}.0/24\"\nvia = \"10.71.0.25{n}\"\n");
        }
        for n in &self.neighbours {
            text += &format!(
                "\n[[neighbour]]\naddress = \"10.71.0.24{n}\"\nmac = \"02:00:00:00:01:0{n}\"\n"
            );
        }
        if self.run.mode == Mode::FullNat {
            let more = self.wider_pool.then_some("10.72.0.201");
            text += &pool(POOL, &POOL_ADDRESSES.into_iter().chain(more).collect::<Vec<_>>());
        }
        if self.spare_pool {
            text += &pool("spare", &["10.72.0.210"]);
        }
        for service in &self.services {
            text += &service.toml();
        }
        text
    }
}

const fn toggle(flag: &mut bool) {
    *flag = !*flag;
}

const fn family(address: IpAddr) -> crate::topology::Family {
    match address {
        IpAddr::V4(_) => crate::topology::Family::V4,
        IpAddr::V6(_) => crate::topology::Family::V6,
    }
}

#[cfg(test)]
mod tests {
    use flow::Encoding;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_file_is_one_that_hnlb_takes_and_serves_with() {
        for mode in [Mode::Nat, Mode::FullNat, Mode::Dsr, Mode::Ipip] {
            let mut rng = StdRng::seed_from_u64(7);
            let mut model = Model::new(&LabRun { mode, ..LabRun::emulated(Encoding::Off) });
            let mut seen = BTreeSet::new();
            for _ in 0..300 {
                model.change(&mut rng);
                let text = model.toml(Path::new("/run/x.sock"));
                let config = config::Config::parse(&text, "lab.toml").unwrap();
                for name in ["web4", "web6", "dns4", "dns6"] {
                    let service = config.services.iter().find(|own| own.name == name).unwrap();
                    assert_eq!(service.on_remove, OnRemove::Keep);
                    assert!(!model.eligible(name).is_empty(), "{name}");
                }
                model.reloaded();
                model.steer(&mut rng);
                seen.insert(text);
            }
            assert!(seen.len() > 150, "{mode}: {} files", seen.len());
        }
    }

    #[test]
    fn a_drain_ends_with_its_backend_or_its_weight() {
        let mut model = Model::new(&LabRun::emulated(Encoding::Off));
        let backends = model.eligible("web4");
        model.drained.extend(backends[..3].iter().map(|own| ("web4".to_owned(), *own)));
        assert_eq!(model.eligible("web4"), backends[3..]);
        let service = model.services.iter_mut().find(|own| own.name == "web4").unwrap();
        service.backends.remove(0);
        service.backends[0].1 = 0;
        model.reloaded();
        assert_eq!(model.drained, BTreeSet::from([("web4".to_owned(), backends[2])]));
    }
}
