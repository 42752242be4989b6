//! Captures as real programs write them, byte by byte, and pcap-file as the other
//! opinion.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use std::borrow::Cow;
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use capture::{CaptureError, CaptureReader, CaptureWriter, Captured, Format};
use flate2::Compression;
use flate2::write::GzEncoder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;

/// What is read of `bytes`, and why not more.
fn read(bytes: &[u8]) -> (Vec<Captured>, Option<CaptureError>) {
    let mut frames = Vec::new();
    let mut reader = match CaptureReader::of(Path::new("x"), Cursor::new(bytes.to_vec())) {
        Ok(reader) => reader,
        Err(error) => return (frames, Some(error)),
    };
    loop {
        match reader.read() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

fn lengths(bytes: &[u8]) -> Vec<usize> {
    let (frames, error) = read(bytes);
    assert!(error.is_none(), "{error:?}");
    frames.iter().map(|captured| captured.frame.len()).collect()
}

fn message(bytes: &[u8]) -> String {
    read(bytes).1.unwrap().to_string()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A pcap file of `frames`: lengths kept and on the wire, and microseconds.
fn pcap(snap_length: u32, link: u32, frames: &[(u32, u32, u32)]) -> Vec<u8> {
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, snap_length, link]);
    for (kept, length, micros) in frames {
        file.extend(words(&[100, *micros, *kept, *length]));
        file.extend(vec![7; *kept as usize]);
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0xee);
    let length = 12 + body.len() as u32;
    [words(&[kind, length]), body, words(&[length])].concat()
}

fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]))
}

fn interface(snap_length: u32, options: &[u8]) -> Vec<u8> {
    block(1, &[&words(&[1, snap_length])[..], options].concat())
}

fn simple(length: u32, kept: usize) -> Vec<u8> {
    block(3, &[words(&[length]), vec![7; kept]].concat())
}

#[test]
fn simple_packet_blocks_have_no_padding_in_their_frames() {
    let blocks: Vec<u8> =
        [50, 58, 66, 74, 82].into_iter().flat_map(|n| simple(n, n as usize)).collect();
    for snap_length in [0, 82, 65_535] {
        let file = [section(), interface(snap_length, &[]), blocks.clone()].concat();
        assert_eq!(lengths(&file), [50, 58, 66, 74, 82], "{snap_length}");
    }
    let file = [section(), interface(50, &[]), simple(50, 50), simple(82, 50)].concat();
    let cut = "x: frame 2 was cut to 50 of 82 bytes when it was captured";
    assert!(message(&file).starts_with(cut), "{}", message(&file));
}

/// A simple packet block has no time; it happened after the frame before it.
#[test]
fn a_frame_without_a_time_has_that_of_the_frame_before() {
    let packet = |ticks| block(6, &[words(&[0, 0, ticks, 14, 14]), vec![7; 14]].concat());
    let file = [section(), interface(0, &[]), packet(5), simple(60, 60), packet(6)].concat();
    let times: Vec<u128> = read(&file).0.iter().map(|frame| frame.time.as_micros()).collect();
    assert_eq!(times, [5, 5, 6]);
}

#[test]
fn obsolete_packet_blocks_are_frames() {
    let old = block(2, &[words(&[0xffff_0001, 0, 3_000_000, 15, 15]), vec![9; 15]].concat());
    let file = [section(), interface(0, &[]), interface(0, &[]), old, simple(60, 60)].concat();
    let (frames, error) = read(&file);
    assert!(error.is_none(), "{error:?}");
    let first = &frames[0];
    assert_eq!((first.number, first.interface, first.frame.len()), (1, 1, 15));
    assert_eq!(first.time, Duration::from_secs(3));
    assert_eq!(frames.len(), 2);
}

#[test]
fn snap_lengths_that_are_too_small_do_no_harm() {
    let frames = [(60, 60, 0), (1500, 1500, 1)];
    for snap_length in [0, 64, 65_535, u32::MAX] {
        assert_eq!(lengths(&pcap(snap_length, 1, &frames)), [60, 1500], "{snap_length}");
    }
}

#[test]
fn a_second_or_more_of_microseconds_is_carried_over() {
    let (frames, _) = read(&pcap(0, 1, &[(60, 60, 1_500_000), (60, 60, u32::MAX)]));
    let times: Vec<u64> = frames.iter().map(|frame| frame.time.as_micros() as u64).collect();
    assert_eq!(times, [101_500_000, 100_000_000 + u64::from(u32::MAX)]);
}

/// The length of the frame check sequence in words of 16 bits, or in bytes.
#[test]
fn frame_check_sequences_are_left_out() {
    for (link, length) in
        [(0x2400_0001, 60), (0x4400_0001, 60), (0x0400_0001, 64), (0x2000_0001, 64), (1, 64)]
    {
        assert_eq!(lengths(&pcap(0, link, &[(64, 64, 0)])), [length], "{link:#x}");
    }
    let option = [&[13, 0, 1, 0][..], &[4, 0, 0, 0], &[0; 4]].concat();
    let file = [section(), interface(0, &option), simple(64, 64)].concat();
    assert_eq!(lengths(&file), [60]);
    assert!(message(&pcap(0, 0x0400_0071, &[])).contains("the link type is 113"));
}

/// Wherever a file ends, the frames before are read, and the message is about the next.
#[test]
fn a_file_that_is_cut_gives_the_frames_before() {
    let classic = pcap(0, 1, &[(60, 60, 0), (61, 61, 1), (62, 62, 2)]);
    let ends = [24, 24 + 76, 24 + 76 + 77, classic.len()];
    for end in 24..classic.len() {
        let (frames, error) = read(&classic[..end]);
        let whole = ends.iter().filter(|at| **at <= end).count() - 1;
        assert_eq!(frames.len(), whole, "{end}");
        match error {
            None => assert!(ends.contains(&end), "{end}"),
            Some(error) => {
                let expected = format!("x: the file ends in the middle of frame {}", whole + 1);
                assert_eq!(error.to_string(), expected, "{end}");
            }
        }
    }
    let newer = [section(), interface(0, &[]), simple(60, 60), simple(61, 61)].concat();
    let start = section().len() + interface(0, &[]).len();
    for end in start..newer.len() {
        let (frames, error) = read(&newer[..end]);
        let whole = [start + 76, newer.len()].iter().filter(|at| **at <= end).count();
        assert_eq!(frames.len(), whole, "{end}");
        let at_border = end == start || end == start + 76;
        assert_eq!(error.is_none(), at_border, "{end}: {error:?}");
        if let Some(error) = error {
            assert!(error.to_string().contains("ends in the middle of "), "{error}");
        }
    }
}

#[test]
fn files_that_are_no_captures_are_named_as_what_they_are() {
    for (bytes, text) in [
        (&b""[..], "the file is empty"),
        (b"abc", "the file has only 3 bytes"),
        (b"abcdefgh", "this is no capture"),
        (&[0xd4, 0xc3, 0xb2, 0xa1, 0, 0][..], "the file has only 6 bytes"),
        (&[0x0a, 0x0d, 0x0d, 0x0a, 0][..], "the file has only 5 bytes"),
    ] {
        assert!(message(bytes).contains(text), "{}", message(bytes));
    }
    let other = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4e, 1, 0, 0]));
    assert!(message(&other).contains("byte-order magic"));
    let short = [section(), words(&[6, 8, 8])].concat();
    assert!(message(&short).contains("a block is said to have 8 bytes"));
    let mut behind = [section(), interface(0, &[])].concat();
    *behind.last_mut().unwrap() = 1;
    assert!(message(&behind).contains("before it and"), "{}", message(&behind));
    let nowhere = [section(), simple(60, 60)].concat();
    assert!(message(&nowhere).contains("interface 0, which is not described"));
    let long = [section(), interface(0, &[]), simple(61, 56)].concat();
    assert!(message(&long).contains("said to have 61 bytes"));
}

#[test]
fn compressed_captures_are_unpacked() {
    let packed = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let plain = pcap(0, 1, &[(60, 60, 0), (61, 61, 1)]);
    let file = packed(&plain);
    assert_eq!(lengths(&file), [60, 61]);
    // Two members, one behind the other (RFC 1952 section 2.2).
    let (front, back) = plain.split_at(50);
    assert_eq!(lengths(&[packed(front), packed(back)].concat()), [60, 61]);
    for end in 3..file.len() {
        assert!(read(&file[..end]).1.is_some(), "{end} of {}", file.len());
    }
    assert!(message(&packed(b"")).contains("empty"));
}

#[test]
fn interfaces_have_names_and_units_of_their_own() {
    let name = [&[2, 0, 4, 0][..], b"left", &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
    let packet = |at, ticks| block(6, &[words(&[at, 0, ticks, 14, 14]), vec![7; 14]].concat());
    let file =
        [section(), interface(0, &name), interface(0, &[]), packet(0, 7), packet(1, 7)].concat();
    let mut reader = CaptureReader::of(Path::new("x"), Cursor::new(file)).unwrap();
    let first = reader.read().unwrap().unwrap();
    let second = reader.read().unwrap().unwrap();
    assert_eq!((first.interface, first.time), (0, Duration::from_nanos(7)));
    assert_eq!((second.interface, second.time), (1, Duration::from_micros(7)));
    assert_eq!(reader.interface_name(0), Some("left"));
    assert_eq!(reader.interface_name(1), None);
}

#[test]
fn a_section_has_only_its_own_interfaces() {
    let one = [section(), interface(0, &[]), simple(60, 60)].concat();
    assert_eq!(lengths(&[one.clone(), one.clone()].concat()), [60, 60]);
    let (frames, error) = read(&[one, section(), simple(60, 60)].concat());
    assert_eq!(frames.len(), 1);
    let error = error.unwrap().to_string();
    assert!(error.contains("behind frame 1: the next frame is of interface 0"), "{error}");
}

#[test]
fn time_stamps_have_an_offset_in_seconds() {
    for (offset, seconds) in [(1000i64, 1005), (-2, 3), (0, 5)] {
        let option = [&[14, 0, 8, 0][..], &offset.to_le_bytes(), &[0; 4]].concat();
        let packet = block(6, &[words(&[0, 0, 5_000_000, 14, 14]), vec![7; 14]].concat());
        let file = [section(), interface(0, &option), packet].concat();
        assert_eq!(read(&file).0[0].time, Duration::from_secs(seconds), "{offset}");
    }
}

/// The file that is read is never written over, whatever it is called.
#[test]
fn the_output_is_none_of_the_inputs() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let bytes = pcap(0, 1, &[(60, 60, 0)]);
    fs::write(path("in"), &bytes).unwrap();
    fs::hard_link(path("in"), path("hard")).unwrap();
    symlink("in", path("soft")).unwrap();
    fs::create_dir(path("sub")).unwrap();
    for name in ["in", "hard", "soft", "sub/../in"] {
        for (output, input) in [(name, "in"), ("in", name)] {
            let read = [Path::new("/nonexistent"), &path(input)].map(Path::to_owned);
            let read: Vec<&Path> = read.iter().map(|path| path.as_path()).collect();
            let refused = CaptureWriter::create(&path(output), Format::Pcap, &[], &read);
            let Err(CaptureError::SameFile { .. }) = refused else { panic!("{output} {input}") };
        }
    }
    assert_eq!(fs::read(path("in")).unwrap(), bytes);
}

#[test]
fn a_file_has_its_name_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let names = || {
        let entries = fs::read_dir(dir.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    let mut writer = CaptureWriter::create(&path, Format::Pcap, &[], &[]).unwrap();
    writer.write(0, Duration::ZERO, &[7; 60]).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert!(names().is_empty(), "{:?}", names());
    fs::write(&path, "before").unwrap();
    symlink("out", dir.path().join("link")).unwrap();
    let link = dir.path().join("link");
    let mut writer = CaptureWriter::create(&link, Format::Pcap, &[], &[]).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"before");
    writer.write(0, Duration::ZERO, &[7; 60]).unwrap();
    writer.finish().unwrap();
    assert_eq!(lengths(&fs::read(&path).unwrap()), [60]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names().len(), 2);
    let writer = CaptureWriter::create(Path::new("/dev/null"), Format::Pcap, &[], &[]).unwrap();
    writer.finish().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

/// Nanoseconds below 2^62, so that either format has room for them.
fn frames() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
    let frame = (0u64..1 << 62, proptest::collection::vec(any::<u8>(), 0..200));
    proptest::collection::vec(frame, 0..8)
}

proptest! {
    /// What pcap-file writes is read, and what is written pcap-file reads.
    #[test]
    fn another_library_agrees(frames in frames(), big: bool) {
        let time = |nanos: u64| Duration::from_nanos(nanos % (1 << 60));
        let endianness = if big { Endianness::Big } else { Endianness::Little };
        let header = PcapHeader {
            ts_resolution: TsResolution::NanoSecond, endianness, ..PcapHeader::default()
        };
        let mut classic = PcapWriter::with_header(Vec::new(), header).unwrap();
        let mut newer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        newer.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(9)],
        }).unwrap();
        for (nanos, frame) in &frames {
            let length = frame.len() as u32;
            classic.write_packet(&PcapPacket::new(time(*nanos), length, frame)).unwrap();
            newer.write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp: time(*nanos),
                original_len: length,
                data: Cow::Borrowed(frame),
                options: Vec::new(),
            }).unwrap();
        }
        let wanted: Vec<Captured> = (1..).zip(&frames).map(|(number, (nanos, frame))| Captured {
            number, time: time(*nanos), interface: 0, frame: frame.clone(),
        }).collect();
        for file in [classic.into_writer(), newer.into_inner()] {
            let (found, error) = read(&file);
            prop_assert!(error.is_none(), "{error:?}");
            prop_assert_eq!(&found, &wanted);
        }
        let dir = tempfile::tempdir().unwrap();
        for format in [Format::Pcap, Format::PcapNg] {
            let path = dir.path().join(format!("{format:?}"));
            let mut writer = CaptureWriter::create(&path, format, &["a", "bc"], &[]).unwrap();
            for (nanos, frame) in &frames {
                writer.write(1, time(*nanos), frame).unwrap();
            }
            writer.finish().unwrap();
            let bytes = fs::read(&path).unwrap();
            let found = theirs(&bytes, format);
            prop_assert_eq!(found, frames.iter().map(|(nanos, frame)| {
                (time(*nanos), frame.clone())
            }).collect::<Vec<_>>());
            let interface = u32::from(format == Format::PcapNg);
            let own: Vec<Captured> =
                wanted.iter().map(|frame| Captured { interface, ..frame.clone() }).collect();
            prop_assert_eq!(read(&bytes).0, own);
        }
    }

    /// Any bytes are read to an end, in no more memory than they have.
    #[test]
    fn damaged_bytes_end(at in 0usize..400, with: u8, length in 0usize..400) {
        let newer = [section(), interface(0, &[]), simple(60, 60), simple(61, 61)].concat();
        for mut file in [newer, pcap(0, 1, &[(60, 60, 0), (61, 61, 1)])] {
            file.truncate(length);
            if let Some(byte) = file.get_mut(at) {
                *byte = with;
            }
            let (frames, _) = read(&file);
            prop_assert!(frames.iter().map(|frame| frame.frame.len()).sum::<usize>() <= file.len());
        }
    }
}

/// The frames of a file as pcap-file reads them. It leaves pcapng's time stamps in
/// units of the interface: nanoseconds here.
fn theirs(bytes: &[u8], format: Format) -> Vec<(Duration, Vec<u8>)> {
    let mut frames = Vec::new();
    match format {
        Format::Pcap => {
            let mut reader = PcapReader::new(bytes).unwrap();
            while let Some(packet) = reader.next_packet() {
                let packet = packet.unwrap();
                frames.push((packet.timestamp, packet.data.into_owned()));
            }
        }
        Format::PcapNg => {
            let mut reader = PcapNgReader::new(bytes).unwrap();
            while let Some(block) = reader.next_block() {
                if let Block::EnhancedPacket(packet) = block.unwrap() {
                    assert_eq!(packet.interface_id, 1);
                    frames.push((packet.timestamp, packet.data.into_owned()));
                }
            }
        }
    }
    frames
}
