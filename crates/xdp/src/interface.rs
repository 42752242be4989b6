//! A network interface as XDP sees it: which program it has, and what it can.
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapHandle, MapType, Program, ProgramHandle, Xdp, XdpFlags};

use crate::{Error, Leftovers};

/// How the names of this crate's programs begin.
const OURS: &str = "hnlb_";

/// An interface of the kernel.
#[derive(Clone, Debug)]
pub struct Interface {
    name: String,
    index: u32,
}

/// What runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The driver, before the kernel allocates anything for the packet.
    Native,
    /// The kernel, for a driver without XDP: each packet is copied into the kernel's
    /// own buffer first.
    Generic,
    /// The card itself, or several programs at once.
    Other,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Other => "offloaded",
        })
    }
}

/// What an interface can (`NETDEV_XDP_ACT_*`); Linux 6.3 and later tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Its program may send packets to other interfaces.
    pub redirects: bool,
    /// Other interfaces' programs may send packets to it.
    pub is_target: bool,
    /// Its AF_XDP sockets work without copies.
    pub zero_copy: bool,
}

/// A program that is attached.
#[derive(Clone, Copy, Debug)]
struct Attached {
    id: u32,
    mode: Mode,
}

impl Interface {
    /// The interface `name` of this network namespace.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self, Error> {
        let index = nix::net::if_::if_nametoindex(name).map_err(|source| Error::NoInterface {
            name: name.to_owned(),
            source: source.into(),
        })?;
        Ok(Self { name: name.to_owned(), index })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// The kernel's driver of the card beneath it; `None`: there is no card.
    #[must_use]
    pub fn driver(&self) -> Option<String> {
        let link = Path::new("/sys/class/net").join(&self.name).join("device/driver");
        Some(std::fs::read_link(link).ok()?.file_name()?.to_string_lossy().into_owned())
    }

    /// Whether there is no card beneath it. A veth holds back packets of `XDP_TX` unless
    /// its peer has an XDP program, too; redirected ones it delivers also if the peer has
    /// NAPI only (`ethtool -K PEER gro on`).
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        !Path::new("/sys/class/net").join(&self.name).join("device").exists()
    }

    /// Detaches what an hnlb that was killed has left; `None`: there was nothing. Only for
    /// the one process that may use the interface.
    ///
    /// # Errors
    /// [`Error::Taken`]: the program is somebody else's; or what the kernel refused.
    pub fn clear(&self) -> Result<Option<Leftovers>, Error> {
        let Some(Attached { id, .. }) = self.attached()? else { return Ok(None) };
        let program = ProgramHandle::from_prog_id(id);
        let program = program.map_err(Error::refused("the attached program can't be read"))?;
        let name = program.name().to_string_lossy();
        if !name.starts_with(OURS) {
            let (interface, program) = (self.name.clone(), format!("{name} (id {id})"));
            return Err(Error::Taken { interface, program });
        }
        // The gate, or a program of another version, has no such maps.
        let leftovers = Leftovers::read(program.tag(), &maps(id)?).unwrap_or_default();
        let nothing = nothing()?;
        let detached = Xdp::new(nothing.as_fd()).detach(self.as_libbpf(), XdpFlags::NONE);
        detached.map_err(Error::refused("the program of an earlier hnlb can't be detached"))?;
        Ok(Some(leftovers))
    }

    /// What runs its program; `None`: it has none.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn mode(&self) -> Result<Option<Mode>, Error> {
        Ok(self.attached()?.map(|attached| attached.mode))
    }

    /// What it can; `None`: the kernel doesn't tell.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn features(&self) -> Result<Option<Features>, Error> {
        let told = self.query()?.feature_flags;
        let has = |bit: u32| told >> bit & 1 == 1;
        let features = Features { redirects: has(1), is_target: has(2), zero_copy: has(3) };
        Ok((told != 0).then_some(features))
    }

    /// The map of AF_XDP sockets that the attached program has.
    pub(crate) fn sockets(&self) -> Result<MapHandle, Error> {
        let attached = self.attached()?.ok_or(Error::NoGate)?;
        let mut maps = maps(attached.id)?.into_iter();
        maps.find(|map| map.map_type() == MapType::Xskmap).ok_or(Error::NoGate)
    }

    /// Puts `program` in the place of the one that is attached; no packet passes
    /// between.
    pub(crate) fn replace(&self, program: BorrowedFd<'_>) -> Result<(), Error> {
        let before = self.attached()?.ok_or(Error::NoGate)?;
        let before = Program::fd_from_id(before.id);
        let before = before.map_err(Error::refused("the attached program can't be read"))?;
        let replaced = Xdp::new(program).replace(self.as_libbpf(), before.as_fd());
        replaced.map_err(Error::refused("the program can't be attached"))
    }

    fn attached(&self) -> Result<Option<Attached>, Error> {
        let told = self.query()?;
        let mode = match told.attach_mode {
            1 => Mode::Native,
            2 => Mode::Generic,
            _ => Mode::Other,
        };
        let ids = [told.prog_id, told.drv_prog_id, told.skb_prog_id, told.hw_prog_id];
        Ok(ids.into_iter().find(|id| *id != 0).map(|id| Attached { id, mode }))
    }

    fn query(&self) -> Result<libbpf_rs::libbpf_sys::bpf_xdp_query_opts, Error> {
        let nothing = nothing()?;
        let told = Xdp::new(nothing.as_fd()).query(self.as_libbpf(), XdpFlags::NONE);
        told.map_err(Error::refused("the interface can't be asked for its program"))
    }

    const fn as_libbpf(&self) -> i32 {
        self.index as i32
    }
}

/// The maps of the program with this number.
fn maps(program: u32) -> Result<Vec<MapHandle>, Error> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let found = ProgInfoIter::with_query_opts(options).find(|one| one.id == program);
    let ids = found.ok_or(Error::NoGate)?.map_ids;
    Ok(ids.into_iter().filter_map(|id| MapHandle::from_map_id(id).ok()).collect())
}

/// A file in the place of a program, where libbpf-rs wants one that the kernel
/// doesn't look at.
fn nothing() -> Result<File, Error> {
    File::open("/dev/null").map_err(|source| Error::File { source })
}
