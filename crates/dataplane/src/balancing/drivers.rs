//! What drivers do to change a redirection table, as their sources say (DPDK 22.11 to
//! 24.11, `drivers/net`).

/// How a driver updates the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// While the port runs.
    InPlace,
    /// By stopping and starting the port.
    Restarts {
        /// Where the driver's source says so.
        source: &'static str,
    },
    /// Not looked up: an update is measured.
    Unknown,
}

/// Drivers by name.
const DRIVERS: [(&str, Update); 12] = [
    // ixgbe_ethdev.c, ixgbe_dev_rss_reta_update: writes RETA and ERETA.
    ("net_ixgbe", Update::InPlace),
    ("net_ixgbe_vf", Update::InPlace),
    // i40e_ethdev.c, i40e_dev_rss_reta_update: reads the table, writes it by AdminQ or registers.
    ("net_i40e", Update::InPlace),
    // iavf_ethdev.c, iavf_dev_rss_reta_update: a message to the physical function.
    ("net_iavf", Update::InPlace),
    // ice_ethdev.c, ice_rss_reta_update: as i40e.
    ("net_ice", Update::InPlace),
    // igb_ethdev.c, eth_igb_rss_reta_update: writes RETA.
    ("net_e1000_igb", Update::InPlace),
    // igc_txrx.c, eth_igc_rss_reta_update: writes RETA.
    ("net_igc", Update::InPlace),
    // bnxt_ethdev.c, bnxt_reta_update_op: a command to the firmware.
    ("net_bnxt", Update::InPlace),
    // virtio_ethdev.c, virtio_dev_rss_reta_update: a command by the control queue.
    ("net_virtio", Update::InPlace),
    // rte_eth_null.c, eth_rss_reta_update: a table in memory.
    ("net_null", Update::InPlace),
    ("mlx5_pci", MLX5),
    ("mlx5_auxiliary", MLX5),
];

const MLX5: Update = Update::Restarts {
    source: "mlx5_rss.c, mlx5_dev_rss_reta_update: mlx5_dev_stop, then mlx5_dev_start",
};

/// How the driver called `name` updates the table.
pub(crate) fn update(name: &str) -> Update {
    let found = DRIVERS.iter().find(|(driver, _)| *driver == name);
    found.map_or(Update::Unknown, |(_, update)| *update)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_restarts_the_port_is_known() {
        assert!(matches!(update("mlx5_pci"), Update::Restarts { .. }));
        assert_eq!(update("net_ixgbe"), Update::InPlace);
        assert_eq!(update("net_tap"), Update::Unknown);
    }
}
