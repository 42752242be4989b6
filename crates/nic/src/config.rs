//! How an emulated NIC is set up.
use flow::{CardProfile, Entries};
use wire::toeplitz::{MICROSOFT_KEY, RSS_KEY_LEN};

use crate::profile::Profile;

/// Where RSS sends the frames that no rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reta {
    /// To the first so many queues in turn, in the smallest table that the card has.
    Queues(u16),
    /// By this table.
    Table(Vec<u16>),
}

/// An emulated NIC's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// The card it plays.
    pub profile: CardProfile,
    /// How many filters the card is configured for; `None`: its default.
    pub capacity: Option<usize>,
    /// Number of receive queues.
    pub queues: u16,
    /// Where frames go that no rule matches.
    pub reta: Reta,
    /// The RSS key.
    pub rss_key: [u8; RSS_KEY_LEN],
    /// Whether marks reach the mbuf. An ixgbe port whose report status is
    /// "none" matches but doesn't say which rule; software must probe for that.
    pub report_marks: bool,
    /// The ports, by their numbers, that are one switch with this one, itself
    /// included: transfer rules can send packets out of them. Empty: there is
    /// no switch, and transfer rules are refused.
    pub switch: Vec<u16>,
    /// Whether inserting a rule takes the time that the real card takes
    /// ([`crate::Rates`]), in the NIC's time; else none.
    pub play_insertion: bool,
}

impl NicConfig {
    /// `profile` with `queues` receive queues, its default capacity and all
    /// misses in queue 0.
    #[must_use]
    pub fn new(profile: CardProfile, queues: u16) -> Self {
        Self {
            profile,
            capacity: None,
            queues,
            reta: Reta::Queues(1),
            rss_key: MICROSOFT_KEY,
            report_marks: true,
            switch: Vec::new(),
            play_insertion: false,
        }
    }

    /// The number of filters.
    pub(crate) fn checked_capacity(&self) -> Result<usize, NicError> {
        let profile = self.profile;
        let Some(capacity) = self.capacity else { return Ok(profile.default_entries()) };
        match profile.entries() {
            entries if entries.allow(capacity) => Ok(capacity),
            Entries::OneOf(sizes) => Err(NicError::Capacity { profile, capacity, sizes }),
            Entries::UpTo(max) => Err(NicError::CapacityRange { profile, capacity, max }),
        }
    }

    /// The redirection table.
    pub(crate) fn checked_reta(&self, card: &Profile) -> Result<Vec<u16>, NicError> {
        let (profile, queues) = (self.profile, self.queues);
        if queues == 0 || queues > card.max_queues {
            return Err(NicError::Queues { profile, queues, max: card.max_queues });
        }
        let reta = match &self.reta {
            Reta::Queues(0) => return Err(NicError::NoDefaultQueue),
            Reta::Queues(first) => {
                let smallest = card.reta_sizes.first().copied().unwrap_or(0);
                (0..*first).cycle().take(smallest).collect()
            }
            Reta::Table(reta) => reta.clone(),
        };
        if !card.reta_sizes.contains(&reta.len()) {
            let sizes = card.reta_sizes;
            return Err(NicError::RetaSize { profile, size: reta.len(), sizes });
        }
        let max = queues.min(profile.queues());
        if let Reta::Queues(first) = self.reta {
            if first > max {
                return Err(NicError::RetaQueue { profile, queue: first - 1, max });
            }
        }
        match reta.iter().find(|queue| **queue >= max) {
            Some(queue) => Err(NicError::RetaQueue { profile, queue: *queue, max }),
            None => Ok(reta),
        }
    }
}

/// Why a NIC can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// Not one of the sizes that the card's table has.
    #[error("{profile} has a table of {sizes:?} filters, not {capacity}")]
    Capacity {
        /// The profile.
        profile: CardProfile,
        /// The number asked for.
        capacity: usize,
        /// The numbers that the card can have.
        sizes: &'static [usize],
    },
    /// More filters than the card has, or none.
    #[error("{profile} has 1 to {max} filters, not {capacity}")]
    CapacityRange {
        /// The profile.
        profile: CardProfile,
        /// The number asked for.
        capacity: usize,
        /// The most that the card has.
        max: usize,
    },
    /// More queues than the card has, or none.
    #[error("{profile} has 1 to {max} receive queues, not {queues}")]
    Queues {
        /// The profile.
        profile: CardProfile,
        /// The number asked for.
        queues: u16,
        /// The most that the card has.
        max: u16,
    },
    /// RSS over no queue.
    #[error("frames that match no rule need at least one default queue")]
    NoDefaultQueue,
    /// A redirection table of a size that the card does not have.
    #[error("{profile} has a redirection table of {sizes:?} entries, not {size}")]
    RetaSize {
        /// The profile.
        profile: CardProfile,
        /// The size asked for.
        size: usize,
        /// The sizes that the card can have.
        sizes: &'static [usize],
    },
    /// The redirection table has no such entry.
    #[error("the redirection table of {profile} has entries 0 to {}, not {entry}", size - 1)]
    RetaEntry {
        /// The profile.
        profile: CardProfile,
        /// The entry.
        entry: u16,
        /// The number of entries.
        size: usize,
    },
    /// The card does not take the update of its redirection table.
    #[error("{profile} refuses to change its redirection table")]
    RetaRefused {
        /// The profile.
        profile: CardProfile,
    },
    /// The redirection table names a queue that isn't there.
    #[error("the redirection table of {profile} can name queues 0 to {}, not {queue}", max - 1)]
    RetaQueue {
        /// The profile.
        profile: CardProfile,
        /// The queue.
        queue: u16,
        /// One more than the highest queue.
        max: u16,
    },
}
