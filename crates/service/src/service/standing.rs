//! What a backend's weight follows from.
use flow::AllDown;

use crate::BackendSpec;

/// The part of its configured weight that a backend has by its health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health(u8);

const PERCENT: u8 = 100;

impl Health {
    /// It is up, or not checked.
    pub const UP: Self = Self(PERCENT);
    /// It is down.
    pub const DOWN: Self = Self(0);

    /// So many percent of the weight: 0 is down, 100 and above are all of it.
    #[must_use]
    pub const fn percent(percent: u8) -> Self {
        if percent > PERCENT { Self::UP } else { Self(percent) }
    }

    /// In percent.
    #[must_use]
    pub const fn as_percent(self) -> u8 {
        self.0
    }
}

/// What is known of one backend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    configured: u16,
    backup: bool,
    pub(super) drained: bool,
    pub(super) health: Health,
}

impl Standing {
    /// As configured.
    pub(super) const fn of(spec: &BackendSpec) -> Self {
        Self { configured: spec.weight, backup: spec.backup, drained: false, health: Health::UP }
    }

    /// Whether a command has drained it.
    pub(super) const fn is_drained(&self) -> bool {
        self.drained
    }

    /// Whether it has a weight to lose.
    pub(super) const fn can_drain(&self) -> bool {
        self.configured > 0
    }

    /// Its weight in percent of a unit, whatever others have.
    fn weight(&self) -> u32 {
        if self.drained { 0 } else { u32::from(self.configured) * u32::from(self.health.0) }
    }

    /// The same without its health.
    fn weight_if_up(&self) -> u32 {
        Self { health: Health::UP, ..*self }.weight()
    }
}

/// The weights of all backends of a service. The first of these groups that has a
/// weight serves: backends that are up, backups that are up, and with
/// [`AllDown::ServeAll`] the backends as if they were up.
pub(super) fn weights(all: &[Standing], all_down: AllDown) -> Vec<u16> {
    let of = |weight: &dyn Fn(&Standing) -> u32| whole(all.iter().map(weight).collect());
    let serves = |weights: &[u16]| weights.iter().any(|weight| *weight > 0);
    let own = of(&|own| if own.backup { 0 } else { own.weight() });
    if serves(&own) {
        return own;
    }
    let backups = of(&|own| if own.backup { own.weight() } else { 0 });
    if serves(&backups) || all_down == AllDown::Refuse {
        return backups;
    }
    of(&|own| if own.backup { 0 } else { own.weight_if_up() })
}

/// `weights` in percent of a unit as whole numbers: in units if all are, else in the
/// finest part that has room.
fn whole(weights: Vec<u32>) -> Vec<u16> {
    let unit = u32::from(PERCENT);
    let most = weights.iter().copied().max().unwrap_or(0);
    let divisor = if weights.iter().all(|weight| weight % unit == 0) {
        unit
    } else {
        most.div_ceil(u32::from(u16::MAX)).max(1)
    };
    // One that has a little of a weight keeps a little.
    let part = |weight: u32| (weight / divisor).max(u32::from(weight > 0));
    weights.into_iter().map(|weight| u16::try_from(part(weight)).unwrap_or(u16::MAX)).collect()
}
