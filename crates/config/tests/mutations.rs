//! Whatever a file holds, reading it ends with a configuration or with errors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]
use config::Config;
use proptest::prelude::*;

const FILES: [&str; 4] = [
    include_str!("errors/base.toml"),
    include_str!("../../../examples/lab.toml"),
    include_str!("../../../examples/nic.toml"),
    include_str!("../../../examples/fullnat.toml"),
];

/// Pieces that are meaningful somewhere, so that edits get past the syntax.
const PIECES: [&str; 26] = [
    "[[service]]\n",
    "[[service.backend]]\n",
    "[port.nic]\n",
    "[[pool]]\n",
    "\n",
    " = ",
    "\"",
    "[",
    "]",
    "{ }",
    "0",
    "-1",
    "4096",
    "1e9",
    "0x1F",
    "true",
    "\"any\"",
    "\"10.71.0.100\"",
    "\"fd71::100\"",
    "\"::/0\"",
    "\"1h\"",
    "name = \"web\"\n",
    "port = 80\n",
    "mode = \"fullnat\"\n",
    "weight = 0\n",
    "é\u{0}",
];

#[derive(Clone, Debug)]
enum Edit {
    Delete(usize, usize),
    Insert(usize, usize),
    Copy(usize, usize, usize),
    SwapLines(usize, usize),
    DropLine(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = || 0_usize..4096;
    prop_oneof![
        (at(), 1_usize..24).prop_map(|(from, length)| Edit::Delete(from, length)),
        (at(), 0..PIECES.len()).prop_map(|(to, piece)| Edit::Insert(to, piece)),
        (at(), at(), 1_usize..80).prop_map(|(from, to, length)| Edit::Copy(from, to, length)),
        (at(), at()).prop_map(|(a, b)| Edit::SwapLines(a, b)),
        at().prop_map(Edit::DropLine),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.lines().collect();
    let (size, height) = (chars.len().max(1), lines.len().max(1));
    match *edit {
        Edit::Delete(from, length) => {
            let from = from % size;
            chars.drain(from..(from + length).min(chars.len()));
        }
        Edit::Insert(to, piece) => {
            let to = (to % size).min(chars.len());
            chars.splice(to..to, PIECES[piece].chars());
        }
        Edit::Copy(from, to, length) => {
            let (from, to) = (from % size, (to % size).min(chars.len()));
            let part: Vec<char> = chars.iter().skip(from).take(length).copied().collect();
            chars.splice(to..to, part);
        }
        Edit::SwapLines(a, b) if !lines.is_empty() => lines.swap(a % height, b % height),
        Edit::DropLine(at) if !lines.is_empty() => drop(lines.remove(at % height)),
        Edit::SwapLines(..) | Edit::DropLine(_) => {}
    }
    match edit {
        Edit::SwapLines(..) | Edit::DropLine(_) => lines.join("\n"),
        _ => chars.into_iter().collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn edited_files_are_read_or_refused(
        file in 0..FILES.len(),
        edits in prop::collection::vec(edit(), 0..6),
    ) {
        let text = edits.iter().fold(FILES[file].to_owned(), |text, edit| apply(&text, edit));
        match Config::parse(&text, "x.toml") {
            Ok(config) => {
                let _ = config.warnings();
                let table = config.service_table([0, 0]);
                prop_assert!(table.is_ok(), "{:?}", table.err());
                let again = Config::parse(&toml::to_string(&config).unwrap(), "y.toml");
                prop_assert_eq!(again.map_err(|e| e.to_string()), Ok(config));
            }
            Err(errors) => {
                for error in &errors {
                    prop_assert!(!error.text.is_empty() && error.column >= 1);
                    prop_assert!((1..=text.matches('\n').count() + 1).contains(&error.line));
                }
            }
        }
    }

    #[test]
    fn noise_is_refused(text in "\\PC{0,200}|[\\[\\]{}\"'=.,# a-z0-9\n]{0,200}") {
        prop_assert!(Config::parse(&text, "x.toml").is_err());
    }
}

/// Nesting must not exhaust the stack.
#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{a=", "[["] {
        let text = format!("eal = {}", open.repeat(100_000));
        assert!(Config::parse(&text, "x.toml").is_err());
    }
    assert!(Config::parse(&format!("[{}a]", "a.".repeat(20_000)), "x.toml").is_err());
}
