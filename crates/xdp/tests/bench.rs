//! The benchmark measures what it says: every packet is another connection's.
use xdp::{Bench, Course, System};

#[test]
fn packets_of_all_connections_are_forwarded_in_turn() {
    for (connections, v6) in [(1, false), (5000, false), (1, true), (5000, true)] {
        let bench = match Bench::load(Course { connections, v6 }, 7) {
            Ok(bench) => bench,
            Err(error) if error.is_permission() => {
                eprintln!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        bench.time(System::Limit, 10).unwrap();
        assert_eq!(bench.forwarded(), (0, 0));
        bench.time(System::Xdp, connections * 2).unwrap();
        assert_eq!(bench.forwarded(), (u64::from(connections) * 2, connections));
    }
}
