//! A link that loses, repeats, delays and reorders what goes over it, the same at every
//! run with the same seed. It stands in for netem, which not every kernel has.
//!
//! The host's end of its veth is renamed, and a TAP takes its place; another TAP is
//! plugged into the switch. A thread carries frames between the two. TAPs offer the kernel
//! no offloads, so that frames are whole: no segment is longer than the MTU, and every
//! checksum is there.

mod queue;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

pub(crate) use self::queue::{Faults, Tally};
use crate::topology::{self, Host, SWITCH};
use crate::{Lab, LabError};
use queue::Queue;

/// The longest frame that a TAP gives.
const ROOM: usize = 2048;
/// Frames that are taken from one side before the other has its turn.
const TURN: usize = 64;
/// How often the thread looks whether it is to end.
const LOOK_MS: u16 = 50;

/// A faulty link between a host and the switch. The host has its good one back when this
/// is removed; dropped, it ends the thread, and the host has no link any more.
pub(crate) struct FaultyLink {
    host: &'static Host,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<[Tally; 2]>>,
}

impl FaultyLink {
    /// Puts a faulty link in the place of the host's.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn insert(
        lab: &Lab,
        host: &'static Host,
        faults: Faults,
        seed: u64,
    ) -> Result<Self, LabError> {
        let mac = lab.exec(host.name, &["cat", "/sys/class/net/eth0/address"])?.success()?.stdout;
        let away = "ip link set eth0 down\nip addr flush dev eth0\nip link set eth0 name wire0\n";
        lab.exec(host.name, &["sh", "-eu", "-c", away])?.success()?;
        let (near, far) = (lab.netns(host.name), lab.netns(SWITCH));
        let plug = format!("faulty-{}", host.name);
        let taps = [tap(&near, "eth0", mac_of(&mac))?, tap(&far, &plug, None)?];
        let up = topology::addresses_script(host);
        lab.exec(host.name, &["sh", "-eu", "-c", &up])?.success()?;
        let plugged = format!("ip link set {plug} master br0 up\n");
        lab.exec(SWITCH, &["sh", "-eu", "-c", &plugged])?.success()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let queues = [Queue::new(faults, seed), Queue::new(faults, !seed)];
        let thread = std::thread::Builder::new()
            .name(plug)
            .spawn(move || carry(&taps, queues, &asked))
            .map_err(LabError::io("start the thread of a faulty link".to_owned()))?;
        Ok(Self { host, stop, thread: Some(thread) })
    }

    /// Gives the host its good link back. What was done to the packets that it sent, and
    /// to those sent to it.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn remove(mut self, lab: &Lab) -> Result<[Tally; 2], LabError> {
        let tallies = self.end();
        let back = "ip link set wire0 name eth0\n".to_owned();
        let script = back + &topology::addresses_script(self.host);
        lab.exec(self.host.name, &["sh", "-eu", "-c", &script])?.success()?;
        Ok(tallies)
    }

    fn end(&mut self) -> [Tally; 2] {
        self.stop.store(true, Ordering::Relaxed);
        let tallies = self.thread.take().map(JoinHandle::join);
        tallies.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for FaultyLink {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// A TAP in a namespace. A thread of its own enters the namespace, and ends.
fn tap(namespace: &str, name: &str, mac: Option<[u8; 6]>) -> Result<SyncDevice, LabError> {
    let place = Path::new("/run/netns").join(namespace);
    let make = || {
        setns(File::open(&place)?, CloneFlags::CLONE_NEWNET)?;
        let builder = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false);
        let builder = match mac {
            Some(mac) => builder.mac_addr(mac),
            None => builder,
        };
        let device = builder.mtu(1500).build_sync()?;
        device.set_nonblocking(true)?;
        Ok(device)
    };
    std::thread::scope(|scope| {
        let made = scope.spawn(make).join();
        made.unwrap_or_else(|_| Err(std::io::Error::other("the thread failed")))
    })
    .map_err(LabError::io(format!("make the TAP {name} in {namespace}")))
}

fn mac_of(text: &str) -> Option<[u8; 6]> {
    let mut bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16));
    let mut mac = [0; 6];
    for byte in &mut mac {
        *byte = bytes.next()?.ok()?;
    }
    Some(mac)
}

/// Carries frames between the TAPs, from each to the other by the queue of its number.
fn carry(taps: &[SyncDevice; 2], mut queues: [Queue; 2], stop: &AtomicBool) -> [Tally; 2] {
    let (began, mut room) = (Instant::now(), [0; ROOM]);
    while !stop.load(Ordering::Relaxed) {
        let now_us = || began.elapsed().as_micros() as u64;
        for (from, (tap, queue)) in taps.iter().zip(&mut queues).enumerate() {
            for _ in 0..TURN {
                let Ok(length) = tap.recv(&mut room) else { break };
                queue.take(room.get(..length).unwrap_or_default(), now_us());
            }
            let [near, far] = taps;
            let to = if from == 0 { far } else { near };
            while let Some(frame) = queue.due(now_us()) {
                // A TAP that is down loses the frame, as a link does.
                let _ = to.send(&frame);
            }
        }
        let next = queues.iter().filter_map(Queue::next).min();
        let wait = next.map(|at| Duration::from_micros(at.saturating_sub(now_us())));
        rest(taps, wait);
    }
    queues.map(|queue| queue.tally())
}

/// Waits for a frame, or for so long.
fn rest(taps: &[SyncDevice; 2], wait: Option<Duration>) {
    if wait.is_some_and(|wait| wait.is_zero()) {
        return;
    }
    // The kernel's clock of a poll is in milliseconds.
    let most = wait.map_or(LOOK_MS, |wait| wait.as_millis().clamp(1, LOOK_MS.into()) as u16);
    let mut fds = taps.each_ref().map(|tap| PollFd::new(tap.as_fd(), PollFlags::POLLIN));
    let _ = poll(&mut fds, PollTimeout::from(most));
}
