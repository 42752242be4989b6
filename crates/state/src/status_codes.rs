//! Status codes of responses, each with a count of its own.
use crate::CLASSES;

/// The final status codes that are counted by themselves: those that are registered for HTTP,
/// and those that nginx and large proxies are known for.
const CODES: [u16; 69] = [
    101, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307, 308,
    400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418,
    421, 422, 423, 424, 425, 426, 428, 429, 431, 444, 451, 460, 499, 500, 501, 502, 503, 504, 505,
    506, 507, 508, 510, 511, 520, 521, 522, 523, 524, 525, 526,
];

/// How many counts there are: one for each code, and one for all others of each class.
pub(crate) const PLACES: usize = CODES.len() + CLASSES;

/// The place of each status code; of those that no response has, [`PLACES`].
const PLACE: [u8; 600] = {
    let mut places = [PLACES as u8; 600];
    let mut status = 100;
    while status < places.len() {
        places[status] = (CODES.len() + status / 100 - 1) as u8;
        status += 1;
    }
    let mut at = 0;
    while at < CODES.len() {
        places[CODES[at] as usize] = at as u8;
        at += 1;
    }
    places
};

/// Where responses with this status code are counted, if it is one.
pub(crate) fn place(status: u16) -> Option<usize> {
    let place = PLACE.get(usize::from(status)).copied().map(usize::from)?;
    (place < PLACES).then_some(place)
}

/// Responses by their status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes(pub(crate) [u64; PLACES]);

impl Default for Codes {
    fn default() -> Self {
        Self([0; PLACES])
    }
}

impl Codes {
    /// Responses with these status codes, one of each.
    #[must_use]
    pub fn of(statuses: &[u16]) -> Self {
        let mut codes = Self::default();
        for place in statuses.iter().filter_map(|status| place(*status)) {
            codes.0.get_mut(place).into_iter().for_each(|count| *count += 1);
        }
        codes
    }

    pub(crate) fn by_number(self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|at| op(self.0[at], other.0[at])))
    }

    /// How many there are of each class: 1xx to 5xx.
    #[must_use]
    pub fn classes(&self) -> [u64; CLASSES] {
        let (codes, others) = self.0.split_at(CODES.len());
        let mut classes = [0; CLASSES];
        classes.iter_mut().zip(others).for_each(|(class, count)| *class = *count);
        for (code, count) in CODES.iter().zip(codes) {
            let class = usize::from(code / 100 - 1);
            classes.get_mut(class).into_iter().for_each(|sum| *sum += *count);
        }
        classes
    }

    /// The codes that some responses had, and how many; `4xx` stands for all of that class
    /// that are not counted by themselves.
    pub fn counted(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let names = CODES.iter().map(u16::to_string);
        let others = (1..=CLASSES).map(|class| format!("{class}xx"));
        names.chain(others).zip(self.0).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_counts_once_and_in_its_class() {
        for status in 0..=u16::MAX {
            let codes = Codes::of(&[status]);
            let class = usize::from(status / 100);
            let wanted = std::array::from_fn(|at| u64::from(at + 1 == class));
            assert_eq!(codes.classes(), wanted, "{status}");
            let names: Vec<_> = codes.counted().collect();
            let name = match CODES.contains(&status) {
                true => status.to_string(),
                false => format!("{class}xx"),
            };
            let is_one = (1..=CLASSES).contains(&class);
            assert_eq!(names, if is_one { vec![(name, 1)] } else { Vec::new() });
        }
    }
}
