//! Any line as a request to the control thread.
#![no_main]

use control::Asked;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(asked) = serde_json::from_slice::<Asked>(data) {
        // What is understood is understood again as the same when it is passed on.
        let line = serde_json::to_vec(&asked).expect("a request is text");
        assert!(!line.contains(&b'\n'), "a request is one line");
        assert_eq!(serde_json::from_slice::<Asked>(&line).expect("the same"), asked);
    }
});
