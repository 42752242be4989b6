//! Why HNLB and HAProxy answer some cases differently. docs/user/l7.md says the same.
use super::ask::Outcome;

/// A kind of difference.
struct Kind {
    why: &'static str,
    /// The status codes of HNLB's responses.
    ours: &'static str,
    /// The cases, each with the status codes of HAProxy's responses.
    cases: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 7] = [
    Kind {
        why: "HNLB refuses what servers read differently, and HAProxy repairs or passes it",
        ours: "400",
        cases: &[
            ("line: two spaces", "200"),
            ("line: a tab", "200"),
            ("smuggling: length and coding", "200"),
            ("smuggling: coding and length", "200"),
            ("smuggling: the same length twice", "200"),
            ("smuggling: a list of lengths", "200"),
            ("smuggling: a folded field", "200"),
            ("smuggling: a space before a field", "200"),
            ("smuggling: a bare LF", "200"),
            ("smuggling: a NUL", "200"),
            ("smuggling: the same host twice", "200"),
            ("smuggling: a length in Connection", "200"),
            ("smuggling: a host in Connection", "200"),
            ("smuggling: no host", "200"),
            ("smuggling: a bad host", "200"),
            ("smuggling: a host with a path", "200"),
            ("smuggling: a host with a user", "200"),
            ("smuggling: coding of 1.0", "200"),
            ("smuggling: all lines end by LF", "200"),
        ],
    },
    Kind {
        why: "HNLB takes the versions 1.0 and 1.1 only, and says so by 505",
        ours: "505",
        cases: &[
            ("line: version 1.2", "200"),
            ("line: version 2.0", "200"),
            ("line: version 1.10", "400"),
            ("line: no version", "400"),
        ],
    },
    Kind { why: "HNLB refuses CONNECT", ours: "405", cases: &[("line: CONNECT", "200")] },
    Kind {
        why: "HNLB answers 501 to a coding that it does not know (RFC 9112, section 6.1)",
        ours: "501",
        cases: &[
            ("smuggling: another coding", "400"),
            ("smuggling: chunked twice", "400"),
            ("smuggling: a coding before chunked", "422"),
            ("smuggling: a coding behind chunked", "400"),
            ("smuggling: xchunked", "400"),
        ],
    },
    Kind {
        why: "HNLB has a limit of 8 KiB and 100 fields, and says so by 431",
        ours: "431",
        cases: &[("smuggling: a header of 9,000 bytes", "200"), ("smuggling: 101 fields", "400")],
    },
    Kind {
        why: "HNLB removes the fields of one hop (RFC 9110, section 7.6.1), and HAProxy passes them",
        ours: "200",
        cases: &[
            ("field: hop by hop", "200"),
            ("field: TE", "200"),
            ("field: Proxy-Connection", "200"),
        ],
    },
    Kind {
        why: "HNLB resets a connection whose bytes turn out wrong when a request is on its way",
        ours: "",
        cases: &[
            ("smuggling: a bad chunk size", "400"),
            ("smuggling: a huge chunk size", "400"),
            ("smuggling: a chunk with a bare LF", "200"),
            ("smuggling: a chunk that is too long", "400"),
            ("pipeline: an error behind", "200 400"),
        ],
    },
];

/// The explanation of a difference, if there is one.
pub(super) fn why(name: &str, ours: &Outcome, theirs: &Outcome) -> Option<&'static str> {
    let found = KINDS.iter().find(|kind| {
        kind.ours == codes(ours) && kind.cases.contains(&(name, codes(theirs).as_str()))
    });
    found.map(|kind| kind.why)
}

/// The status codes.
fn codes(outcome: &Outcome) -> String {
    let codes = outcome.responses.iter().filter_map(|own| own.status.get(..3));
    codes.collect::<Vec<_>>().join(" ")
}
