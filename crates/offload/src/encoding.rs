//! How the NIC tells the processor what it has matched.
use std::fmt;
use std::str::FromStr;

/// How a rule tells the worker what its packets are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// No rules: every packet is looked up in software.
    #[default]
    Off,
    /// The receive queue names the backend (HNLB paper, section III, step 7).
    Queue,
    /// The mark (Flow Director's soft id) names the connection and direction.
    Mark,
    /// The NIC rewrites the packets and sends them on; no worker sees them.
    Rewrite,
}

impl Encoding {
    /// All of them, the plainest first.
    pub const ALL: [Self; 4] = [Self::Off, Self::Queue, Self::Mark, Self::Rewrite];

    /// The name used in configurations and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Queue => "queue",
            Self::Mark => "mark",
            Self::Rewrite => "rewrite",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no encoding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown encoding \"{0}\": expected one of \"auto\", \"rewrite\", \"mark\", \"queue\", \"off\""
)]
pub struct UnknownEncoding(pub String);

impl FromStr for Encoding {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|encoding| encoding.name() == name);
        found.ok_or_else(|| UnknownEncoding(name.to_owned()))
    }
}

/// The encoding a configuration asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// Whatever the card can, the best first: rewrite, mark, queue, off.
    #[default]
    Auto,
    /// This one, or `off` if the card can't.
    Fixed(Encoding),
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Fixed(encoding) => encoding.fmt(f),
        }
    }
}

impl FromStr for Wanted {
    type Err = UnknownEncoding;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name == "auto" { Ok(Self::Auto) } else { name.parse().map(Self::Fixed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for encoding in Encoding::ALL {
            assert_eq!(encoding.to_string().parse(), Ok(encoding));
            assert_eq!(encoding.name().parse(), Ok(Wanted::Fixed(encoding)));
        }
        assert_eq!(Wanted::Auto.to_string().parse(), Ok(Wanted::Auto));
    }

    #[test]
    fn an_unknown_name_is_told_what_would_be_right() {
        let error = "Mark".parse::<Wanted>().unwrap_err();
        assert!(error.to_string().contains("\"mark\""), "{error}");
        assert_eq!("auto".parse::<Encoding>(), Err(UnknownEncoding("auto".into())));
    }
}
