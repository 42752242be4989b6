//! Updates of the redirection table while frames arrive.
#![allow(clippy::unwrap_used)]

use crate::common;

use common::{nth, receive, receive_at};
use flow::CardProfile;
use nic::{Fault, Nic, NicConfig, NicError, Reta};
use proptest::prelude::*;

fn nic() -> Nic {
    let reta = Reta::Queues(2);
    Nic::new(&NicConfig { reta, ..NicConfig::new(CardProfile::X550, 4) }).unwrap()
}

/// The entry of a packet's bucket.
fn entry(nic: &Nic, n: u32) -> u16 {
    let hash = receive(nic, &nth(n)).hash.unwrap();
    hash as u16 % nic.reta().len() as u16
}

proptest! {
    /// Whatever is written, a frame goes by the entry of its bucket as written last.
    #[test]
    fn frames_go_by_the_entries_that_were_written(
        updates in proptest::collection::vec(
            proptest::collection::vec((0..128_u16, 0..4_u16), 0..8), 0..8),
        packets in proptest::collection::vec(0..1000_u32, 20),
    ) {
        let nic = nic();
        let mut model: Vec<u16> = (0..128).map(|entry| entry % 2).collect();
        for update in updates {
            nic.update_reta(&update).unwrap();
            for (entry, queue) in update {
                model[usize::from(entry)] = queue;
            }
            prop_assert_eq!(&nic.reta(), &model);
            if model.windows(2).any(|pair| pair[0] != pair[1]) {
                for &packet in &packets {
                    let entry = entry(&nic, packet);
                    prop_assert_eq!(receive(&nic, &nth(packet)).queue, model[usize::from(entry)]);
                }
            }
        }
    }
}

#[test]
fn an_update_may_be_late() {
    let nic = nic();
    let entry = entry(&nic, 7);
    let old = nic.reta()[usize::from(entry)];
    nic.order_fault(Fault::LateReta { ns: 1000, mixed: false });
    nic.update_reta(&[(entry, 3)]).unwrap();
    assert_eq!(nic.reta()[usize::from(entry)], 3, "the host reads what it has written");
    assert_eq!(receive_at(&nic, &nth(7), 999).queue, old);
    assert_eq!(receive_at(&nic, &nth(7), 1000).queue, 3);
}

#[test]
fn a_card_may_go_by_both_tables_for_a_while() {
    let nic = nic();
    let entry = entry(&nic, 7);
    let old = nic.reta()[usize::from(entry)];
    nic.order_fault(Fault::LateReta { ns: 1000, mixed: true });
    nic.update_reta(&[(entry, 3)]).unwrap();
    let queues: Vec<u16> = (0..4).map(|ns| receive_at(&nic, &nth(7), ns).queue).collect();
    assert!(queues.contains(&old) && queues.contains(&3), "{queues:?}");
    assert!((1000..1004).all(|ns| receive_at(&nic, &nth(7), ns).queue == 3));
}

#[test]
fn wrong_and_refused_updates_change_nothing() {
    let nic = nic();
    let before = nic.reta();
    assert!(matches!(
        nic.update_reta(&[(0, 3), (128, 0)]),
        Err(NicError::RetaEntry { entry: 128, .. })
    ));
    assert!(matches!(nic.update_reta(&[(0, 4)]), Err(NicError::RetaQueue { queue: 4, .. })));
    nic.order_fault(Fault::RefuseRetaUpdates { count: 1 });
    assert!(matches!(nic.update_reta(&[(0, 3)]), Err(NicError::RetaRefused { .. })));
    assert_eq!(nic.reta(), before);
    nic.update_reta(&[(0, 3)]).unwrap();
    assert_eq!(nic.stats().reta_updates, 1);
}
