//! An enum whose variants are words of the configuration.

/// Declares an enum each of whose variants is one word. From the one list of
/// variants and words follow `ALL`, `name`, `Display`, `FromStr`, serde's
/// traits, the JSON Schema (with the variants' doc comments as descriptions)
/// and clap's `ValueEnum` (with the same comments as help).
macro_rules! words {
    (
        $(#[$attribute:meta])*
        $name:ident: $what:literal {
            $($(#[$of_variant:meta])* $variant:ident $(= $number:literal)? => $text:literal,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema, clap::ValueEnum)]
        pub enum $name {
            $(
                $(#[$of_variant])*
                #[serde(rename = $text)]
                #[value(name = $text)]
                $variant $(= $number)?,
            )+
        }

        impl $name {
            /// All of them, in the order in which they are documented.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word in configurations, flags, logs and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.iter().find(|word| word.name() == text);
                found.copied().ok_or_else(|| {
                    crate::UnknownWord::new($what, text, Self::ALL.iter().map(|word| word.name()))
                })
            }
        }
    };
}

pub(crate) use words;

/// A text that is none of the words of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} \"{text}\": expected one of {expected}")]
pub struct UnknownWord {
    what: &'static str,
    text: String,
    expected: String,
}

impl UnknownWord {
    /// `text` is no `what`; `words` are.
    pub(crate) fn new(
        what: &'static str,
        text: &str,
        words: impl Iterator<Item = &'static str>,
    ) -> Self {
        let expected: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
        Self { what, text: text.to_owned(), expected: expected.join(", ") }
    }
}

/// `words` as a choice in a sentence: "a, b or c".
#[must_use]
pub fn alternatives(words: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let mut words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    match (words.pop(), words.len()) {
        (None, _) => String::new(),
        (Some(last), 0) => last,
        (Some(last), _) => format!("{} or {last}", words.join(", ")),
    }
}
