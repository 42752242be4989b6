//! One of so many.

/// Chooses one of every so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    every: u32,
    left: u32,
}

impl Sample {
    /// One of `every`, the first to begin with; 0: none.
    #[must_use]
    pub const fn new(every: u32) -> Self {
        Self { every, left: 0 }
    }

    /// Whether the next one is chosen.
    pub const fn take(&mut self) -> bool {
        let is_chosen = self.left == 0 && self.every > 0;
        self.left = if is_chosen { self.every - 1 } else { self.left.saturating_sub(1) };
        is_chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_so_many_is_chosen() {
        for (every, wanted) in [(0, 0), (1, 12), (2, 6), (5, 3), (100, 1)] {
            let mut sample = Sample::new(every);
            assert_eq!((0..12).filter(|_| sample.take()).count(), wanted, "of {every}");
        }
    }
}
