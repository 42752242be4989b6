//! The fast path in front of the machine, or beside it: both must send the same bytes, and
//! know the same afterwards.
use packet::{HeapPacket, PacketBuf};
use splice::{Agent, Ends, Fate, Passage, Passing, Place, Steady};
use wire::FastHeader;

/// Where a frame belongs, if a fast path would look.
fn place(agent: &Agent, frame: &[u8]) -> Option<(FastHeader<1>, Place)> {
    let header = FastHeader::of(frame, 0)?;
    let place = agent.find(&Ends::from(&header))?;
    Some((header, place))
}

/// The connection of a frame.
#[allow(dead_code, reason = "not every test has a card")]
pub(crate) fn of(agent: &Agent, frame: &[u8]) -> Option<Place> {
    place(agent, frame).map(|(_, place)| place)
}

fn translate(
    passage: &mut Passage<1>,
    (header, place): (FastHeader<1>, Place),
    packet: &HeapPacket,
) -> Option<HeapPacket> {
    let mut packet = HeapPacket::new(packet.bytes());
    if !passage.is_of(place.side(), &header) {
        return None;
    }
    let before = packet.bytes().to_vec();
    match passage.translate(place.side(), &header, packet.bytes_mut(), 0) {
        Ok(rewrite) => rewrite.apply(packet.bytes_mut(), 0, header.proto),
        Err(_) => {
            assert_eq!(packet.bytes(), before, "a packet that leaves is changed");
            return None;
        }
    }
    Some(packet)
}

/// The packet as the fast path sends it on; otherwise it is the machine's.
pub(crate) fn pass(agent: &mut Agent, packet: &HeapPacket) -> Option<HeapPacket> {
    let (header, place) = place(agent, packet.bytes())?;
    let passage = Passing::<1>::passage_mut(agent, place)?;
    translate(passage, (header, place), packet)
}

/// What the fast path would have sent, and known then.
pub(crate) struct Shortcut {
    passed: Option<(Place, Steady, HeapPacket)>,
}

impl Shortcut {
    /// Before the machine gets the packet.
    pub(crate) fn new(agent: &Agent, packet: &HeapPacket) -> Self {
        let passed = place(agent, packet.bytes()).and_then(|(header, place)| {
            let mut passage = *Passing::<1>::passage(agent, place)?;
            let sent = translate(&mut passage, (header, place), packet)?;
            Some((place, passage.steady()?, sent))
        });
        Self { passed }
    }

    /// Compares with what the machine has sent. Whether the fast path would have done it.
    pub(crate) fn check(
        self,
        agent: &Agent,
        fate: Fate,
        sent: &[HeapPacket],
    ) -> Result<bool, String> {
        let Some((place, entry, packet)) = self.passed else { return Ok(false) };
        let [only] = sent else {
            return Err(format!("the entry translates what the machine does not: {fate:?}"));
        };
        if only.bytes() != packet.bytes() {
            return Err(format!("machine {:x?}, entry {:x?}", only.bytes(), packet.bytes()));
        }
        match Passing::<1>::passage(agent, place).and_then(Passage::steady) {
            Some(after) if after != entry => Err(format!("machine {after:?}, entry {entry:?}")),
            _ => Ok(true),
        }
    }
}
