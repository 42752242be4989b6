//! Answers of DNS servers, right ones and any bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

use health::dns::{judge, query};
use proptest::prelude::*;

proptest! {
    #[test]
    fn an_answer_is_judged_by_its_code_and_others_not_at_all(
        id: u16, code in 0_u8..16, place: prop::sample::Index, flip in 1_u8..=255, more in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let asked = query(id, "www.example.com", 1).unwrap();
        prop_assert_eq!(judge(&asked, &asked), None, "a query is no answer");
        let mut answer = asked.clone();
        answer[2] |= 0x80;
        answer[3] = 0x80 | code;
        answer.extend(more);
        prop_assert_eq!(judge(&asked, &answer), Some(code));
        // Another id, or another question.
        let place = place.index(asked.len());
        if !(2..12).contains(&place) {
            let mut other = answer.clone();
            other[place] ^= flip;
            let same_but_for_case = other[place].eq_ignore_ascii_case(&answer[place]);
            prop_assert_eq!(judge(&asked, &other).is_some(), place >= 12 && same_but_for_case);
        }
        for cut in 0..asked.len() {
            prop_assert_eq!(judge(&asked, &answer[..cut]), None);
        }
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..80), name in "\\PC{0,80}") {
        if let Some(asked) = query(7, &name, 28) {
            let _ = judge(&asked, &bytes);
        }
    }
}

#[test]
fn names_that_are_none_make_no_query() {
    for name in ["a..b", ".a", &"x".repeat(64), &"abcdefg.".repeat(33)] {
        assert_eq!(query(1, name, 1), None, "{name}");
    }
    for name in [".", "", "a", "a.", "www.example.com"] {
        assert!(query(1, name, 1).is_some(), "{name}");
    }
    assert_eq!(query(0x0102, "a.bc", 1).unwrap()[12..], *b"\x01a\x02bc\x00\x00\x01\x00\x01");
}
