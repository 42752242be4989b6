//! Every word has one text, whatever reads or writes it.
#![allow(clippy::unwrap_used, reason = "tests may")]
use std::fmt::{Debug, Display};
use std::str::FromStr;

use clap::ValueEnum;
use flow::{
    AdmissionPolicy, CardProfile, Encoding, EncodingChoice, Mode, Refuse, Scheduler, StatelessKey,
    Transport, UnknownWord, alternatives,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Checks that `all` have the texts `words` in every form, and no other text is taken.
fn check<T>(all: &[T], words: &str)
where
    T: Copy + Debug + PartialEq + Display + FromStr<Err = UnknownWord>,
    T: Serialize + DeserializeOwned + JsonSchema + ValueEnum,
{
    let words: Vec<&str> = words.split(' ').collect();
    let schema = schemars::schema_for!(T).to_value();
    let described: Vec<&Value> = schema["oneOf"].as_array().unwrap().iter().collect();
    assert_eq!((all.len(), described.len()), (words.len(), words.len()));
    assert_eq!(T::value_variants(), all);
    for ((word, text), branch) in all.iter().zip(words).zip(described) {
        assert_eq!(word.to_string(), text);
        assert_eq!(text.parse::<T>(), Ok(*word));
        assert_eq!(serde_json::to_value(word).unwrap(), Value::from(text));
        assert_eq!(serde_json::from_value::<T>(Value::from(text)).unwrap(), *word);
        assert_eq!(branch["const"], Value::from(text));
        let meaning = branch["description"].as_str().unwrap();
        let flag = word.to_possible_value().unwrap();
        assert_eq!(flag.get_name(), text);
        let help = flag.get_help().unwrap().to_string();
        assert_eq!(help.trim_end_matches('.'), meaning.trim_end_matches('.'));
        assert!(text.to_uppercase().parse::<T>().is_err());
        assert!(serde_json::from_value::<T>(Value::from(text.to_uppercase())).is_err());
    }
}

#[test]
fn every_form_of_a_word_has_the_same_text() {
    check(Mode::ALL, "nat fullnat dsr ipip gue gre geneve");
    check(Refuse::ALL, "reset unreachable drop");
    check(Encoding::ALL, "rewrite mark queue off");
    check(EncodingChoice::ALL, "auto rewrite mark queue off");
    check(
        Scheduler::ALL,
        "round-robin weighted-round-robin least-connections maglev source-hash least-latency",
    );
    check(AdmissionPolicy::ALL, "heavy all first-packet off");
    check(CardProfile::ALL, "x550 xl710 e810 connectx bluefield3");
    check(StatelessKey::ALL, "source hash crc32");
    check(Transport::ALL, "tcp udp");
}

#[test]
fn an_unknown_word_is_answered_with_the_known_ones() {
    let error = "Mark".parse::<Encoding>().unwrap_err().to_string();
    let known = r#"unknown encoding "Mark": expected one of "rewrite", "mark", "queue", "off""#;
    assert_eq!(error, known);
    assert!("auto".parse::<Encoding>().is_err(), "a wish, not an encoding");
    let error = "x540".parse::<CardProfile>().unwrap_err().to_string();
    assert!(error.starts_with("unknown card profile \"x540\": expected one of \"x550\""));
}

#[test]
fn choices_are_written_as_in_a_sentence() {
    assert_eq!(alternatives([] as [&str; 0]), "");
    assert_eq!(alternatives(["a"]), "a");
    assert_eq!(alternatives(["a", "b"]), "a or b");
    assert_eq!(alternatives([1, 2, 3]), "1, 2 or 3");
}

#[test]
fn a_driver_is_that_of_a_profile() {
    assert_eq!(CardProfile::of_driver("net_ixgbe"), Some(CardProfile::X550));
    assert_eq!(CardProfile::of_driver("net_i40e"), Some(CardProfile::Xl710));
    assert_eq!(CardProfile::of_driver("net_ice"), Some(CardProfile::E810));
    assert_eq!(CardProfile::of_driver("mlx5_pci"), Some(CardProfile::ConnectX));
    assert_eq!(CardProfile::of_driver("net_virtio"), None);
    let unique: Vec<_> = CardProfile::ALL.iter().filter(|card| card.needs_unique_marks()).collect();
    assert_eq!(unique, [&CardProfile::X550]);
}

#[test]
fn modes_are_told_apart_by_what_backends_get() {
    let one_way: Vec<_> = Mode::ALL.iter().copied().filter(|mode| mode.is_one_way()).collect();
    assert_eq!(one_way, [Mode::Dsr, Mode::Ipip, Mode::Gue, Mode::Gre, Mode::Geneve]);
    assert_eq!(
        Mode::tunnels().collect::<Vec<_>>(),
        [Mode::Ipip, Mode::Gue, Mode::Gre, Mode::Geneve]
    );
}
