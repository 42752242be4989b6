//! Which buckets go where: one trait, the thesis' two algorithms and three others.
mod dsw;
mod even;
mod rsspp;
mod thesis;

pub use dsw::Dsw;
pub use even::Even;
pub use rsspp::Rsspp;
pub use thesis::{Marks, SafeMark, Thesis};

/// A bucket that changes its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The bucket.
    pub bucket: u16,
    /// The CPU that it leaves.
    pub from: u16,
    /// The CPU that it joins.
    pub to: u16,
}

/// What an algorithm sees when it is triggered.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The time in nanoseconds.
    pub now_ns: u64,
    /// The number of CPUs.
    pub cpus: usize,
    /// The CPU of each bucket.
    pub map: &'a [u16],
    /// The average latency of each bucket in any one unit; 0 before its first packet.
    pub latency: &'a [u32],
    /// Packets of each bucket since the trigger before.
    pub packets: &'a [u32],
    /// Packets of each CPU since the trigger before that belong to no bucket, and stay;
    /// empty: there are none.
    pub fixed: &'a [u32],
    /// The share of its time that each CPU was busy since the trigger before, in 1000ths.
    /// LASLB does without. If it is empty, RSS++ takes the CPUs for equally fast, and DSW
    /// does nothing.
    pub busy: &'a [u16],
}

impl Snapshot<'_> {
    /// The sum of `of` over the buckets of each CPU, into `sums`.
    fn sum_by_cpu(&self, of: &[u64], sums: &mut Vec<u64>) {
        sums.clear();
        sums.resize(self.cpus, 0);
        for (&cpu, &value) in self.map.iter().zip(of) {
            if let Some(sum) = sums.get_mut(usize::from(cpu)) {
                *sum += value;
            }
        }
    }

    /// The buckets of a CPU, ascending.
    fn buckets_of(&self, cpu: usize) -> impl Iterator<Item = usize> + '_ {
        let own = self.map.iter().enumerate();
        own.filter(move |(_, of)| usize::from(**of) == cpu).map(|(bucket, _)| bucket)
    }
}

/// Decides which buckets move.
pub trait Algorithm: std::fmt::Debug + Send {
    /// Adds the moves that a trigger leads to. No bucket moves twice.
    fn decide(&mut self, seen: &Snapshot<'_>, moves: &mut Vec<Move>);
}

/// The algorithms by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// [`Thesis`] with all CPUs below the safe mark as targets.
    Max(Marks),
    /// [`Thesis`] with two targets and two moves.
    Low2(Marks),
    /// [`Rsspp`].
    Rsspp,
    /// [`Dsw`].
    Dsw,
    /// [`Even`], the default.
    Even,
    /// Nothing ever moves.
    Still,
}

impl Kind {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Max(_) => "max",
            Self::Low2(_) => "low2",
            Self::Rsspp => "rsspp",
            Self::Dsw => "dsw",
            Self::Even => "even",
            Self::Still => "still",
        }
    }

    /// The algorithm itself; `None`: nothing moves.
    #[must_use]
    pub fn algorithm(self) -> Option<Box<dyn Algorithm>> {
        match self {
            Self::Max(marks) => Some(Box::new(Thesis::max(marks))),
            Self::Low2(marks) => Some(Box::new(Thesis::low2(marks))),
            Self::Rsspp => Some(Box::<Rsspp>::default()),
            Self::Dsw => Some(Box::<Dsw>::default()),
            Self::Even => Some(Box::<Even>::default()),
            Self::Still => None,
        }
    }
}
