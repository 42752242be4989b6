//! The properties that the Maglev paper claims, counted on whole tables.
use std::net::Ipv4Addr;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::*;

fn members(weights: &[u16]) -> Vec<Member> {
    let address = |host: usize| IpAddr::V4(Ipv4Addr::from_bits(0x0a48_0000 + host as u32));
    let member = |(host, weight): (usize, &u16)| Member {
        address: address(host + 1),
        port: 8080,
        weight: *weight,
    };
    weights.iter().enumerate().map(member).collect()
}

/// Slots to members; the table must be full.
fn owners(size: u32, members: &[Member]) -> Vec<Member> {
    let table = Maglev::fill(size, members);
    assert_eq!(table.slots.len(), size as usize);
    table.slots.iter().map(|place| members[usize::from(*place)]).collect()
}

fn shares(owners: &[Member], members: &[Member]) -> Vec<usize> {
    members.iter().map(|member| owners.iter().filter(|owner| *owner == member).count()).collect()
}

/// The pseudocode of the paper's section 3.4, without weights.
fn paper(size: u64, members: &[Member]) -> Vec<Member> {
    let mut sorted = members.to_vec();
    sorted.sort_by_key(|member| (member.address, member.port));
    let permutation: Vec<Vec<u64>> = sorted
        .iter()
        .map(|member| {
            let hash = |key| siphash::address(key, member.address, u64::from(member.port));
            let offset = siphash::below(hash(OFFSET_KEY), size);
            let skip = siphash::below(hash(SKIP_KEY), size - 1) + 1;
            (0..size).map(|j| (offset + j * skip) % size).collect()
        })
        .collect();
    let mut next = vec![0; sorted.len()];
    let mut entry = vec![None; size as usize];
    let mut n = 0;
    loop {
        for i in 0..sorted.len() {
            let mut c = permutation[i][next[i]];
            while entry[c as usize].is_some() {
                next[i] += 1;
                c = permutation[i][next[i]];
            }
            entry[c as usize] = Some(sorted[i]);
            next[i] += 1;
            n += 1;
            if n == size {
                return entry.into_iter().flatten().collect();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn it_is_the_papers_algorithm(count in 1_usize..20, weight in 1_u16..) {
        let members = members(&vec![weight; count]);
        prop_assert_eq!(owners(2003, &members), paper(2003, &members));
    }

    /// Section 3.4: with M > 100 N the difference is at most 1 %.
    #[test]
    fn equal_weights_get_equal_shares(count in 1_usize..100) {
        let members = members(&vec![1; count]);
        let size = next_prime(count as u32 * MAGLEV_PER_BACKEND).unwrap();
        let shares = shares(&owners(size, &members), &members);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        prop_assert!(most - least <= 1);
        prop_assert!(most * 100 <= least * 101, "{} {}", most, least);
    }

    /// Within 1 % and two slots of the exact share.
    #[test]
    fn weights_are_respected(weights in prop::collection::vec(prop_oneof![0_u16..10, 0_u16..], 1..60)) {
        let members = members(&weights);
        let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        prop_assume!(total > 0.0);
        let size = 6007;
        for (weight, share) in weights.iter().zip(shares(&owners(size, &members), &members)) {
            let exact = f64::from(size) * f64::from(*weight) / total;
            prop_assert!((share as f64 - exact).abs() <= exact * 0.01 + 2.0, "{} {}", share, exact);
            prop_assert!(*weight > 0 || share == 0);
        }
    }

    #[test]
    fn the_order_of_the_configuration_does_not_matter(
        weights in prop::collection::vec(0_u16..5, 1..40), seed: u64,
    ) {
        let members = members(&weights);
        prop_assume!(weights.iter().any(|weight| *weight > 0));
        let mut shuffled = members.clone();
        shuffled.shuffle(&mut StdRng::seed_from_u64(seed));
        prop_assert_eq!(owners(4099, &members), owners(4099, &shuffled));
    }

    /// Of the slots of those who stay, few change hands (the paper's figure 12
    /// shows a few percent for this table size).
    #[test]
    fn few_move_when_one_leaves(count in 2_usize..60, leaver: prop::sample::Index) {
        let members = members(&vec![1; count]);
        let gone = members[leaver.index(count)];
        let rest: Vec<_> = members.iter().copied().filter(|member| *member != gone).collect();
        let (before, after) = (owners(65537, &members), owners(65537, &rest));
        let pairs = || before.iter().zip(&after);
        prop_assert!(pairs().all(|(_, after)| *after != gone));
        let moved = pairs().filter(|(before, after)| **before != gone && before != after).count();
        prop_assert!(moved * 100 <= 65537 * 3, "{moved} of 65537 moved");
    }
}

/// Load balancers of different versions must agree, so the table must never
/// change.
#[test]
fn the_table_is_the_same_for_ever() {
    let places: Vec<_> = Maglev::fill(101, &members(&[1, 1, 2])).slots.to_vec();
    let text: String = places.iter().map(ToString::to_string).collect();
    assert_eq!(text, GOLDEN);
}

const GOLDEN: &str = "1111111111201220201012202000222222022222220202220211112102\
                      0201211211202212202012222020002220200222222";

#[test]
fn a_table_without_weights_has_nobody() {
    assert_eq!(Maglev::fill(101, &[]).get(7), None);
    assert_eq!(Maglev::fill(101, &members(&[0, 0])).get(7), None);
}

#[test]
fn every_hash_has_a_slot() {
    let table = Maglev::fill(65537, &members(&[1, 1]));
    assert!(table.get(0).is_some() && table.get(u64::MAX).is_some());
    let mut random = StdRng::seed_from_u64(1);
    assert!((0..10_000).all(|_| table.get(random.random()).is_some()));
}

#[test]
fn sizes_are_checked() {
    assert_eq!(check_maglev_size(65537, 655), Ok(()));
    assert_eq!(
        check_maglev_size(65537, 656).unwrap_err().to_string(),
        "65537 is too small for 656 backends; take a prime of at least 65600, as 65609"
    );
    assert_eq!(
        check_maglev_size(65536, 1).unwrap_err().to_string(),
        "65536 is not a prime; the next one is 65537"
    );
    assert_eq!(check_maglev_size(MAGLEV_MAX, 65_000), Ok(()));
    assert!(check_maglev_size(MAGLEV_MAX + 1, 1).is_err());
    assert!(check_maglev_size(0, 0).is_err());
}
