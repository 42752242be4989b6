//! What is asked of the process that has the keys, and what it answers: one message each.
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustls::{SignatureAlgorithm, SignatureScheme};

use super::LoadError;

/// The longest message.
const LONGEST: usize = 64 * 1024;

/// Writes a message, with its length in front.
pub(crate) fn send(mut to: impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).ok().filter(|_| message.len() <= LONGEST);
    let length = length.ok_or(io::ErrorKind::InvalidInput)?;
    to.write_all(&[&length.to_be_bytes()[..], message].concat())
}

/// The next message; `None`: the peer has ended.
pub(crate) fn receive(mut from: impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    if from.read(&mut length[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[1..])?;
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    from.read_exact(&mut message)?;
    Ok(Some(message))
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question<'a> {
    /// To read the key in a file.
    Load(&'a Path),
    /// To sign.
    Sign { key: u64, scheme: SignatureScheme, message: &'a [u8] },
    /// To forget a key. There is no answer.
    Forget { key: u64 },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Loaded(Loaded),
    Signed(Vec<u8>),
    /// The file is no key.
    NoKey(LoadError),
    /// The key isn't known, or can't sign so.
    Refused(String),
}

/// A key that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    /// Its name.
    pub(crate) key: u64,
    pub(crate) algorithm: SignatureAlgorithm,
    /// How it can sign, by preference.
    pub(crate) schemes: Vec<SignatureScheme>,
    /// The public key (SubjectPublicKeyInfo, RFC 5280), if it says.
    pub(crate) public: Option<Vec<u8>>,
}

const LOAD: u8 = 1;
const SIGN: u8 = 2;
const FORGET: u8 = 3;

const LOADED: u8 = 1;
const SIGNED: u8 = 2;
const NO_FILE: u8 = 3;
const NO_PEM: u8 = 4;
const NO_KEY: u8 = 5;
const REFUSED: u8 = 6;

impl<'a> Question<'a> {
    pub(crate) fn write(&self) -> Vec<u8> {
        match self {
            Self::Load(path) => [&[LOAD][..], path.as_os_str().as_bytes()].concat(),
            Self::Sign { key, scheme, message } => {
                let scheme = u16::from(*scheme).to_be_bytes();
                [&[SIGN][..], &key.to_be_bytes(), &scheme, message].concat()
            }
            Self::Forget { key } => [&[FORGET][..], &key.to_be_bytes()].concat(),
        }
    }

    /// `None`: it is none.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            LOAD => Some(Self::Load(Path::new(OsStr::from_bytes(rest)))),
            SIGN => {
                let (key, rest) = rest.split_first_chunk::<8>()?;
                let (scheme, message) = rest.split_first_chunk::<2>()?;
                let scheme = SignatureScheme::from(u16::from_be_bytes(*scheme));
                Some(Self::Sign { key: u64::from_be_bytes(*key), scheme, message })
            }
            FORGET => Some(Self::Forget { key: u64::from_be_bytes(rest.try_into().ok()?) }),
            _ => None,
        }
    }
}

impl Answer {
    pub(crate) fn write(&self) -> Vec<u8> {
        let text = |kind: u8, text: &str| [&[kind][..], text.as_bytes()].concat();
        match self {
            Self::Loaded(own) => own.write(),
            Self::Signed(signature) => [&[SIGNED][..], signature].concat(),
            Self::NoKey(LoadError::Read(reason)) => text(NO_FILE, reason),
            Self::NoKey(LoadError::Pem(reason)) => text(NO_PEM, reason),
            Self::NoKey(LoadError::Key(reason)) => text(NO_KEY, reason),
            Self::Refused(reason) => text(REFUSED, reason),
        }
    }

    /// `None`: it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let text = || String::from_utf8(rest.to_vec()).ok();
        match *kind {
            LOADED => Loaded::read(rest).map(Self::Loaded),
            SIGNED => Some(Self::Signed(rest.to_vec())),
            NO_FILE => text().map(|own| Self::NoKey(LoadError::Read(own))),
            NO_PEM => text().map(|own| Self::NoKey(LoadError::Pem(own))),
            NO_KEY => text().map(|own| Self::NoKey(LoadError::Key(own))),
            REFUSED => text().map(Self::Refused),
            _ => None,
        }
    }
}

impl Loaded {
    fn write(&self) -> Vec<u8> {
        let mut out = vec![LOADED];
        out.extend(self.key.to_be_bytes());
        // There are fewer than 256.
        out.extend([u8::from(self.algorithm), self.schemes.len() as u8]);
        out.extend(self.schemes.iter().flat_map(|own| u16::from(*own).to_be_bytes()));
        out.push(self.public.is_some().into());
        out.extend(self.public.iter().flatten());
        out
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (key, rest) = bytes.split_first_chunk::<8>()?;
        let ([algorithm, count], rest) = rest.split_first_chunk::<2>()?;
        let (schemes, rest) = rest.split_at_checked(usize::from(*count) * 2)?;
        let scheme = |two: &[u8]| {
            let two = <[u8; 2]>::try_from(two).ok()?;
            Some(SignatureScheme::from(u16::from_be_bytes(two)))
        };
        let (has_public, public) = rest.split_first()?;
        let public = match *has_public {
            0 if public.is_empty() => None,
            1 => Some(public.to_vec()),
            _ => return None,
        };
        Some(Self {
            key: u64::from_be_bytes(*key),
            algorithm: SignatureAlgorithm::from(*algorithm),
            schemes: schemes.chunks(2).map(scheme).collect::<Option<_>>()?,
            public,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let scheme = SignatureScheme::ECDSA_NISTP256_SHA256;
        for question in [
            Question::Load(Path::new("/etc/a key")),
            Question::Sign { key: 7, scheme, message: b"some" },
            Question::Sign { key: u64::MAX, scheme, message: b"" },
            Question::Forget { key: 1 << 40 },
        ] {
            assert_eq!(Question::read(&question.write()), Some(question));
        }
        let loaded = |public| Loaded {
            key: 9,
            algorithm: SignatureAlgorithm::ECDSA,
            schemes: vec![scheme, SignatureScheme::ED25519],
            public,
        };
        for answer in [
            Answer::Loaded(loaded(None)),
            Answer::Loaded(loaded(Some(vec![1, 2, 3]))),
            Answer::Signed(vec![0; 70]),
            Answer::NoKey(LoadError::Pem("none".to_owned())),
            Answer::NoKey(LoadError::Key(String::new())),
            Answer::NoKey(LoadError::Read("away".to_owned())),
            Answer::Refused("so".to_owned()),
        ] {
            assert_eq!(Answer::read(&answer.write()), Some(answer));
        }
    }

    #[test]
    fn messages_come_one_by_one_and_none_is_too_long() {
        let mut bytes = Vec::new();
        for message in [&b""[..], b"one", &[7; LONGEST]] {
            send(&mut bytes, message).unwrap();
        }
        let mut from = &bytes[..];
        let mut next = || receive(&mut from).unwrap().map(|own| own.len());
        assert_eq!([next(), next(), next(), next()], [Some(0), Some(3), Some(LONGEST), None]);
        assert!(send(&mut Vec::new(), &[0; LONGEST + 1]).is_err());
        assert!(receive(&[0, 1, 0, 1][..]).is_err() && receive(&[0, 0][..]).is_err());
    }

    proptest! {
        /// What can be read is written as it was: there are no two ways to say one thing.
        #[test]
        fn other_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(question) = Question::read(&bytes) {
                prop_assert_eq!(question.write(), bytes.clone());
            }
            if let Some(answer) = Answer::read(&bytes) {
                prop_assert_eq!(answer.write(), bytes);
            }
        }
    }
}
