//! Where private keys are: in the process that signs, and in no other memory.
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use memchr::memmem::Finder;

use super::certificates::{Certificates, NAMES};
use super::checks::Run;
use crate::{Lab, LabError};

/// Memory is read in pieces of this length.
const PIECE: usize = 1 << 20;
/// The bytes of a private key of P-256.
const SCALAR: usize = 32;

/// A private key as memory may have it.
struct Needle {
    name: &'static str,
    bytes: Vec<u8>,
}

impl Run<'_> {
    /// Root, who alone may, reads the memory of the processes.
    pub(super) fn memory(&mut self) -> Result<(), LabError> {
        let needles = needles(self.lab, self.certificates)?;
        let pid = self.balancer.pid();
        let found = search(pid, &needles)?;
        self.expect("private keys in the load balancer's memory", &found, "none");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let dumped = std::fs::metadata(format!("/proc/{pid}/mem")).is_ok_and(|own| is_roots(&own));
        self.expect("its memory is root's alone", &dumped.to_string(), "true");
        let is_locked = !status.contains("VmLck:\t       0 kB");
        self.expect("its memory is locked", &is_locked.to_string(), "true");
        let Some(keys) = child(pid, "keys") else {
            self.fail("the process that signs", "there is none");
            return Ok(());
        };
        let found = search(keys, &needles)?;
        let found = if found == "none" { "none" } else { "found" };
        self.expect("private keys in the memory of the process that signs", found, "found");
        let status = std::fs::read_to_string(format!("/proc/{keys}/status")).unwrap_or_default();
        let powers = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        self.expect("its capabilities", powers.unwrap_or_default().trim(), "0000000000004004");
        // It is killed, and another takes its place with the next handshake.
        let kill = format!("kill -s KILL {keys}");
        self.lab.exec("c1", &["sh", "-c", &kill])?.success()?;
        let found = self.s_client("-servername a.lab")?;
        let shown = if found.contains("subject=CN") { "shaken" } else { &found };
        self.expect("a handshake when that process was killed", shown, "shaken");
        let again = child(pid, "keys").is_some_and(|own| own != keys);
        self.expect("another process signs", &again.to_string(), "true");
        Ok(())
    }
}

fn is_roots(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(metadata) == 0
}

/// The private key of the first certificate, in every shape that was thought of.
fn needles(lab: &Lab, certificates: &Certificates) -> Result<Vec<Needle>, LabError> {
    let [_, key] = certificates.of(NAMES[0]);
    let bad = |detail: &str| LabError::Parse { tool: "openssl", detail: detail.to_owned() };
    let shown = key.display().to_string();
    let text = lab.exec("c1", &["openssl", "pkey", "-in", &shown, "-noout", "-text"])?;
    let text = text.success()?.stdout;
    let digits = text.lines().skip_while(|line| !line.starts_with("priv:")).skip(1);
    let digits: String = digits.take_while(|line| line.starts_with(' ')).collect();
    let bytes = digits.split(':').map(|pair| u8::from_str_radix(pair.trim(), 16));
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().map_err(|_| bad(&text))?;
    // A zero in front makes the number positive, and zeros may be left out.
    let from = bytes.len().saturating_sub(SCALAR);
    let scalar = bytes.get(from..).filter(|own| own.len() == SCALAR);
    let scalar = scalar.ok_or_else(|| bad("the private key is shorter than others"))?.to_vec();
    let pem = std::fs::read_to_string(&key).map_err(LabError::io(format!("read {shown}")))?;
    let line = pem.lines().nth(2).ok_or_else(|| bad("the key has no third line"))?;
    let little: Vec<u8> = scalar.iter().rev().copied().collect();
    Ok(vec![
        Needle { name: "the number", bytes: scalar },
        Needle { name: "the number, little-endian", bytes: little },
        Needle { name: "the file", bytes: line.as_bytes().to_vec() },
    ])
}

/// The child of the process that runs this command of HNLB's.
fn child(parent: u32, command: &str) -> Option<u32> {
    let own = format!("/proc/{parent}/task");
    let tasks = std::fs::read_dir(own).ok()?.flatten();
    let children =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    children.into_iter().find(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
    })
}

/// Which needles the memory of a process has, by name.
fn search(pid: u32, needles: &[Needle]) -> Result<String, LabError> {
    let maps = format!("/proc/{pid}/smaps");
    let text = std::fs::read_to_string(&maps).map_err(LabError::io(format!("read {maps}")))?;
    let path = format!("/proc/{pid}/mem");
    let mut memory = File::open(Path::new(&path)).map_err(LabError::io(format!("read {path}")))?;
    let longest = needles.iter().map(|own| own.bytes.len()).max().unwrap_or(0);
    let finders: Vec<_> = needles.iter().map(|own| (own.name, Finder::new(&own.bytes))).collect();
    let mut found: Vec<&str> = Vec::new();
    let mut piece = vec![0; PIECE + longest];
    let mut read = 0_u64;
    for (from, to) in resident(&text) {
        let mut at = from;
        while at < to {
            let length = usize::try_from(to - at).unwrap_or(PIECE).min(PIECE + longest);
            let Some(bytes) = piece.get_mut(..length) else { break };
            // What is unmapped meanwhile, or a device's, can't be read.
            if memory.seek(SeekFrom::Start(at)).is_err() || memory.read_exact(bytes).is_err() {
                break;
            }
            read += length as u64;
            let new = finders.iter().filter(|(_, finder)| finder.find(bytes).is_some());
            found.extend(new.map(|(name, _)| *name));
            at += PIECE as u64;
        }
    }
    found.sort_unstable();
    found.dedup();
    if read < PIECE as u64 {
        return Ok(format!("only {read} bytes could be read"));
    }
    Ok(if found.is_empty() { "none".to_owned() } else { found.join(", ") })
}

/// The mappings that can be read and have pages in memory.
fn resident(smaps: &str) -> Vec<(u64, u64)> {
    let (mut all, mut present) = (Vec::new(), None);
    for line in smaps.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((from, to)) = first.split_once('-') {
            let number = |text| u64::from_str_radix(text, 16).ok();
            present = number(from).zip(number(to)).filter(|_| rest.starts_with('r'));
        } else if first == "Rss:" && !rest.trim_start().starts_with("0 ") {
            all.extend(present.take());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_readable_mappings_with_pages_are_read() {
        let text = "55d0-55d8 r--p 00000000 08:01 1 /bin/a\nSize: 32 kB\nRss:                  12 kB\n\
                    7f00-7f10 rw-p 00000000 00:00 0\nRss:                   0 kB\n\
                    7f20-7f30 ---p 00000000 00:00 0\nRss:                   4 kB\n\
                    7f40-7f50 rw-s 00000000 00:00 0 [heap]\nRss:                  96 kB\n";
        assert_eq!(resident(text), [(0x55d0, 0x55d8), (0x7f40, 0x7f50)]);
    }

    /// A process finds in its own memory what it holds.
    #[test]
    fn what_is_there_is_found() {
        let held: Vec<u8> = (0..40_u8).map(|byte| byte.wrapping_mul(37) ^ 0x5a).collect();
        let needles = [Needle { name: "held", bytes: held.clone() }];
        assert_eq!(search(std::process::id(), &needles).unwrap(), "held");
        drop(held);
    }
}
