//! The table against a map, by one thread.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic)]
use crate::common;

use std::collections::HashMap;

use common::{binding, hops, seeded};
use conntrack::{ConnId, ConnTable, FastKey, Hit, InsertError, Key};
use flow::Direction;
use proptest::prelude::*;
use service::Binding;
use wire::FlowKey;

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(u32, bool)>),
    Remove(u32, bool),
    Lookup(Vec<(u32, bool)>),
    Sweep(u64),
    Reclaim,
    Tidy(usize),
}

fn step(clients: u32) -> impl Strategy<Value = Step> {
    let client = (0..clients, any::<bool>());
    prop_oneof![
        8 => client.clone().prop_map(|new| Step::Insert(vec![new])),
        1 => proptest::collection::vec(client.clone(), 0..50).prop_map(Step::Insert),
        3 => client.clone().prop_map(|(n, v6)| Step::Remove(n, v6)),
        2 => proptest::collection::vec(client, 0..150).prop_map(Step::Lookup),
        1 => (0u64..40_000).prop_map(Step::Sweep),
        1 => Just(Step::Reclaim),
        1 => (0usize..400).prop_map(Step::Tidy),
    ]
}

/// Clients share reply keys: number `n` and `n + 1000` have the same local end.
fn some_binding(n: u32, v6: bool) -> Binding {
    let mut some = binding(n * 2 + 1, v6);
    let twin = binding((n % 1000) * 2 + 1, v6);
    (some.server, some.local) = (twin.server, twin.local);
    some
}

#[derive(Default)]
struct Model {
    keys: HashMap<FlowKey, Hit>,
    conns: HashMap<ConnId, (Binding, u64)>,
}

impl Model {
    /// `got` came of the insertion of `new`, while there was `room`.
    fn inserted(&mut self, new: &Binding, got: Result<ConnId, InsertError>, now: u64, room: bool) {
        let [there, back] = Direction::BOTH.map(|direction| new.key(direction).unwrap());
        let one_way = new.forwarding.is_one_way();
        let expected = match (self.keys.get(&there), self.keys.get(&back)) {
            (Some(&hit), _) => Some(InsertError::Exists(hit)),
            (_, Some(&hit)) if !one_way => Some(InsertError::ReplyConflict(hit)),
            _ if !room => Some(InsertError::Full),
            _ => None,
        };
        assert_eq!(got.err(), expected);
        if let Ok(conn) = got {
            self.keys.insert(there, Hit { conn, direction: Direction::Forward });
            if !one_way {
                self.keys.insert(back, Hit { conn, direction: Direction::Reply });
            }
            assert_eq!(self.conns.insert(conn, (*new, now)), None);
        }
    }

    fn remove(&mut self, table: &ConnTable, conn: ConnId) {
        let (gone, _) = self.conns.remove(&conn).unwrap();
        self.keys.remove(&gone.key(Direction::Forward).unwrap());
        if !gone.forwarding.is_one_way() {
            self.keys.remove(&gone.key(Direction::Reply).unwrap());
        }
        assert_eq!(table.remove(conn), Some(gone));
    }

    fn check(&self, table: &ConnTable) {
        assert_eq!(table.len(), self.conns.len());
        for (binding, _) in self.conns.values() {
            let back = binding.key(Direction::Reply).unwrap();
            assert_eq!(table.lookup(&back), self.keys.get(&back).copied());
        }
        for (key, hit) in &self.keys {
            assert_eq!(table.lookup(key), Some(*hit));
        }
        let mut shown = 0;
        table.iter(0, &mut |conn, view| {
            assert_eq!(self.conns[&conn].0, view.binding);
            shown += 1;
        });
        assert_eq!(shown, self.conns.len());
    }
}

fn run(steps: &[Step], sizes: (usize, usize), seed: u8) {
    let table = seeded(sizes.0, sizes.1, seed);
    let (mut model, mut now) = (Model::default(), 0);
    // Records in use or in limbo.
    let mut taken = [0, 0];
    for step in steps {
        now += 500;
        match step {
            Step::Insert(new) => {
                let got = insert(&table, new, now);
                for (&(n, v6), got) in new.iter().zip(got) {
                    let size = if v6 { sizes.1 } else { sizes.0 };
                    let taken = &mut taken[usize::from(v6)];
                    let before = model.conns.len();
                    model.inserted(&some_binding(n, v6), got, now, *taken < size);
                    *taken += model.conns.len() - before;
                }
            }
            Step::Remove(n, v6) => {
                let key = some_binding(*n, *v6).key(Direction::Forward).unwrap();
                if let Some(hit) = model.keys.get(&key) {
                    model.remove(&table, hit.conn);
                }
            }
            Step::Lookup(clients) => lookup(&table, &model, clients),
            Step::Tidy(budget) => {
                let before = table.spilled();
                let moved = table.tidy(*budget) as u64;
                assert_eq!(table.spilled(), before - moved);
            }
            Step::Sweep(wait) => {
                now += wait;
                sweep(&table, &mut model, now);
            }
            Step::Reclaim => {
                table.reclaim();
                let v6 = model.conns.keys().filter(|conn| conn.is_v6()).count();
                taken = [model.conns.len() - v6, v6];
            }
        }
    }
    model.check(&table);
}

fn insert(table: &ConnTable, new: &[(u32, bool)], now: u64) -> Vec<Result<ConnId, InsertError>> {
    new.iter().map(|&(n, v6)| table.insert(&some_binding(n, v6), hops(1), now)).collect()
}

fn lookup(table: &ConnTable, model: &Model, clients: &[(u32, bool)]) {
    let keys: Vec<_> = clients
        .iter()
        .map(|&(n, v6)| some_binding(n, v6).key(Direction::BOTH[n as usize % 2]).unwrap())
        .collect();
    let mut out = vec![None; keys.len()];
    table.lookup_burst(&keys, &mut out);
    for (key, found) in keys.iter().zip(out) {
        assert_eq!(found, model.keys.get(key).copied());
        assert_eq!(table.lookup(key), found);
    }
    let v4 = keys.iter().filter_map(|key| match key {
        FlowKey::V4(flow) => Some(flow.into()),
        FlowKey::V6(_) => None,
    });
    let v6 = keys.iter().filter_map(|key| match key {
        FlowKey::V4(_) => None,
        FlowKey::V6(flow) => Some(flow.into()),
    });
    lookup_by_words(table, model, &v4.collect::<Vec<Key<1>>>());
    lookup_by_words(table, model, &v6.collect::<Vec<Key<4>>>());
}

/// The keys of one family once more, as words.
fn lookup_by_words<const K: usize>(table: &ConnTable, model: &Model, keys: &[Key<K>])
where
    Key<K>: FastKey<K>,
{
    let mut out = vec![None; keys.len()];
    table.lookup_burst(keys, &mut out);
    for (key, found) in keys.iter().zip(out) {
        assert_eq!(found, model.keys.get(&FlowKey::from(key)).copied());
        assert_eq!(table.lookup(key), found);
    }
}

/// All expire after 30 s, or sooner as the table fills, reported at most 128 ms
/// late.
fn sweep(table: &ConnTable, model: &mut Model, now: u64) {
    let stats = table.stats();
    let least = [stats.v4, stats.v6].map(|own| {
        let free = own.capacity - own.len;
        let halved = (1..5).take_while(|n| free < own.capacity >> n).count();
        (30_000_u64 >> halved).max(1000)
    });
    let mut due = Vec::new();
    for _ in 0..model.conns.len() + 600 {
        table.sweep(now, 3, &mut |conn, expiry| due.push((conn, expiry)));
    }
    due.sort_by_key(|(conn, _)| *conn);
    due.dedup_by_key(|(conn, _)| *conn);
    for (conn, expiry) in &due {
        let age = now - model.conns[conn].1;
        let is_v6 = table.binding(*conn).unwrap().client.is_ipv6();
        assert!(age >= least[usize::from(is_v6)] && age.abs_diff(expiry.idle_ms) <= 64);
        model.remove(table, *conn);
    }
    assert!(model.conns.values().all(|(_, seen)| now - seen < 30_128));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]

    #[test]
    fn a_small_table_is_a_map(
        steps in proptest::collection::vec(step(40), 1..200),
        sizes in (0usize..30, 0usize..30),
        seed: u8,
    ) {
        run(&steps, sizes, seed);
    }

    #[test]
    fn a_larger_table_is_a_map(
        steps in proptest::collection::vec(step(2500), 1..2500),
        seed: u8,
    ) {
        run(&steps, (500, 700), seed);
    }
}
