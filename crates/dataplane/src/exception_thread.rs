//! The thread of the exception path: it carries packets between the workers and the
//! kernel's interfaces, and keeps those as the configuration says.
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpdk::{Mbuf, Mempool};
use flow::InterfaceId;
use l3::{Interface, Interfaces};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use packet::PacketBuf;
use state::{Counter, Counters, Shared, Snapshot};
use wire::vlan;

use crate::clock::Clock;
use crate::error::StartError;
use crate::idle::Bell;
use crate::rings::drain;
use crate::tap::Tap;
use crate::worker::Injected;

/// Packets of one worker that may wait for the kernel.
pub(crate) const TO_KERNEL: usize = 1024;
/// Packets of the kernel's that may wait for the worker that sends them. While they
/// do, others wait in the kernel's queue, which is where it expects them to.
pub(crate) const FROM_KERNEL: usize = 1024;
/// Packets taken from one place in one turn.
const PER_TURN: usize = 64;
/// How long the thread rests while the worker has no room for the kernel's packets.
const PAUSE: Duration = Duration::from_micros(100);
/// How long an interface that the kernel refuses stays untried, in milliseconds.
const RETRY_MS: u64 = 1000;
/// How long the kernel may save up what it does not send, in milliseconds.
const BURST_MS: u64 = 10;
/// The longest frame: an IP packet of 64 KiB behind an Ethernet header.
const ROOM: usize = (1 << 16) + 14;

/// A packet for the kernel, and the interface that it came in on.
pub(crate) type ForKernel = (InterfaceId, Mbuf);

/// The kernel's interfaces.
#[derive(Default)]
pub(crate) struct Taps(BTreeMap<InterfaceId, Tap>);

impl Taps {
    /// Makes those that `interfaces` ask for.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn open(interfaces: &Interfaces) -> Result<Self, StartError> {
        let mut taps = Self::default();
        taps.follow(interfaces, |interface, name, source| StartError::Kernel {
            interface: interface.name.clone(),
            name: name.to_owned(),
            source,
        })
        .map_or(Ok(taps), Err)
    }

    /// Makes them those that `interfaces` ask for. The last thing that the kernel
    /// refused, as `report` has it.
    fn follow<E>(
        &mut self,
        interfaces: &Interfaces,
        report: impl Fn(&Interface, &str, io::Error) -> E,
    ) -> Option<E> {
        let stays = |id: &InterfaceId, tap: &mut Tap| {
            let own = interfaces.get(*id);
            own.is_some_and(|own| own.kernel.as_deref() == Some(tap.name()))
        };
        self.0.retain(stays);
        let mut refused = None;
        for (id, own) in interfaces.iter() {
            let Some(name) = own.kernel.as_deref() else { continue };
            let done = match self.0.get_mut(&id) {
                Some(tap) if tap.is_like(own) => Ok(()),
                Some(tap) => tap.follow(own),
                None => Tap::open(name, own).map(|tap| drop(self.0.insert(id, tap))),
            };
            if let Err(source) = done {
                refused = Some(report(own, name, source));
            }
        }
        refused
    }
}

/// How many packets may be taken from the kernel now.
#[derive(Debug, Default)]
struct Allowance {
    /// In thousandths of a packet.
    left: u64,
    at_ms: u64,
}

impl Allowance {
    /// Adds what `per_second` gives until `now_ms`, up to that of [`BURST_MS`].
    fn refill(&mut self, per_second: u32, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.at_ms).min(BURST_MS);
        let rate = u64::from(per_second);
        // A packet at least, however low the rate is.
        let most = (rate * BURST_MS).max(if rate > 0 { 1_000 } else { 0 });
        (self.left, self.at_ms) = ((self.left + rate * passed_ms).min(most), now_ms);
    }

    const fn packets(&self) -> usize {
        (self.left / 1_000) as usize
    }

    const fn spend(&mut self) {
        self.left = self.left.saturating_sub(1_000);
    }
}

/// Everything the thread owns.
pub(crate) struct ExceptionThread {
    shared: Arc<Shared>,
    /// The configuration that `taps` follow.
    followed: Arc<Snapshot>,
    /// When the kernel is asked again for what it has refused.
    retry_ms: Option<u64>,
    taps: Taps,
    /// What workers have for the kernel.
    given: Vec<rtrb::Consumer<ForKernel>>,
    /// The way to the worker that sends the kernel's packets, and what wakes it.
    send: rtrb::Producer<Injected>,
    bell: Option<Arc<Bell>>,
    pool: Mempool,
    counters: Arc<Counters>,
    room: Vec<u8>,
    allowance: Allowance,
}

impl ExceptionThread {
    /// The thread between `given`, which workers fill, and the kernel's interfaces
    /// `taps`, whose packets go to `send`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        taps: Taps,
        given: Vec<rtrb::Consumer<ForKernel>>,
        (send, bell): (rtrb::Producer<Injected>, Option<Arc<Bell>>),
        pool: Mempool,
    ) -> Self {
        let followed = shared.snapshot();
        let (counters, room) = (Arc::default(), vec![0; ROOM]);
        let (retry_ms, allowance) = (None, Allowance::default());
        Self {
            shared,
            followed,
            retry_ms,
            taps,
            given,
            send,
            bell,
            pool,
            counters,
            room,
            allowance,
        }
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Runs until `stop`.
    pub(crate) fn run(mut self, clock: Clock, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let now_ms = clock.now_ms();
            self.follow(now_ms);
            self.allowance.refill(self.followed.answers.from_kernel_per_second, now_ms);
            let given = self.give();
            let taken = self.take();
            if let Some(bell) = self.bell.as_ref().filter(|_| taken > 0) {
                bell.ring();
            }
            if self.send.slots() == 0 {
                std::thread::sleep(PAUSE);
            } else if self.allowance.packets() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            } else if given + taken == 0 {
                self.wait();
            }
        }
    }

    /// Keeps the kernel's interfaces as the configuration in force says.
    fn follow(&mut self, now_ms: u64) {
        let is_due = self.retry_ms.is_some_and(|at| now_ms >= at);
        let now = self.shared.snapshot();
        if Arc::ptr_eq(&now, &self.followed) && !is_due {
            return;
        }
        self.followed = Arc::clone(&now);
        let refused = self.taps.follow(&now.interfaces, |interface, name, error| {
            tracing::error!(interface = interface.name, kernel = name, %error, "the kernel's interface can't be made or changed; it is tried again");
        });
        self.retry_ms = refused.map(|()| now_ms + RETRY_MS);
    }

    /// Gives the kernel what workers have for it. Returns how many packets.
    fn give(&mut self) -> usize {
        let Self { given, taps, counters, .. } = self;
        let mut count = 0;
        for (id, packet) in drain(given, PER_TURN) {
            count += 1;
            let taken = taps.0.get(&id).is_some_and(|tap| tap.give(packet.bytes()).is_ok());
            if !taken {
                counters.count(Counter::KernelRefused);
            }
        }
        count
    }

    /// Takes what the kernel sends, as far as the worker has room. Returns how many
    /// packets.
    fn take(&mut self) -> usize {
        let Self { followed, taps, send, pool, counters, room, allowance, .. } = self;
        let mut count = 0;
        for (id, tap) in &taps.0 {
            let Some(own) = followed.interfaces.get(*id) else { continue };
            for _ in 0..PER_TURN.min(send.slots()).min(allowance.packets()) {
                let Some(frame) = tap.take(room) else { break };
                count += 1;
                allowance.spend();
                let packet = outgoing(pool, frame, own);
                if packet.is_some_and(|packet| send.push((own.port, packet)).is_ok()) {
                    counters.count(Counter::FromKernel);
                    counters.count(Counter::OriginatedPackets);
                } else {
                    counters.count(Counter::FromKernelUnfit);
                }
            }
        }
        count
    }

    /// Waits for the kernel to send something, a millisecond at most: workers make no
    /// system call to wake this thread.
    fn wait(&mut self) {
        let taps = self.taps.0.values();
        let mut taps: Vec<PollFd<'_>> =
            taps.map(|tap| PollFd::new(tap.as_fd(), PollFlags::POLLIN)).collect();
        let most = if taps.is_empty() { 20u8 } else { 1 };
        let _ = poll(&mut taps, PollTimeout::from(most));
        // After `ip link delete` a file tells nothing but that, and tells it at once.
        let failed: Vec<bool> = taps
            .into_iter()
            .map(|own| own.revents().is_some_and(|told| told.contains(PollFlags::POLLERR)))
            .collect();
        if failed.contains(&true) {
            self.make_again(&failed);
        }
    }

    /// Lets go of the kernel's interfaces that have `failed`, so that they are made again.
    #[cold]
    fn make_again(&mut self, failed: &[bool]) {
        let mut failed = failed.iter();
        self.taps.0.retain(|_, tap| {
            let is_gone = failed.next() == Some(&true);
            if is_gone {
                let kernel = tap.name();
                tracing::error!(kernel, "the kernel's interface is gone; it is made again");
            }
            !is_gone
        });
        self.retry_ms = Some(0);
    }
}

/// The frame that leaves for `frame` of the kernel's over `own`.
fn outgoing(pool: &Mempool, frame: &[u8], own: &Interface) -> Option<Mbuf> {
    let mut packet = Mbuf::copy_from(pool, frame)?;
    let is_tagged = own.vlan.is_none_or(|id| vlan::push(&mut packet, id));
    is_tagged.then_some(packet)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In any stretch of time no more is allowed than the rate gives, and what may be
        /// saved up; and it is all of that if it is spent at once.
        #[test]
        fn the_kernel_sends_no_more_than_the_rate(
            rate in 0_u32..1_000_000,
            steps in prop::collection::vec((0_u64..5, any::<bool>()), 1..200),
        ) {
            let (mut allowance, mut now_ms, mut spent) = (Allowance::default(), 100, 0_u64);
            allowance.refill(rate, now_ms);
            for (passed_ms, spends) in steps {
                now_ms += passed_ms;
                allowance.refill(rate, now_ms);
                while spends && allowance.packets() > 0 {
                    allowance.spend();
                    spent += 1;
                }
                let given = u64::from(rate) * (now_ms - 100 + BURST_MS) / 1_000 + 1;
                prop_assert!(spent <= given, "{spent} of {given}");
            }
            while allowance.packets() > 0 {
                allowance.spend();
            }
            allowance.refill(rate, now_ms + BURST_MS);
            prop_assert!(allowance.packets() as u64 >= u64::from(rate) * BURST_MS / 1_000);
        }
    }
}
