//! Any bytes as a capture: its frames have no more bytes than the file.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use capture::CaptureReader;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(mut reader) = CaptureReader::of(Path::new("fuzz"), Cursor::new(data.to_vec())) else {
        return;
    };
    let (mut frames, mut bytes) = (0, 0);
    while let Ok(Some(captured)) = reader.read() {
        frames += 1;
        bytes += captured.frame.len();
        assert_eq!(captured.number, frames);
    }
    // What gzip has compressed unpacks to more.
    assert!(bytes <= data.len() || data.starts_with(&[0x1f, 0x8b]));
});
