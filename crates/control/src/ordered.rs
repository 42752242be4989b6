//! Lists of things with keys, whose order means something.

/// What turns one list into another.
#[derive(Debug)]
pub(crate) struct Changes<'a, T, K> {
    /// Keys that are not in the new list.
    pub(crate) removed: Vec<K>,
    /// What differs, as it is in the new list.
    pub(crate) changed: Vec<(&'a T, &'a T)>,
    /// What is only in the new list.
    pub(crate) added: Vec<&'a T>,
    /// The keys in the new list's order, if it isn't the old one's with what was
    /// added behind it.
    pub(crate) order: Option<Vec<K>>,
}

/// What turns `old` into `new`, whose elements are the same if their keys are.
pub(crate) fn changes<'a, T: PartialEq, K: PartialEq>(
    old: &'a [T],
    new: &'a [T],
    key: impl Fn(&T) -> K,
) -> Changes<'a, T, K> {
    let olds: Vec<K> = old.iter().map(&key).collect();
    let news: Vec<K> = new.iter().map(&key).collect();
    let mut changes =
        Changes { removed: Vec::new(), changed: Vec::new(), added: Vec::new(), order: None };
    let mut places = Vec::new();
    for (one, key) in old.iter().zip(&olds) {
        let place = news.iter().position(|own| own == key);
        match place.and_then(|place| new.get(place)) {
            Some(other) if other != one => changes.changed.push((one, other)),
            Some(_) => {}
            None => continue,
        }
        places.extend(place);
    }
    for (place, one) in new.iter().enumerate() {
        if !places.contains(&place) {
            changes.added.push(one);
        }
    }
    let added = (0..new.len()).filter(|place| !places.contains(place));
    let result: Vec<usize> = places.iter().copied().chain(added).collect();
    changes.removed = olds.into_iter().filter(|key| !news.contains(key)).collect();
    changes.order = (!result.is_sorted()).then_some(news);
    changes
}

/// Sorts `list` as `keys` are; what isn't among them comes last.
pub(crate) fn sort<T, K: PartialEq>(list: &mut [T], keys: &[K], key: impl Fn(&T) -> K) {
    list.sort_by_cached_key(|one| {
        let key = key(one);
        keys.iter().position(|own| *own == key).unwrap_or(usize::MAX)
    });
}
