//! Records behind a handshake that was handed over.
#[allow(clippy::indexing_slicing, reason = "tests may")]
#[path = "support/handed_over.rs"]
mod support;

use proptest::prelude::*;

#[test]
fn what_is_not_touched_is_opened_as_it_was() {
    // Records, a change of keys, records; in TLS 1.2 and 1.3.
    for version in [0, 1] {
        support::check(&[version, 0, 200, 1, 0, 3, 0, 2, 255, 3, 0, 0, 7]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn nothing_but_the_clients_bytes_comes_out(
        steps in prop::collection::vec(any::<u8>(), 1..40),
    ) {
        support::check(&steps);
    }
}
