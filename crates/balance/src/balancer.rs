//! The state machine: packets and a clock in, places for packets out.
use crate::algorithm::{Algorithm, Move, Snapshot};
use crate::latency::LatencyEwma;
use crate::order::{Keeper, Placement, Release};
use crate::settings::{Settings, SettingsError};

/// A balancer of one owner.
#[derive(Debug)]
pub struct Balancer {
    settings: Settings,
    algorithm: Option<Box<dyn Algorithm>>,
    keeper: Keeper,
    latency: Vec<LatencyEwma>,
    packets: Vec<u32>,
    busy: Vec<u16>,
    alive: Vec<bool>,
    /// The dead CPU that a bucket was taken from, until an algorithm moves it.
    displaced: Vec<Option<u16>>,
    triggered_ns: u64,
    destinations: Vec<u16>,
    averages: Vec<u32>,
    moves: Vec<Move>,
}

impl Balancer {
    /// A balancer whose buckets are divided equally in contiguous blocks (section 4.2.3);
    /// the first CPUs have one more where they don't divide.
    ///
    /// # Errors
    /// [`SettingsError`] names the number that is out of bounds.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let (cpus, buckets) = (usize::from(settings.cpus), usize::from(settings.buckets));
        let map = (0..settings.cpus).flat_map(|cpu| {
            let more = usize::from(usize::from(cpu) < buckets % cpus);
            std::iter::repeat_n(cpu, buckets / cpus + more)
        });
        Ok(Self::from_parts(settings, map.collect()))
    }

    /// A balancer that begins with `map`, the CPU of each bucket.
    ///
    /// # Errors
    /// [`SettingsError`] names the number that is out of bounds, or what is wrong with
    /// the map.
    pub fn with_map(settings: Settings, map: &[u16]) -> Result<Self, SettingsError> {
        settings.check()?;
        let (cpus, buckets) = (settings.cpus, settings.buckets);
        if map.len() != usize::from(buckets) {
            return Err(SettingsError::MapLength { length: map.len(), buckets });
        }
        if let Some((bucket, &cpu)) = map.iter().enumerate().find(|(_, cpu)| **cpu >= cpus) {
            return Err(SettingsError::MapCpu { bucket, cpu, cpus });
        }
        Ok(Self::from_parts(settings, map.to_vec()))
    }

    fn from_parts(settings: Settings, map: Vec<u16>) -> Self {
        let (cpus, buckets) = (usize::from(settings.cpus), map.len());
        Self {
            algorithm: settings.algorithm.algorithm(),
            keeper: Keeper::new(settings.order, map, cpus),
            latency: vec![LatencyEwma::default(); buckets],
            packets: vec![0; buckets],
            busy: Vec::with_capacity(cpus),
            alive: vec![true; cpus],
            displaced: vec![None; buckets],
            triggered_ns: 0,
            destinations: Vec::with_capacity(buckets),
            averages: Vec::with_capacity(buckets),
            moves: Vec::with_capacity(buckets),
            settings,
        }
    }

    /// Where a packet of a bucket goes. `None`: there is no such bucket.
    pub fn to_cpu(&mut self, bucket: u16, now_ns: u64) -> Option<Placement> {
        let placement = self.keeper.place(bucket, now_ns)?;
        if let (Placement::Send { .. }, Some(count)) =
            (placement, self.packets.get_mut(usize::from(bucket)))
        {
            *count = count.saturating_add(1);
        }
        Some(placement)
    }

    /// A packet of a bucket is back from a CPU, with its number and the nanoseconds that
    /// it was away. May run the algorithm, as the thesis does in line with the packet.
    /// What an unknown bucket or CPU is said of changes nothing.
    pub fn returned(&mut self, bucket: u16, cpu: u16, sequence: u64, away_ns: u64, now_ns: u64) {
        self.keeper.returned(cpu, sequence, now_ns);
        if let Some(latency) = self.latency.get_mut(usize::from(bucket)) {
            latency.add(away_ns, self.settings.alpha);
        }
        if now_ns.saturating_sub(self.triggered_ns) > self.settings.trigger_ns {
            self.trigger(now_ns);
        }
    }

    /// How busy each CPU was of late, in 1000ths, for the algorithms that look at it.
    pub fn report_busy(&mut self, busy: &[u16]) {
        self.busy.clear();
        self.busy.extend(busy.iter().take(self.alive.len()));
    }

    /// Lets time pass where no packets come back: held packets must not wait for ever.
    pub fn advance(&mut self, now_ns: u64) {
        self.keeper.look(now_ns);
    }

    /// The next bucket whose held packets go on. To be asked after every call that has
    /// a clock, before the next packet.
    pub fn release(&mut self) -> Option<Release> {
        self.keeper.release()
    }

    /// A CPU is dead: its buckets go to the others at once, those of most packets first
    /// to the CPU of fewest, and no bucket moves to it before [`Balancer::revive`]. With
    /// no other CPU alive they stay.
    pub fn fail(&mut self, cpu: u16, now_ns: u64) {
        let Some(alive) = self.alive.get_mut(usize::from(cpu)) else { return };
        *alive = false;
        self.keeper.forget(cpu);
        self.keeper.cancel(cpu);
        self.keeper.look(now_ns);
        self.scatter(cpu, now_ns);
    }

    /// Gives the buckets of a dead CPU to the living.
    fn scatter(&mut self, cpu: u16, now_ns: u64) {
        let mut loads = vec![0_u64; self.alive.len()];
        for (&of, &packets) in self.keeper.map().iter().zip(&self.packets) {
            if let Some(load) = loads.get_mut(usize::from(of)) {
                // An idle bucket counts, too, so that equal buckets are spread.
                *load += u64::from(packets) + 1;
            }
        }
        let map = self.keeper.map().iter().zip(&self.packets).zip(0_u16..);
        let mut orphans: Vec<(u32, u16)> = map
            .filter(|((of, _), _)| **of == cpu)
            .map(|((_, packets), bucket)| (*packets, bucket))
            .collect();
        orphans.sort_unstable_by(|one, other| other.cmp(one));
        for (packets, bucket) in orphans {
            let living = (0_u16..).zip(&mut loads).zip(&self.alive).filter(|(_, alive)| **alive);
            let Some(((to, load), _)) = living.min_by_key(|((_, load), _)| **load) else { return };
            *load += u64::from(packets) + 1;
            if let Some(displaced) = self.displaced.get_mut(usize::from(bucket)) {
                displaced.get_or_insert(cpu);
            }
            self.keeper.want(Move { bucket, from: cpu, to }, now_ns);
        }
    }

    /// A CPU is alive again. It gets back the buckets that it has lost by its death, as
    /// far as no algorithm has moved them since, and those of CPUs that are still dead
    /// if it is the only one alive.
    pub fn revive(&mut self, cpu: u16, now_ns: u64) {
        match self.alive.get_mut(usize::from(cpu)) {
            Some(alive) if !*alive => *alive = true,
            _ => return,
        }
        for other in 0..self.settings.cpus {
            if !self.is_alive(other) {
                self.scatter(other, now_ns);
            }
        }
        let places = self.keeper.map().iter().zip(&mut self.displaced).zip(0_u16..);
        let mut home = Vec::new();
        for ((of, displaced), bucket) in places {
            if *displaced == Some(cpu) {
                *displaced = None;
                home.push(Move { bucket, from: *of, to: cpu });
            }
        }
        for wanted in home {
            self.keeper.want(wanted, now_ns);
        }
    }

    fn is_alive(&self, cpu: u16) -> bool {
        self.alive.get(usize::from(cpu)).copied().unwrap_or(false)
    }

    /// The CPU of each bucket.
    #[must_use]
    pub fn map(&self) -> &[u16] {
        self.keeper.map()
    }

    /// The average latency of each bucket in nanoseconds; 0 before its first packet.
    pub fn latencies(&self) -> impl Iterator<Item = u32> + '_ {
        self.latency.iter().map(|latency| latency.ns())
    }

    /// Moves that have been carried out.
    #[must_use]
    pub const fn moved(&self) -> u64 {
        self.keeper.totals().0
    }

    /// Moves that were given up since packets would have been held for too long.
    #[must_use]
    pub const fn abandoned(&self) -> u64 {
        self.keeper.totals().1
    }

    fn trigger(&mut self, now_ns: u64) {
        self.triggered_ns = now_ns;
        let Some(algorithm) = &mut self.algorithm else { return };
        self.destinations.clear();
        self.destinations.extend(self.keeper.destinations());
        self.averages.clear();
        self.averages.extend(self.latency.iter().map(|latency| latency.ns()));
        let seen = Snapshot {
            now_ns,
            cpus: self.alive.len(),
            map: &self.destinations,
            latency: &self.averages,
            packets: &self.packets,
            fixed: &[],
            busy: &self.busy,
        };
        algorithm.decide(&seen, &mut self.moves);
        self.packets.fill(0);
        for wanted in self.moves.drain(..) {
            if self.alive.get(usize::from(wanted.to)).copied().unwrap_or(false) {
                if let Some(displaced) = self.displaced.get_mut(usize::from(wanted.bucket)) {
                    *displaced = None;
                }
                self.keeper.want(wanted, now_ns);
            }
        }
    }
}
