//! The columns of tables that set HNLB's offloads side by side.

use clap::ValueEnum;
use flow::{Encoding, Mode};

use crate::config::{Device, LabRun};

/// One way of offloading connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// Encoding `rewrite` on the emulated NIC
    Rewrite,
    /// Encoding `mark` on the emulated NIC
    Mark,
    /// Encoding `queue` on the emulated NIC
    Queue,
    /// Software only, beside the emulated NIC
    Off,
    /// Encoding `rewrite` in the kernel, by XDP
    Xdp,
}

impl Column {
    /// Its name in tables, files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            _ => self.encoding().name(),
        }
    }

    /// The encoding of its rules.
    #[must_use]
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Rewrite | Self::Xdp => Encoding::Rewrite,
            Self::Mark => Encoding::Mark,
            Self::Queue => Encoding::Queue,
            Self::Off => Encoding::Off,
        }
    }

    /// HNLB with this offload and so many workers; with XDP there is one, as net_af_xdp
    /// polls one queue of a veth only.
    #[must_use]
    pub fn run(self, mode: Mode, workers: u16) -> LabRun {
        let emulated = LabRun { mode, workers, ..LabRun::emulated(self.encoding()) };
        match self {
            Self::Xdp => {
                LabRun { profile: None, queues: 1, workers: 1, device: Device::Xdp, ..emulated }
            }
            _ => emulated,
        }
    }
}
