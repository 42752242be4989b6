//! What the keeper is made of.
use std::sync::Arc;

use config::Config;
use dpdk::flow::FlowPort;
use flow::PortId;
use keeper::{Ager, AgerSettings, Resolver};
use nic::Nic;
use offload::{OffloadConfig, Offloader, StatelessRules};
use state::Shared;

use crate::clock::{self, Clock};
use crate::control::Control;
use crate::device::Device;
use crate::encoding::Chosen;
use crate::keeper::{Injector, Keeper};
use crate::no_flows::NoFlows;
use crate::outbox::Request;
use crate::report::{PortView, Reporter, WorkerView};
use crate::status_socket::StatusSocket;

/// What there is before the keeper.
pub(crate) struct Parts<'a> {
    pub(crate) config: &'a Config,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) clock: Clock,
    /// The memory that DPDK has, in words.
    pub(crate) memory: String,
    pub(crate) injector: Injector,
    pub(crate) socket: StatusSocket,
}

impl Parts<'_> {
    /// The keeper of `devices`, whose queues have been given away.
    pub(crate) fn keeper(
        self,
        devices: Vec<Device>,
        chosen: Vec<Chosen>,
        requests: Vec<rtrb::Consumer<Request>>,
        workers: Vec<WorkerView>,
    ) -> Keeper {
        let Self { config, shared, clock, memory, injector, socket } = self;
        let (flows, nics, ports) = split(config, devices, &chosen);
        let resolver = resolver(config, shared);
        Keeper {
            shared: Arc::clone(shared),
            clock,
            requests,
            injector,
            ager: Ager::new(Arc::clone(shared), AgerSettings::default()),
            offloader: offloader(config, shared, chosen),
            stateless: StatelessRules::new(Arc::clone(shared)),
            control: Control::new(Arc::clone(shared)),
            flows,
            nics,
            reporter: Reporter {
                shared: Arc::clone(shared),
                clock,
                memory,
                ports,
                workers,
                keeper: resolver.counters(),
                backends: setup::backend_addresses(config),
                next_look_ms: 0,
            },
            resolver,
            socket,
        }
    }
}

fn offloader(config: &Config, shared: &Arc<Shared>, chosen: Vec<Chosen>) -> Offloader {
    let ports = chosen.iter().map(|chosen| chosen.config.clone()).collect();
    let admission = setup::admission(config);
    let settings = OffloadConfig { ports, admission, ..OffloadConfig::default() };
    let mut offloader = Offloader::new(settings, Arc::clone(shared));
    offloader.measure(clock::nanoseconds);
    for (at, chosen) in chosen.into_iter().enumerate() {
        offloader.adopt(PortId(at as u16), chosen.owned);
    }
    offloader
}

/// A resolver that keeps the next hops of backends and gateways fresh.
fn resolver(config: &Config, shared: &Arc<Shared>) -> Resolver {
    let mut resolver = Resolver::new(Arc::clone(shared), setup::resolver_settings(config));
    let gateways = config.routes.iter().map(|route| route.via);
    let hops = setup::backend_addresses(config).into_iter().chain(gateways);
    resolver.keep(hops.filter_map(|addr| shared.hop_to(addr, 0)).collect());
    resolver
}

type Split = (Vec<Box<dyn FlowPort + Send>>, Vec<Nic>, Vec<PortView>);

/// What the keeper programs, what it advances, and what it reports.
fn split(config: &Config, devices: Vec<Device>, chosen: &[Chosen]) -> Split {
    let (mut flows, mut nics, mut views) = (Vec::new(), Vec::new(), Vec::new());
    for ((device, chosen), port) in devices.into_iter().zip(chosen).zip(&config.ports) {
        flows.push(device.flows.unwrap_or_else(|| Box::new(NoFlows)));
        let driver = match &device.emulated {
            Some(emulated) => format!("emulated {}", emulated.nic.profile()),
            None => device.port.capabilities().map_or_else(|_| "?".to_owned(), |can| can.driver),
        };
        let emulated = device.emulated.map(|emulated| {
            nics.push(emulated.nic.clone());
            (emulated.nic, emulated.wire, emulated.counters)
        });
        views.push(PortView {
            name: device.name,
            device: port.device.clone(),
            driver,
            encoding: chosen.config.encoding.to_string(),
            reasons: chosen.reasons.clone(),
            mac: device.mac.to_string(),
            port: device.port,
            emulated,
            link: None,
        });
    }
    (flows, nics, views)
}
