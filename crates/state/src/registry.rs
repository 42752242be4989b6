//! Counters and levels: each has a name, a kind and a sentence, all given in the
//! one line that makes it, and a report goes over all of them.
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a number counts. For every worker the sum of [`In`](Self::In) equals
/// the sum of the five kinds after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// Packets received.
    In,
    /// Packets sent on to their connection's other end.
    Forwarded,
    /// Packets turned into an answer and sent back.
    Replied,
    /// Packets dropped, by reason.
    Dropped,
    /// Packets that were for the load balancer itself.
    Consumed,
    /// Packets that wait here at present. Falls, too.
    Held,
    /// Packets that were made here, from none that came in.
    Originated,
    /// Packets given to a send queue. With those of [`Unsent`](Self::Unsent)
    /// they are the forwarded, the replied and the originated ones.
    Sent,
    /// Packets that left the load balancer nowhere although they should have.
    Unsent,
    /// Events, outside the sums.
    Info,
    /// What there is at present. Falls, too.
    Level,
}

/// One number of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, in snake_case.
    pub name: &'static str,
    /// What it counts.
    pub kind: CounterKind,
    /// One sentence about it.
    pub help: &'static str,
    /// The present value.
    pub value: u64,
}

/// The names of the counters of one set.
pub trait CounterName: Copy + Debug + 'static {
    /// Every counter, each at its [`place`](Self::place).
    const ALL: &'static [Self];

    /// The place in the set, from 0.
    fn place(self) -> usize;

    /// The counter with `value`.
    fn metric(self, value: u64) -> Metric;
}

/// The counters of one thread: written by that thread, read by anybody.
#[derive(Debug)]
pub struct CounterSet<C> {
    values: Box<[AtomicU64]>,
    names: PhantomData<C>,
}

impl<C: CounterName> Default for CounterSet<C> {
    fn default() -> Self {
        Self { values: C::ALL.iter().map(|_| AtomicU64::new(0)).collect(), names: PhantomData }
    }
}

impl<C: CounterName> CounterSet<C> {
    /// The present value of `counter`.
    #[must_use]
    pub fn get(&self, counter: C) -> u64 {
        self.values.get(counter.place()).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    /// Every counter with its present value.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> {
        C::ALL.iter().map(|&counter| counter.metric(self.get(counter)))
    }

    /// The sum of all counters of `kind`.
    #[must_use]
    pub fn total(&self, kind: CounterKind) -> u64 {
        self.metrics().filter(|metric| metric.kind == kind).map(|metric| metric.value).sum()
    }

    /// Packets in, and packets accounted for; equal between two bursts.
    #[must_use]
    pub fn balance(&self) -> (u64, u64) {
        use CounterKind::{Consumed, Dropped, Forwarded, Held, In, Replied};
        let kinds = [Forwarded, Replied, Dropped, Consumed, Held];
        (self.total(In), kinds.into_iter().map(|kind| self.total(kind)).sum())
    }

    /// Adds `by` to `counter`. Only one thread writes, so a load and a store do.
    #[inline]
    pub fn add(&self, counter: C, by: u64) {
        if let Some(value) = self.values.get(counter.place()) {
            value.store(value.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        }
    }

    /// Adds one to `counter`.
    #[inline]
    pub fn count(&self, counter: C) {
        self.add(counter, 1);
    }

    /// Says what there is of `counter`, which is a level.
    #[inline]
    pub fn set(&self, counter: C, value: u64) {
        if let Some(own) = self.values.get(counter.place()) {
            own.store(value, Ordering::Relaxed);
        }
    }

    /// Takes `by` from `counter`, which is of a kind that also falls.
    #[inline]
    pub fn sub(&self, counter: C, by: u64) {
        self.add(counter, by.wrapping_neg());
    }
}

/// Makes the names of a [`CounterSet`]: `Kind { Variant "name" "Sentence.", }`.
#[macro_export]
macro_rules! counters {
    ($(#[$doc:meta])* $vis:vis enum $Counter:ident {
        $($kind:ident { $($variant:ident $name:literal $help:literal,)* })*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        $vis enum $Counter {
            $($(#[doc = $help] $variant,)*)*
        }

        impl $Counter {
            /// Every counter.
            $vis const ALL: &[Self] = &[$($(Self::$variant,)*)*];

            /// Its name, in snake_case.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self { $($(Self::$variant => $name,)*)* }
            }

            /// What it counts.
            #[must_use]
            $vis const fn kind(self) -> $crate::CounterKind {
                match self { $($(Self::$variant => $crate::CounterKind::$kind,)*)* }
            }

            /// One sentence about it.
            #[must_use]
            $vis const fn help(self) -> &'static str {
                match self { $($(Self::$variant => $help,)*)* }
            }
        }

        impl $crate::CounterName for $Counter {
            const ALL: &'static [Self] = Self::ALL;

            #[inline]
            fn place(self) -> usize {
                self as usize
            }

            fn metric(self, value: u64) -> $crate::Metric {
                let (name, kind, help) = (self.name(), self.kind(), self.help());
                $crate::Metric { name, kind, help, value }
            }
        }
    };
}
