//! From the text that names a device to the number of its port.
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

use dpdk_sys as sys;

use super::error::PortError;
use crate::{errno, log};

/// A PCI address or a virtual device with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// What DPDK calls it.
    pub(crate) name: String,
    /// Name and arguments.
    pub(crate) arguments: CString,
    /// The kernel's interface behind it, if the arguments name one.
    pub(crate) interface: Option<CString>,
}

impl Device {
    pub(crate) fn parse(text: &str) -> Result<Self, PortError> {
        let wrong = |why: &str| PortError::Name { device: text.to_owned(), why: why.to_owned() };
        let (name, rest) = text.split_once(',').unwrap_or((text, ""));
        let pci = full_pci_address(name);
        if pci.is_none() {
            if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
                return Err(wrong("it starts with neither a PCI address nor a driver's name"));
            }
            let plain = CString::new(name).map_err(|_| wrong("it has a NUL byte"))?;
            // SAFETY: a C string.
            if unsafe { sys::hnlb_iface_index(plain.as_ptr()) } != 0 {
                return Err(wrong(&format!(
                    "{name} is an interface of the kernel, which DPDK reaches as \
                     net_af_packet0,iface={name} or net_af_xdp0,iface={name}"
                )));
            }
        }
        let name = pci.unwrap_or_else(|| name.to_owned());
        let full = if rest.is_empty() { name.clone() } else { format!("{name},{rest}") };
        let interface = rest.split(',').find_map(|argument| argument.strip_prefix("iface="));
        Ok(Self {
            name,
            arguments: CString::new(full).map_err(|_| wrong("it has a NUL byte"))?,
            interface: interface.and_then(|name| CString::new(name).ok()),
        })
    }

    /// The port of this device, which is created or attached if there is none yet.
    pub(crate) fn probe(&self) -> Result<u16, PortError> {
        if let Some(id) = self.find() {
            return Ok(id);
        }
        self.check_interface()
            .map_err(|why| PortError::driver(&self.arguments.to_string_lossy(), "attach", why))?;
        log::explained(|| {
            // SAFETY: EAL runs and hot-plugging is serialised (both by the
            // caller), the arguments are a C string.
            match unsafe { sys::rte_dev_probe(self.arguments.as_ptr()) } {
                code if code < 0 => Err(code),
                _ => Ok(()),
            }
        })
        .map_err(|(code, log)| {
            // -1 is no errno here: the log has the reason.
            let known = code == -1 && !log.is_empty();
            let reason = if known { log } else { log::with_log(errno::text(code), &log) };
            PortError::driver(&self.arguments.to_string_lossy(), "attach", reason)
        })?;
        self.find().ok_or_else(|| {
            let reason = "a driver took it but made no port of it".to_owned();
            PortError::driver(&self.arguments.to_string_lossy(), "attach", reason)
        })
    }

    /// What drivers that sit on an interface of the kernel say unclearly or,
    /// without privileges, not at all.
    fn check_interface(&self) -> Result<(), String> {
        if !["net_af_packet", "net_af_xdp"].iter().any(|driver| self.name.starts_with(driver)) {
            return Ok(());
        }
        let Some(interface) = &self.interface else {
            return Err(format!("it needs an interface: {},iface=NAME", self.name));
        };
        // SAFETY: a C string.
        if unsafe { sys::hnlb_iface_index(interface.as_ptr()) } == 0 {
            let name = interface.to_string_lossy();
            return Err(format!("there is no interface '{name}' in this network namespace"));
        }
        Ok(())
    }

    fn find(&self) -> Option<u16> {
        let name = CString::new(self.name.as_str()).ok()?;
        let mut id = 0;
        // SAFETY: a C string and a writable number.
        if unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0 {
            return Some(id);
        }
        // Ports of cards with several ports on one address have other names.
        ports().find(|id| device_name(*id).as_deref() == Some(self.name.as_str()))
    }
}

/// Every port that exists.
pub(super) fn ports() -> impl Iterator<Item = u16> {
    let most = u16::try_from(sys::RTE_MAX_ETHPORTS).unwrap_or(u16::MAX);
    // SAFETY: any number may be asked for.
    (0..most).filter(|id| unsafe { sys::rte_eth_dev_is_valid_port(*id) } != 0)
}

/// What the driver says of a port.
pub(super) fn info(id: u16) -> Result<sys::rte_eth_dev_info, i32> {
    let mut info = MaybeUninit::<sys::rte_eth_dev_info>::zeroed();
    // SAFETY: writes the whole structure; wrong numbers give an error.
    match unsafe { sys::rte_eth_dev_info_get(id, info.as_mut_ptr()) } {
        code if code < 0 => Err(code),
        // SAFETY: zero means that it was written.
        _ => Ok(unsafe { info.assume_init() }),
    }
}

/// The name of the device behind a port.
fn device_name(id: u16) -> Option<String> {
    let device = info(id).ok()?.device;
    if device.is_null() {
        return None;
    }
    // SAFETY: the device of an existing port.
    let name = unsafe { sys::rte_dev_name(device) };
    if name.is_null() {
        return None;
    }
    // SAFETY: the device's name is a C string that lives as long as the device.
    Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// `domain:bus:device.function` of a PCI address with or without domain.
fn full_pci_address(text: &str) -> Option<String> {
    let hex =
        |part: &str, len: usize| part.len() == len && part.chars().all(|c| c.is_ascii_hexdigit());
    let (front, function) = text.rsplit_once('.')?;
    let mut parts = front.rsplit(':');
    let (device, bus) = (parts.next()?, parts.next()?);
    let domain = parts.next().unwrap_or("0000");
    let right = hex(domain, 4)
        && hex(bus, 2)
        && hex(device, 2)
        && hex(function, 1)
        && parts.next().is_none();
    right.then(|| format!("{domain}:{bus}:{device}.{function}").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pci_addresses_and_virtual_devices() {
        assert_eq!(Device::parse("01:00.1").unwrap().name, "0000:01:00.1");
        assert_eq!(Device::parse("0000:AF:00.1").unwrap().name, "0000:af:00.1");
        let packet = Device::parse("net_af_packet0,qpairs=2,iface=veth0").unwrap();
        assert_eq!(packet.name, "net_af_packet0");
        assert_eq!(packet.interface.as_deref(), Some(c"veth0"));
        let text = packet.arguments.to_str().unwrap();
        assert_eq!(text, "net_af_packet0,qpairs=2,iface=veth0");
        assert_eq!(Device::parse("net_null0").unwrap().interface, None);
    }

    #[test]
    fn what_is_no_device_is_told_why() {
        for text in ["", "0000:01:00", "1:00.0", "0000:01:00.0.0", ",iface=x"] {
            let error = Device::parse(text).unwrap_err();
            assert!(matches!(error, PortError::Name { .. }), "{text}: {error}");
        }
        let error = Device::parse("lo").unwrap_err().to_string();
        assert!(error.contains("net_af_packet0,iface=lo"), "{error}");
    }
}
