//! What somebody may have meant who mistyped a word.

/// The one of `known` that is nearest to `word`, if it is near at all: at
/// most one change for three letters, and not more than three.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (word.chars().count().div_ceil(3)).clamp(1, 3);
    known
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance; letters' case and `_` for `-` don't count.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (fold(a), fold(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for ((y, above), diagonal) in b.iter().zip(row.iter().skip(1)).zip(&row) {
            let left = next.last().copied().unwrap_or(0);
            let change = diagonal + usize::from(x != y);
            next.push(change.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

/// Long words are cut: the distance is quadratic.
fn fold(word: &str) -> Vec<char> {
    word.chars().take(64).map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, expected) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("port", "port", 0),
            ("tcp-syn", "TCP_SYN", 0),
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
