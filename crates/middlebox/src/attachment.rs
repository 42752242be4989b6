//! How a network function is attached: the device at either end.
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An attachment as it is written: `vhost:/run/hnlb/nf0.sock`, `memif:/run/hnlb/nf.sock`,
/// `ring`, or any DPDK device, as the PCI address of a virtual function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Attachment {
    /// A vhost-user socket: the server makes it (net_vhost), the function's process
    /// connects (net_virtio_user).
    Vhost(PathBuf),
    /// A memif socket: the server makes it, the function's process connects.
    Memif(PathBuf),
    /// A thread of the server's own process, behind a net_ring port.
    Ring,
    /// A DPDK device whose other end is somebody's business.
    Device(String),
}

/// The text is no attachment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not an attachment; write vhost:SOCKET, memif:SOCKET, ring, the PCI address of a virtual \
     function, as 0000:3b:10.2, or a virtual device, as net_af_packet0,iface=nf0; a socket's path \
     is absolute, without commas, and has at most 100 bytes"
)]
pub struct BadAttachment(String);

impl TryFrom<String> for Attachment {
    type Error = BadAttachment;

    fn try_from(text: String) -> Result<Self, BadAttachment> {
        let path = |path: &str| {
            let fine = path.starts_with('/')
                && path.len() <= 100
                && path.chars().all(|c| c.is_ascii_graphic() && c != ',');
            fine.then(|| PathBuf::from(path)).ok_or_else(|| BadAttachment(text.clone()))
        };
        if let Some(socket) = text.strip_prefix("vhost:") {
            return path(socket).map(Self::Vhost);
        }
        if let Some(socket) = text.strip_prefix("memif:") {
            return path(socket).map(Self::Memif);
        }
        if text == "ring" {
            return Ok(Self::Ring);
        }
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err(BadAttachment(text));
        }
        Ok(Self::Device(text))
    }
}

impl std::str::FromStr for Attachment {
    type Err = BadAttachment;

    fn from_str(text: &str) -> Result<Self, BadAttachment> {
        text.to_owned().try_into()
    }
}

impl From<Attachment> for String {
    fn from(attachment: Attachment) -> Self {
        attachment.to_string()
    }
}

impl std::fmt::Display for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vhost(path) => write!(f, "vhost:{}", path.display()),
            Self::Memif(path) => write!(f, "memif:{}", path.display()),
            Self::Ring => f.write_str("ring"),
            Self::Device(device) => f.write_str(device),
        }
    }
}

impl Attachment {
    /// The server's DPDK device for attachment `number`. A memif socket, and a thread of the
    /// server, are none of DPDK's devices, and have their text here.
    #[must_use]
    pub fn device(&self, number: usize) -> String {
        match self {
            Self::Vhost(path) => {
                format!("net_vhost{number},iface={},queues=1", path.display())
            }
            Self::Memif(_) | Self::Ring | Self::Device(_) => self.to_string(),
        }
    }

    /// The device of the function's process; `None`: it has no process of its own.
    #[must_use]
    pub fn of_function(&self) -> Option<String> {
        Some(match self {
            Self::Vhost(path) => {
                format!("net_virtio_user0,path={},queues=1,queue_size=1024", path.display())
            }
            Self::Memif(path) => format!(
                "net_memif0,role=client,id=0,socket={},socket-abstract=no,rsize=10",
                path.display()
            ),
            Self::Ring => return None,
            Self::Device(device) => device.clone(),
        })
    }

    /// The socket that the server makes.
    #[must_use]
    pub fn socket(&self) -> Option<&std::path::Path> {
        match self {
            Self::Vhost(path) | Self::Memif(path) => Some(path),
            Self::Ring | Self::Device(_) => None,
        }
    }

    /// Whether it is a PCI device.
    #[must_use]
    pub fn is_pci(&self) -> bool {
        matches!(self, Self::Device(device) if config::is_pci(device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_is_read_as_it_is_written() {
        for text in ["vhost:/run/a.sock", "memif:/run/a.sock", "ring", "0000:3b:10.2", "net_null0"]
        {
            assert_eq!(text.parse::<Attachment>().unwrap().to_string(), text);
        }
        for text in ["", "vhost:", "vhost:run/a", "memif:/a,b", "net null"] {
            let error = text.parse::<Attachment>().unwrap_err().to_string();
            assert!(error.contains("vhost:SOCKET"), "{error}");
        }
        assert!("0000:3b:10.2".parse::<Attachment>().unwrap().is_pci());
        assert!(!"net_null0".parse::<Attachment>().unwrap().is_pci());
    }
}
