//! Any name and any bytes as a DNS server's answer to a health check.
#![no_main]

use health::dns::{judge, query};

libfuzzer_sys::fuzz_target!(|data: (u16, &str, &[u8])| {
    let (id, name, answer) = data;
    let Some(asked) = query(id, name, 28) else { return };
    if let Some(code) = judge(&asked, answer) {
        // Only an answer with the id of the query is one, and code 0 has its question.
        assert_eq!(answer[..2], id.to_be_bytes());
        assert!(answer[2] & 0x80 != 0 && code == answer[3] & 0x0f);
        let question = &asked[12..];
        assert!(code != 0 || answer[12..][..question.len()].eq_ignore_ascii_case(question));
    }
    // The same bytes as a true answer: of the right id, with the question repeated.
    let mut made = asked.clone();
    made[2] |= 0x80;
    made.extend(answer);
    assert_eq!(judge(&asked, &made), Some(0));
});
