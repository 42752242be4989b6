//! Ordinary threads as EAL threads.
use dpdk::{Mbuf, Mempool, ThreadError, pin_to_core, register_thread};

pub(crate) fn register_and_pin(pool: &Mempool) {
    assert!(matches!(register_thread(), Err(ThreadError::Registered(0))), "the main lcore");
    let barrier = std::sync::Barrier::new(2);
    let lcores: Vec<u32> = std::thread::scope(|scope| {
        let workers = [(); 2].map(|()| {
            let barrier = &barrier;
            scope.spawn(move || {
                let guard = register_thread().unwrap();
                assert!(matches!(register_thread(), Err(ThreadError::Registered(_))));
                let core = dpdk::thread::allowed_cores()[0];
                pin_to_core(core as usize).unwrap();
                assert_eq!(dpdk::thread::allowed_cores(), [core]);
                drop(Mbuf::copy_from(pool, &[1]).unwrap());
                barrier.wait();
                guard.lcore()
            })
        });
        workers.map(|worker| worker.join().unwrap()).to_vec()
    });
    assert_ne!(lcores[0], lcores[1]);
    assert!(lcores.iter().all(|lcore| *lcore > 0 && *lcore < 1024));
    let error = pin_to_core(5000).unwrap_err().to_string();
    assert!(error.contains("core 5000") && error.contains("may use cores"), "{error}");
    assert!(pin_to_core(usize::MAX).is_err());
}
