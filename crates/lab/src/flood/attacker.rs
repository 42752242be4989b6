//! The attacker: sends frames past its kernel, at a rate, until it is told to stop.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::socket::{self, AddressFamily, MsgFlags, SockFlag, SockType};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::Attack;
use super::frames::Frames;
use crate::{LabError, Stop};

/// Time between two batches of frames.
const TICK: Duration = Duration::from_millis(1);
/// The attacker's interface.
const INTERFACE: &str = "eth0";

/// What the attacker is to do.
#[derive(Debug, Clone, Args)]
pub struct Attacker {
    /// HNLB's Ethernet address
    #[arg(long)]
    target: String,
    /// Frames a second of each attack
    #[arg(long)]
    rate: u32,
    /// A file with the clients' ends of connections that exist, one a line
    #[arg(long)]
    held: PathBuf,
    /// Seed of the frames
    #[arg(long)]
    seed: u64,
    /// The attacks
    #[arg(required = true)]
    attacks: Vec<Attack>,
}

impl Attacker {
    /// Sends until the stop; prints how many frames have been sent.
    ///
    /// # Errors
    /// If there is no interface to send from, or the file is not as it should be.
    pub fn run(&self, stop: &Stop) -> Result<bool, LabError> {
        let (own, socket) = socket()?;
        let text = std::fs::read_to_string(&self.held)
            .map_err(LabError::io(format!("read {}", self.held.display())))?;
        let held: Vec<SocketAddr> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let rng = StdRng::seed_from_u64(self.seed);
        let mut frames = Frames::new(rng, own, mac(&self.target)?, held);
        let (mut sent, mut refused) = (0_u64, 0_u64);
        // In frames of each attack.
        let (begin, mut done) = (Instant::now(), 0);
        while !stop.requested() {
            let due = (begin.elapsed().as_secs_f64() * f64::from(self.rate)) as u64;
            for _ in done..due {
                for attack in &self.attacks {
                    let frame = frames.next(*attack);
                    match socket::send(socket.as_raw_fd(), &frame, MsgFlags::empty()) {
                        Ok(_) => sent += 1,
                        // The queue of the link is full.
                        Err(_) => refused += 1,
                    }
                }
                if stop.requested() {
                    break;
                }
            }
            done = due;
            std::thread::sleep(TICK);
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!("{{\"sent\":{sent},\"refused\":{refused},\"seconds\":{seconds:.3}}}");
        Ok(true)
    }
}

/// A socket that sends whole frames on the interface and receives none, and the
/// interface's address (packet(7): protocol 0).
fn socket() -> Result<([u8; 6], std::os::fd::OwnedFd), LabError> {
    let what = |error: nix::Error| {
        LabError::io(format!("send frames on {INTERFACE}"))(std::io::Error::from(error))
    };
    let link = nix::ifaddrs::getifaddrs().map_err(what)?.find_map(|entry| {
        let address = entry.address.filter(|_| entry.interface_name == INTERFACE)?;
        address.as_link_addr().copied()
    });
    let Some((link, own)) = link.and_then(|link| Some((link, link.addr()?))) else {
        return Err(what(nix::Error::ENODEV));
    };
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(what)?;
    socket::bind(socket.as_raw_fd(), &link).map_err(what)?;
    Ok((own, socket))
}

fn mac(text: &str) -> Result<[u8; 6], LabError> {
    let bytes: Option<Vec<u8>> =
        text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| LabError::Parse {
        tool: "the kernel",
        detail: format!("an Ethernet address is expected: {text}"),
    })
}
