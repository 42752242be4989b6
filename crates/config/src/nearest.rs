//! The known word that a mistyped one is nearest to.

/// The word of `known` that is nearest to `word`, if it is near at all: at
/// most one change for three letters, and not more than three.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (word.chars().count().div_ceil(3)).clamp(1, 3);
    known
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The Damerau-Levenshtein distance (optimal string alignment): letters
/// missing, added, changed, and neighbours swapped. Case and `_` for `-` don't
/// count.
fn distance(a: &str, b: &str) -> usize {
    strsim::osa_distance(&fold(a), &fold(b))
}

/// Long words are cut: the distance is quadratic.
fn fold(word: &str) -> String {
    word.chars().take(64).map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits_and_swaps() {
        for (a, b, expected) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "port", 0),
            ("tcp-syn", "TCP_SYN", 0),
            ("prot", "port", 1),
            ("ca", "abc", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_near_words_are_named() {
        let known = ["port", "protocol", "pool", "vip"];
        assert_eq!(nearest("protcol", known.into_iter()), Some("protocol"));
        assert_eq!(nearest("prot", known.into_iter()), Some("port"));
        assert_eq!(nearest("backlog", known.into_iter()), None);
    }
}
