//! A service of the lab's configurations.

use std::net::IpAddr;

use flow::{Mode, OnRemove, Scheduler};

/// A service as its configuration file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceText {
    pub(crate) name: String,
    pub(crate) vip: IpAddr,
    pub(crate) port: u16,
    /// `tcp` or `udp`.
    pub(crate) protocol: &'static str,
    pub(crate) mode: Mode,
    pub(crate) scheduler: Scheduler,
    pub(crate) on_remove: OnRemove,
    /// The name of its pool.
    pub(crate) pool: Option<&'static str>,
    /// The port of its backends; `None`: the one that the client asked for.
    pub(crate) backend_port: Option<u16>,
    /// Address and weight of each backend, in the order of the file.
    pub(crate) backends: Vec<(IpAddr, u16)>,
}

impl ServiceText {
    /// Its TOML.
    pub(crate) fn toml(&self) -> String {
        self.toml_with("")
    }

    /// Its TOML with further lines of keys.
    pub(crate) fn toml_with(&self, keys: &str) -> String {
        let Self { name, vip, port, protocol, mode, scheduler, on_remove, .. } = self;
        let mut text = format!(
            "\n[[service]]\nname = \"{name}\"\nvip = \"{vip}\"\nport = {port}\n\
             protocol = \"{protocol}\"\nscheduler = \"{scheduler}\"\nmode = \"{mode}\"\n\
             on_remove = \"{on_remove}\"\n{keys}"
        );
        if let Some(pool) = self.pool {
            text += &format!("pool = \"{pool}\"\n");
        }
        for (address, weight) in &self.backends {
            text += &format!("[[service.backend]]\naddress = \"{address}\"\nweight = {weight}\n");
            if let Some(port) = self.backend_port {
                text += &format!("port = {port}\n");
            }
        }
        text
    }
}
