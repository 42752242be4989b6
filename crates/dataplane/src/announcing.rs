//! Announces VIPs to the kernel, where routing daemons learn of them.
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use announce::{Announcer, Changes, Routes, Standing, Verdict};
use config::Announce;
use control::Refusal;
use status::{AnnounceStatus, AnnouncedVip};

use crate::error::StartError;

/// How often VIPs are looked at, in milliseconds.
const EVERY_MS: u64 = 200;

/// The announced VIPs, and why others are not.
pub(crate) struct Announcing {
    device: String,
    table: u32,
    announcer: Announcer,
    routes: Routes,
    next_ms: u64,
    error: String,
}

impl Announcing {
    /// Announces nothing yet.
    ///
    /// # Errors
    /// The kernel makes no interface.
    pub(crate) fn start(config: &Announce) -> Result<Self, StartError> {
        let Announce { device, table, settle, .. } = config;
        let routes = Routes::open(device, *table)
            .map_err(|source| StartError::Announce { device: device.clone(), source })?;
        let settle_ms = u64::try_from(settle.as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            device: device.clone(),
            table: *table,
            announcer: Announcer::new(settle_ms),
            routes,
            next_ms: 0,
            error: String::new(),
        })
    }

    /// Whether it is time to look at the VIPs.
    pub(crate) const fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.next_ms
    }

    /// Whether routers are told of `vip`.
    pub(crate) fn announces(&self, vip: IpAddr) -> bool {
        self.announcer.verdicts().get(&vip) == Some(&Verdict::Announced)
    }

    /// Announces those of `vips` that can serve, and no others.
    pub(crate) fn follow(&mut self, vips: &BTreeMap<IpAddr, Standing>, now_ms: u64) {
        self.next_ms = now_ms + EVERY_MS;
        self.announcer.decide(vips, now_ms);
        self.install(&self.announcer.announced());
    }

    fn install(&mut self, vips: &BTreeSet<IpAddr>) {
        let Changes { new, gone, lost, error } = self.routes.follow(vips);
        if !lost.is_empty() {
            let device = &self.device;
            tracing::warn!(device, "somebody has set the device down, and with it the routes");
        }
        new.iter().for_each(|vip| tracing::info!("vip {vip} is announced"));
        for vip in &gone {
            let verdict = self.announcer.verdicts().get(vip);
            let why = verdict.map_or("no service has it", |own| own.word());
            tracing::warn!("vip {vip} is announced no more: {why}");
        }
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        if error != self.error && !error.is_empty() {
            tracing::error!(
                device = self.device,
                table = self.table,
                error,
                "the kernel refuses a route of a VIP; it is tried again"
            );
        }
        self.error = error;
    }

    /// Withdraws all VIPs or has them announced again, if that is said; what is announced
    /// then. `now_ms` and `vips` are as for [`Self::follow`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn steer(
        &mut self,
        withdraw: Option<bool>,
        vips: &BTreeMap<IpAddr, Standing>,
        now_ms: u64,
    ) -> Result<AnnounceStatus, Refusal> {
        if let Some(withdraw) = withdraw {
            let what = if withdraw { "withdrawn" } else { "to be announced again" };
            if withdraw != self.announcer.is_withdrawn() {
                tracing::info!("all VIPs are {what}");
            }
            self.announcer.withdraw(withdraw);
            self.follow(vips, now_ms);
            if !self.error.is_empty() {
                return Err(Refusal::Busy(format!("the kernel refuses a route: {}", self.error)));
            }
        }
        Ok(self.status())
    }

    /// What is announced, and why the rest is not.
    pub(crate) fn status(&self) -> AnnounceStatus {
        let vips = self.announcer.verdicts().iter().map(|(vip, verdict)| {
            let is_wanted = *verdict == Verdict::Announced;
            let announced = is_wanted && self.routes.has(*vip);
            let refused = is_wanted && !announced;
            let state = if refused { "refused by the kernel" } else { verdict.word() };
            AnnouncedVip { vip: vip.to_string(), announced, state: state.to_owned() }
        });
        AnnounceStatus {
            device: self.device.clone(),
            table: self.table,
            withdrawn: self.announcer.is_withdrawn(),
            vips: vips.collect(),
            error: self.error.clone(),
        }
    }
}
