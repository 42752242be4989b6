//! How the NIC tells a worker what it matched.
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::UnknownWord;
use crate::word::words;

words! {
    /// How the NIC tells the worker what it matched.
    #[derive(Default)]
    Encoding: "encoding" {
        /// The NIC rewrites and forwards packets of established connections; no worker sees them.
        Rewrite => "rewrite",
        /// The packet's mark names the connection: any number of backends.
        Mark => "mark",
        /// The receive queue names the backend (HNLB paper, section III, step 7): no lookup, but at most as many backends as queues.
        Queue => "queue",
        /// No offload: every packet is looked up in software.
        #[default]
        Off => "off",
    }
}

/// The encoding that a configuration asks for: `auto` or one of [`Encoding`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EncodingChoice {
    /// The first of `rewrite`, `mark`, `queue` and `off` that a probe of the
    /// card at start-up finds possible.
    #[default]
    Auto,
    /// This encoding, or `off` if the probe finds it impossible.
    Fixed(Encoding),
}

const AUTO: &str = "auto";
const AUTO_MEANING: &str = "The first of `rewrite`, `mark`, `queue` and `off` that a probe of the device finds possible at start-up.";

impl EncodingChoice {
    /// Every choice, in the order in which they are documented.
    pub const ALL: &[Self] = &[
        Self::Auto,
        Self::Fixed(Encoding::Rewrite),
        Self::Fixed(Encoding::Mark),
        Self::Fixed(Encoding::Queue),
        Self::Fixed(Encoding::Off),
    ];

    /// The word in configurations, flags and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => AUTO,
            Self::Fixed(encoding) => encoding.name(),
        }
    }
}

impl From<Encoding> for EncodingChoice {
    fn from(encoding: Encoding) -> Self {
        Self::Fixed(encoding)
    }
}

impl fmt::Display for EncodingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EncodingChoice {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|choice| choice.name() == text);
        found.copied().ok_or_else(|| {
            UnknownWord::new("encoding", text, Self::ALL.iter().map(|choice| choice.name()))
        })
    }
}

impl Serialize for EncodingChoice {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for EncodingChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for EncodingChoice {
    fn schema_name() -> Cow<'static, str> {
        "EncodingChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fixed = Encoding::json_schema(generator);
        let mut choices = vec![json_schema!({
            "description": AUTO_MEANING, "type": "string", "const": AUTO,
        })];
        let words = fixed.get("oneOf").and_then(|words| words.as_array()).into_iter().flatten();
        choices.extend(words.cloned().filter_map(|word| Schema::try_from(word).ok()));
        json_schema!({ "description": fixed.get("description"), "oneOf": choices })
    }
}

impl ValueEnum for EncodingChoice {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Auto => Some(PossibleValue::new(AUTO).help(AUTO_MEANING)),
            Self::Fixed(encoding) => encoding.to_possible_value(),
        }
    }
}
