//! Ids that are lent to connections that the connection table does not have, those of the
//! L7 agents, for as long as the NIC may have rules of them.
//!
//! A worker lends an id to a connection of its own and writes down what its rule is made
//! from. Only the offload side [holds](Loans::hold) it from then on, and while it does, what
//! is written stays as it is: the worker lends the number again only when no rule and no
//! packet that one has matched can be on its way any more.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use conntrack::ConnId;
use flow::{BackendId, HopId, ServiceId, Transport};
use service::{Binding, Forwarding};

/// Ids that may be lent at once.
const MOST: usize = 4096;
/// Records that are looked at for a free one.
const LOOKS: usize = 16;

/// What is written down of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Its service.
    pub service: ServiceId,
    /// Its backend.
    pub backend: BackendId,
    /// The client, the VIP, and the backend's address and port; of one family.
    pub ends: [SocketAddr; 3],
    /// The next hops towards the client and towards the backend.
    pub hops: [HopId; 2],
    /// What is added to the sequence and to the acknowledgement numbers of the backend's
    /// packets.
    pub added: [u32; 2],
    /// How long it may be silent, in milliseconds.
    pub timeout_ms: u32,
}

impl Loan {
    /// The binding that its rules are made from.
    #[must_use]
    pub const fn binding(&self) -> Binding {
        let [client, vip, server] = self.ends;
        Binding {
            proto: Transport::Tcp,
            service: self.service,
            backend: self.backend,
            forwarding: Forwarding::Rewrite,
            client,
            vip,
            server,
            local: client,
        }
    }
}

/// Who has a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Nobody.
    Free,
    /// A worker, which is writing.
    Written,
    /// A worker.
    Lent,
    /// A worker, which has asked for a rule.
    Wanted,
    /// The offload side: there may be a rule.
    Held,
}

/// What a worker learns when it wants an id back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// It has it: there is no rule.
    Done,
    /// There may be a rule, and nobody has been told before that it must go.
    Asked,
    /// There may still be a rule.
    Awaited,
}

#[derive(Debug, Default)]
struct Record {
    phase: AtomicU8,
    /// Whether the worker wants it back.
    recalled: AtomicBool,
    /// How often it has been lent.
    generation: AtomicU32,
    /// When it was lent, or its rule last seen in use.
    touched_ms: AtomicU64,
    words: [AtomicU64; 11],
}

impl Record {
    fn change(&self, from: Phase, to: Phase) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    /// Whether a rule may be asked for, or is there.
    fn is_in_use(&self) -> bool {
        [Phase::Lent, Phase::Wanted, Phase::Held].into_iter().any(|phase| self.is(phase))
    }

    fn write(&self, loan: &Loan) {
        let Loan { service, backend, ends, hops, added, timeout_ms } = *loan;
        let [client, vip, server] = ends.map(|end| match end.ip() {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        });
        let [client_port, vip_port, server_port] = ends.map(|end| u64::from(end.port()));
        let [to_client, to_backend] = hops.map(|hop| u64::from(hop.0));
        let [sequence, acknowledgement] = added.map(u64::from);
        let is_v6 = u64::from(ends.iter().any(SocketAddr::is_ipv6));
        let words = [
            (client >> 64) as u64,
            client as u64,
            (vip >> 64) as u64,
            vip as u64,
            (server >> 64) as u64,
            server as u64,
            is_v6 << 48 | client_port << 32 | vip_port << 16 | server_port,
            u64::from(service.0) << 16 | u64::from(backend.0),
            to_client << 32 | to_backend,
            sequence << 32 | acknowledgement,
            timeout_ms.into(),
        ];
        for (own, word) in self.words.iter().zip(words) {
            own.store(word, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Loan {
        let [a, b, c, d, e, f, ports, ids, hops, added, timeout] = std::array::from_fn(|at| {
            self.words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
        });
        let end = |high: u64, low: u64, port: u64| {
            let bits = u128::from(high) << 64 | u128::from(low);
            let address = match ports >> 48 {
                0 => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
                _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
            };
            SocketAddr::new(address, port as u16)
        };
        Loan {
            service: ServiceId((ids >> 16) as u16),
            backend: BackendId(ids as u16),
            ends: [end(a, b, ports >> 32), end(c, d, ports >> 16), end(e, f, ports)],
            hops: [HopId((hops >> 32) as u32), HopId(hops as u32)],
            added: [(added >> 32) as u32, added as u32],
            timeout_ms: timeout as u32,
        }
    }
}

/// All ids that may be lent.
#[derive(Debug, Default)]
pub struct Loans {
    records: OnceLock<Box<[Record]>>,
}

/// For workers.
impl Loans {
    /// Takes the memory; called with a configuration, not for packets.
    pub fn prepare(&self) {
        self.records.get_or_init(|| (0..MOST).map(|_| Record::default()).collect());
    }

    /// Lends an id to the connection of `loan`, at `now_ms`; `None`: there is none. `near`,
    /// a number of the caller's choice, says where a free one is looked for.
    #[must_use]
    pub fn lend(&self, loan: &Loan, near: usize, now_ms: u64) -> Option<ConnId> {
        let records = self.records.get()?;
        let places = (0..LOOKS).map(|step| near.wrapping_add(step) % MOST);
        let mut found = places.filter_map(|place| Some((place, records.get(place)?)));
        let (place, record) =
            found.find(|(_, record)| record.change(Phase::Free, Phase::Written))?;
        record.write(loan);
        record.recalled.store(false, Ordering::Relaxed);
        record.generation.fetch_add(1, Ordering::Relaxed);
        record.touched_ms.store(now_ms, Ordering::Relaxed);
        let [client, ..] = loan.ends;
        record.change(Phase::Written, Phase::Lent);
        Some(ConnId::lent(place as u32, client.is_ipv6()))
    }

    /// Notes that a rule is asked for. `false`: it was before, or is there.
    #[must_use]
    pub fn want(&self, conn: ConnId) -> bool {
        self.of(conn).is_some_and(|record| record.change(Phase::Lent, Phase::Wanted))
    }

    /// A rule was not asked for after all.
    pub fn want_not(&self, conn: ConnId) {
        if let Some(record) = self.of(conn) {
            record.change(Phase::Wanted, Phase::Lent);
        }
    }

    /// Takes the id back, if there is no rule.
    #[must_use]
    pub fn take_back(&self, conn: ConnId) -> Return {
        let Some(record) = self.of(conn) else { return Return::Done };
        // The offload side may have it for a moment between the two.
        let free = |from| record.change(from, Phase::Free);
        if free(Phase::Lent) || free(Phase::Wanted) || free(Phase::Lent) || record.is(Phase::Free) {
            return Return::Done;
        }
        match record.recalled.swap(true, Ordering::AcqRel) {
            false => Return::Asked,
            true => Return::Awaited,
        }
    }
}

/// For the offload side.
impl Loans {
    /// What is written of `conn`; `None`: it is not lent. It changes no more while it is
    /// [held](Self::hold).
    #[must_use]
    pub fn get(&self, conn: ConnId) -> Option<Loan> {
        self.of(conn).filter(|record| record.is_in_use()).map(Record::read)
    }

    /// How often the number of `conn` has been lent; `None`: it is not lent now.
    #[must_use]
    pub fn generation(&self, conn: ConnId) -> Option<u32> {
        let record = self.of(conn).filter(|record| record.is_in_use())?;
        Some(record.generation.load(Ordering::Relaxed))
    }

    /// Whether there may be a rule, as far as the worker is concerned.
    #[must_use]
    pub fn is_good(&self, conn: ConnId) -> bool {
        self.of(conn)
            .is_some_and(|record| record.is_in_use() && !record.recalled.load(Ordering::Acquire))
    }

    /// Keeps what is written as it is: a rule is about to be made. `false`: the worker wants
    /// the id back, or has it.
    #[must_use]
    pub fn hold(&self, conn: ConnId) -> bool {
        let Some(record) = self.of(conn) else { return false };
        let is_recalled = || record.recalled.load(Ordering::Acquire);
        if record.is(Phase::Held) {
            return !is_recalled();
        }
        let held = record.change(Phase::Wanted, Phase::Held)
            || record.change(Phase::Lent, Phase::Held)
            || record.change(Phase::Wanted, Phase::Held);
        if held && is_recalled() {
            record.change(Phase::Held, Phase::Lent);
            return false;
        }
        held
    }

    /// There is no rule, and no packet that one has matched is on its way. With `again` the
    /// worker may ask anew.
    pub fn let_go(&self, conn: ConnId, again: bool) {
        let Some(record) = self.of(conn) else { return };
        record.change(Phase::Held, if again { Phase::Lent } else { Phase::Wanted });
        if again {
            record.change(Phase::Wanted, Phase::Lent);
        }
    }

    /// The rule of `conn` is in use.
    pub fn touch(&self, conn: ConnId, now_ms: u64) {
        if let Some(record) = self.of(conn) {
            record.touched_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Milliseconds since the rule of `conn` was last known to be in use.
    #[must_use]
    pub fn idle_ms(&self, conn: ConnId, now_ms: u64) -> Option<u64> {
        let record = self.of(conn).filter(|record| record.is_in_use())?;
        Some(now_ms.saturating_sub(record.touched_ms.load(Ordering::Relaxed)))
    }

    fn of(&self, conn: ConnId) -> Option<&Record> {
        self.records.get()?.get(conn.lent_number()? as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(is_v6: bool) -> BoxedStrategy<IpAddr> {
        match is_v6 {
            true => any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into()).boxed(),
            false => any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()).boxed(),
        }
    }

    prop_compose! {
        fn loan()(is_v6 in any::<bool>())(
            addresses in [address(is_v6), address(is_v6), address(is_v6)],
            ports in any::<[u16; 3]>(),
            ids in any::<[u16; 2]>(),
            hops in any::<[u32; 2]>(),
            added in any::<[u32; 2]>(),
            timeout_ms in any::<u32>(),
        ) -> Loan {
            let [a, b, c] = addresses;
            let [d, e, f] = ports;
            Loan {
                service: ServiceId(ids[0]),
                backend: BackendId(ids[1]),
                ends: [SocketAddr::new(a, d), SocketAddr::new(b, e), SocketAddr::new(c, f)],
                hops: hops.map(HopId),
                added,
                timeout_ms,
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(loan in loan(), near in any::<usize>()) {
            let loans = Loans::default();
            loans.prepare();
            let conn = loans.lend(&loan, near, 7).unwrap();
            prop_assert_eq!(loans.get(conn), Some(loan));
            prop_assert_eq!(conn.is_v6(), loan.ends[0].is_ipv6());
            prop_assert_eq!(loans.idle_ms(conn, 10), Some(3));
        }

        /// Whoever has a record, it is never lent again while the other side holds it.
        #[test]
        fn a_held_id_is_not_lent_again(
            first in loan(), second in loan(), steps in prop::collection::vec(0..6, 1..40),
        ) {
            let loans = Loans::default();
            loans.prepare();
            let conn = loans.lend(&first, 0, 0).unwrap();
            let (mut held, mut back) = (false, false);
            for step in steps {
                match step {
                    0 => { let _ = loans.want(conn); }
                    1 if loans.hold(conn) => {
                        prop_assert!(!back, "the worker has it");
                        held = true;
                    }
                    2 if held => {
                        loans.let_go(conn, true);
                        held = false;
                    }
                    3 if held => {
                        loans.let_go(conn, false);
                        held = false;
                    }
                    4 => {
                        let done = loans.take_back(conn) == Return::Done;
                        prop_assert!(!(done && held), "there may be a rule");
                        prop_assert!(!done || !loans.is_good(conn));
                        back |= done;
                    }
                    _ => loans.want_not(conn),
                }
                if held {
                    prop_assert_eq!(loans.get(conn), Some(first));
                }
                let near = conn.lent_number().unwrap() as usize;
                if let Some(other) = loans.lend(&second, near, 0) {
                    prop_assert!(back || other != conn);
                    prop_assert_eq!(loans.take_back(other), Return::Done);
                }
            }
        }
    }
}
