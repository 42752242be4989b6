//! What is tried out: a card with a match table, and perhaps a way for packets to it.
use dpdk::flow::FlowPort;
use serde::Serialize;
use wire::Mac;

/// What is known of a card without asking it for rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The device, as the user named it.
    pub device: String,
    /// DPDK's driver, or the profile of an emulated card.
    pub driver: String,
    /// Receive queues that are set up.
    pub queues: u16,
    /// The most receive queues that the card has.
    pub most_queues: u16,
    /// Entries of the redirection table; 0: there is none.
    pub redirection_entries: u16,
    /// How packets get to the card, in words; `None`: there is no way.
    pub packets: Option<String>,
    /// What the times are taken with.
    pub clock: String,
    /// What else is known of it, a sentence each.
    pub notes: Vec<String>,
    /// Its Ethernet address.
    #[serde(skip)]
    pub mac: Mac,
    /// The Ethernet address that rewritten packets are sent to.
    #[serde(skip)]
    pub peer: Mac,
    /// The numbers by which rules would name ports to send packets out of.
    #[serde(skip)]
    pub outputs: Vec<Option<u16>>,
    /// How a port of the configuration names the device: the lines behind `name`.
    #[serde(skip)]
    pub lines: String,
}

/// What a card has done with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The host has received it.
    Received {
        /// In this queue.
        queue: u16,
        /// With this mark.
        mark: Option<u32>,
    },
    /// The card has sent this frame out by itself.
    Left(Vec<u8>),
    /// It was not seen again.
    Lost,
}

/// A frame's way through a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// What has become of it.
    pub fate: Fate,
    /// Nanoseconds from sending it until it was seen.
    pub ns: u64,
}

/// A card that is tried out.
pub trait Card {
    /// What is known of it.
    fn facts(&self) -> &Facts;

    /// What takes its rules.
    fn flows(&mut self) -> &mut dyn FlowPort;

    /// The time in nanoseconds.
    fn now_ns(&mut self) -> u64;

    /// Sends `frame` to the card and waits for what becomes of it; `None`: there is no
    /// way to it.
    fn pass(&mut self, frame: &[u8]) -> Option<Passed>;

    /// Changes entries of the redirection table, given as pairs of an entry's number and
    /// its new queue.
    ///
    /// # Errors
    /// The driver's reason.
    fn redirect(&mut self, entries: &[(u16, u16)]) -> Result<(), String>;

    /// The queue of each entry.
    ///
    /// # Errors
    /// The driver's reason.
    fn redirection(&mut self) -> Result<Vec<u16>, String>;
}
