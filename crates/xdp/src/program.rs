//! Loading the programs, and running them on one packet.
use std::os::fd::AsFd;
use std::time::Duration;

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    ErrorKind, MapCore, MapHandle, MapType, Object, ObjectBuilder, OpenMapMut, OpenObject,
    Program as LoadedProgram, ProgramHandle, ProgramInput, ProgramMut, libbpf_sys,
};
use mapped::Mapped;
use wire::Mac;

use crate::classes::CLASSES;
use crate::stateless::{COUNTERS, GROUP, GROUPS, LINE, Maps, SHARDS};
use crate::{Error, Interface, Leftover, Leftovers, Sockets, Table, action, entry, verdict};

static FORWARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/forward.o"));

/// The program's name.
const NAME: &str = "hnlb_forward";

/// Bytes that a frame may grow by: an outer header of IPv6, UDP and Geneve.
const GROWN: usize = 56;

/// What a program is loaded with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The port's Ethernet address: frames to others go up.
    pub mac: Mac,
    /// Connections' directions that the match table shall take.
    pub capacity: u32,
    /// Different actions that it shall take.
    pub actions: u32,
    /// A secret of the hash, random: without it nobody can choose connections that
    /// compete for the same places.
    pub seed: u64,
    /// Packets that leave where they arrived are redirected there, and not given
    /// `XDP_TX`: see [`Interface::is_virtual`].
    pub always_redirects: bool,
}

impl Settings {
    /// Places in the table: with two per key, a little under half can be filled.
    pub(crate) fn slots(&self) -> u32 {
        self.capacity.max(8).saturating_mul(5).div_ceil(2)
    }

    /// `struct settings` of `bpf/packet.h`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.seed.to_ne_bytes().to_vec();
        bytes.extend(self.slots().to_ne_bytes());
        bytes.extend(self.mac.0);
        bytes.extend([u8::from(self.always_redirects), 0, 0, 0, 0, 0]);
        bytes
    }
}

/// What the program did with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes up untouched.
    Up,
    /// It leaves by the interface where it arrived.
    Back,
    /// It leaves by another interface.
    Out,
    /// Another verdict of XDP, which the program never gives on purpose: its number.
    Other(u32),
}

/// The outcome of a test run.
#[derive(Debug)]
pub struct Ran {
    /// The verdict on the last run.
    pub outcome: Outcome,
    /// The frame after the last run.
    pub frame: Vec<u8>,
    /// The mean time of a run.
    pub duration: Duration,
}

/// The forwarding program in the kernel.
#[derive(Debug)]
pub struct Program {
    object: Object,
    mac: Mac,
}

impl Program {
    /// Loads the program and maps its table.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn load(settings: &Settings) -> Result<(Self, Table), Error> {
        let (object, table) = load(FORWARD, settings, &[])?;
        Ok((Self { object, mac: settings.mac }, table))
    }

    /// Loads the program, maps its table, and puts the program in the place of the
    /// [gate](crate::Gate) that is attached to `interface`. Packets that it doesn't forward
    /// go to `sockets`. It stays attached when this process ends.
    ///
    /// Of `leftovers`, if a program of the same code has left them, those entries are in
    /// the table that don't say by addresses where their packets go; all are returned.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused. The gate is still there then.
    pub fn attach(
        interface: &Interface,
        sockets: &Sockets,
        settings: &Settings,
        leftovers: Leftovers,
    ) -> Result<(Self, Table, Vec<Leftover>), Error> {
        let (object, mut table) = load(FORWARD, settings, &[])?;
        let own = Self { object, mac: settings.mac };
        sockets.fill(&own.object)?;
        let left = leftovers.of_same_code(own.tag()?);
        // What isn't inherited goes to software, which asks Maglev.
        left.iter().for_each(|leftover| _ = leftover.inherit(&mut table));
        interface.replace(own.program()?.as_fd())?;
        Ok((own, table, left))
    }

    /// The Ethernet address whose frames it looks at.
    pub(crate) const fn mac(&self) -> Mac {
        self.mac
    }

    /// The maps of services without connections, which are all zero.
    pub(crate) fn stateless_maps(&self) -> Result<Maps, Error> {
        let cells = (GROUPS * CLASSES) as usize;
        Ok(Maps {
            gates: map(&self.object, "gates", 2)?,
            groups: map(&self.object, "groups", GROUPS as usize * GROUP)?,
            cells: map(&self.object, "cells", cells)?,
            counts: map(&self.object, "counts", (COUNTERS * SHARDS) as usize * LINE)?,
        })
    }

    /// The kernel's hash over the program's code.
    fn tag(&self) -> Result<[u8; 8], Error> {
        let id = LoadedProgram::id_from_fd(self.program()?.as_fd());
        let handle = id.and_then(ProgramHandle::from_prog_id);
        Ok(handle.map_err(Error::refused("the program can't be read"))?.tag())
    }

    /// Instructions that the verifier went through; it takes a million at most. 0: the
    /// kernel, before 5.16, doesn't tell.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn verified(&self) -> Result<u32, Error> {
        let id = LoadedProgram::id_from_fd(self.program()?.as_fd());
        let id = id.map_err(Error::refused("the program can't be read"))?;
        let own = ProgInfoIter::default().find(|program| program.id == id);
        Ok(own.map_or(0, |program| program.verified_insns))
    }

    fn program(&self) -> Result<ProgramMut<'_>, Error> {
        find(&self.object, NAME)
    }

    /// Runs the program once on `frame`, as if it had arrived at the loopback
    /// interface, whose index is 1 (`BPF_PROG_TEST_RUN`). The kernel takes frames of 14
    /// bytes to a little less than a page.
    ///
    /// # Errors
    /// An [`Error`] that says what the kernel refused.
    pub fn run(&self, frame: &[u8]) -> Result<Ran, Error> {
        run(&self.object, NAME, frame, 1)
    }
}

/// Loads `elf` with `settings` and further bytes of its constants, and maps the table.
pub(crate) fn load(elf: &[u8], settings: &Settings, more: &[u8]) -> Result<(Object, Table), Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Architecture);
    }
    let (object, verdict) = verdict::of(|| load_object(elf, settings, more));
    let object = object.map_err(|error| error.by_verifier(verdict))?;
    let slots = settings.slots();
    let entries = map(&object, "entries", slots as usize * entry::WORDS)?;
    let actions = map(&object, "actions", settings.actions as usize * action::WORDS)?;
    let sizes = [slots, settings.actions];
    Ok((object, Table::new(entries, actions, settings.seed, sizes)))
}

fn load_object(elf: &[u8], settings: &Settings, more: &[u8]) -> Result<Object, Error> {
    check_permission()?;
    let open = ObjectBuilder::default().open_memory(elf);
    let mut open = open.map_err(Error::refused("the compiled program can't be read"))?;
    size(&mut open, "entries", settings.slots())?;
    size(&mut open, "actions", settings.actions)?;
    let mut constants = open
        .maps_mut()
        .find(|map| map.name().to_string_lossy().ends_with(".rodata"))
        .ok_or(Error::Missing("constants"))?;
    let bytes = [&settings.bytes(), more].concat();
    constants
        .initial_value_mut()
        .and_then(|value| value.get_mut(..bytes.len()))
        .ok_or(Error::Missing("constants"))?
        .copy_from_slice(&bytes);
    open.load().map_err(Error::refused("the kernel refuses the program"))
}

/// A program that the verifier refuses gets the same error as a process without
/// permission, so a map that needs the same permission is asked for first.
pub(crate) fn check_permission() -> Result<(), Error> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    match MapHandle::create(MapType::Xskmap, None::<&str>, 4, 4, 1, &options) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Error::NotPermitted),
        _ => Ok(()),
    }
}

fn size(open: &mut OpenObject, name: &'static str, entries: u32) -> Result<(), Error> {
    let mut map = find_map(open, name)?;
    map.set_max_entries(entries).map_err(Error::refused("a map can't be sized"))
}

fn find_map<'a>(open: &'a mut OpenObject, name: &'static str) -> Result<OpenMapMut<'a>, Error> {
    open.maps_mut().find(|map| map.name() == name).ok_or(Error::Missing(name))
}

pub(crate) fn find<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, Error> {
    object.progs_mut().find(|program| program.name() == name).ok_or(Error::Missing(name))
}

fn map(object: &Object, name: &'static str, words: usize) -> Result<Mapped, Error> {
    let map = object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
    Mapped::new(map.as_fd(), words).map_err(|source| Error::NotMapped { map: name, source })
}

/// Runs the program `name` on `frame` as often as `repeat` says; each run after the
/// first gets the frame as the one before left it.
pub(crate) fn run(
    object: &Object,
    name: &'static str,
    frame: &[u8],
    repeat: u32,
) -> Result<Ran, Error> {
    let program = find(object, name)?;
    let mut after = vec![0; frame.len() + GROWN];
    let input = ProgramInput {
        data_in: Some(frame),
        data_out: Some(&mut after),
        repeat,
        ..ProgramInput::default()
    };
    let output = program.test_run(input).map_err(Error::refused("the program can't be run"))?;
    let (value, duration) = (output.return_value, output.duration);
    let length = output.data.map_or(0, |data| data.len());
    let outcome = match value {
        2 => Outcome::Up,
        3 => Outcome::Back,
        4 => Outcome::Out,
        other => Outcome::Other(other),
    };
    after.truncate(length);
    Ok(Ran { outcome, frame: after, duration })
}

#[cfg(test)]
mod tests {
    use super::*;

    static UNBOUNDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/unbounded.o"));

    #[test]
    fn a_program_that_the_verifier_refuses_is_one_line_with_its_verdict() {
        let settings = Settings {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            capacity: 8,
            actions: 8,
            seed: 7,
            always_redirects: false,
        };
        match load(FORWARD, &settings, &[]) {
            Ok(_) => {}
            Err(error) if error.is_permission() => {
                eprintln!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
        let error = load(UNBOUNDED, &settings, &[]).expect_err("no bounds check");
        assert!(!error.is_permission(), "{error}");
        let line = error.to_string();
        let verdict = "XDP: the kernel's verifier refuses the program: ";
        let log = line.strip_prefix(verdict).expect("the verifier is named");
        // The same words on all kernels from 5.15 to 6.18.
        assert!(log.contains("packet"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
