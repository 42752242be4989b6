//! Cards whose match tables the emulated NIC plays.
use crate::word::words;

words! {
    /// A card with a match table.
    CardProfile: "card profile" {
        /// Intel X550 (ixgbe): Flow Director with perfect filters for IPv4 only, one input mask for the whole port. The table has 2048 (default), 4096 or 8192 entries; rules can name 64 queues.
        X550 => "x550",
        /// Intel X710, XL710 and XXV710 (i40e): Flow Director for IPv4 and IPv6, one input set for each flow type, no counters. The table has up to 8192 entries (default: 8192); rules can name 64 queues.
        Xl710 => "xl710",
        /// Intel E810 (ice): Flow Director for IPv4 and IPv6, one input set for each flow type, counters. The table has up to 16384 entries (default: 16384).
        E810 => "e810",
        /// NVIDIA ConnectX-6 Dx and later (mlx5): groups of rules with arbitrary masks that rewrite packets and send them out of a port. The table has up to 4194304 entries (default: 262144).
        ConnectX => "connectx",
        /// NVIDIA BlueField-3 (mlx5): as `connectx`, with up to 262144 entries (default: 262144) and the packet rate of the XenoFlow paper.
        BlueField3 => "bluefield3",
    }
}

/// The numbers of entries that a card's match table can be configured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// One of these.
    OneOf(&'static [usize]),
    /// Any number from 1 to this.
    UpTo(usize),
}

impl Entries {
    /// Whether the table can have `entries`.
    #[must_use]
    pub fn allow(self, entries: usize) -> bool {
        match self {
            Self::OneOf(sizes) => sizes.contains(&entries),
            Self::UpTo(most) => (1..=most).contains(&entries),
        }
    }
}

/// What is known of a card beside the rules that its driver takes.
struct Facts {
    /// DPDK's name of the driver.
    driver: &'static str,
    entries: Entries,
    default_entries: usize,
    queues: u16,
    ipv6: bool,
    rewrites: bool,
    unique_marks: bool,
}

impl CardProfile {
    const fn facts(self) -> Facts {
        match self {
            Self::X550 => Facts {
                driver: "net_ixgbe",
                entries: Entries::OneOf(&[2048, 4096, 8192]),
                default_entries: 2048,
                queues: 64,
                ipv6: false,
                rewrites: false,
                unique_marks: true,
            },
            Self::Xl710 => Facts {
                driver: "net_i40e",
                entries: Entries::UpTo(8192),
                default_entries: 8192,
                queues: 64,
                ipv6: true,
                rewrites: false,
                unique_marks: false,
            },
            Self::E810 => Facts {
                driver: "net_ice",
                entries: Entries::UpTo(16_384),
                default_entries: 16_384,
                queues: 256,
                ipv6: true,
                rewrites: false,
                unique_marks: false,
            },
            Self::ConnectX => Facts {
                driver: "mlx5_pci",
                entries: Entries::UpTo(4_194_304),
                default_entries: 262_144,
                queues: 512,
                ipv6: true,
                rewrites: true,
                unique_marks: false,
            },
            // XenoFlow, section 6: "probably 256K" entries.
            Self::BlueField3 => Facts { entries: Entries::UpTo(262_144), ..Self::ConnectX.facts() },
        }
    }

    /// The first profile whose cards DPDK's driver `name` drives, for instance
    /// `net_ixgbe`. Profiles of one driver differ in the number of entries only.
    #[must_use]
    pub fn of_driver(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|card| card.facts().driver == name)
    }

    /// The numbers of entries that the match table can be configured for.
    #[must_use]
    pub const fn entries(self) -> Entries {
        self.facts().entries
    }

    /// The number of entries of a card that is not configured otherwise.
    #[must_use]
    pub const fn default_entries(self) -> usize {
        self.facts().default_entries
    }

    /// The number of receive queues that rules and RSS can name.
    #[must_use]
    pub const fn queues(self) -> u16 {
        self.facts().queues
    }

    /// Whether rules can match IPv6.
    #[must_use]
    pub const fn matches_ipv6(self) -> bool {
        self.facts().ipv6
    }

    /// Whether rules can rewrite packets and send them out of a port.
    #[must_use]
    pub const fn rewrites(self) -> bool {
        self.facts().rewrites
    }

    /// Whether no two rules of a port may have the same mark. The ixgbe driver
    /// deletes a filter by the hash of its bucket and its soft id, which is the
    /// mark: of two rules with one mark it could delete the wrong one.
    #[must_use]
    pub const fn needs_unique_marks(self) -> bool {
        self.facts().unique_marks
    }
}
