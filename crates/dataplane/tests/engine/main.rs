//! A real engine, without root and without huge pages: frames come from a
//! capture and go to another, through net_pcap.
//!
//! DPDK starts once per process, so every test runs in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod balancing;
mod bench;
mod failures;
mod telemetry;
mod traffic;

/// Runs `body` in a process that runs nothing else: this test program, started
/// again for the one test `name`.
fn alone(name: &str, body: impl FnOnce()) {
    const MARKER: &str = "HNLB_TEST_ALONE";
    if std::env::var_os(MARKER).is_some() {
        return body();
    }
    let program = std::env::current_exe().unwrap();
    // Where DPDK has its sockets.
    let directory = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(MARKER, "1")
        .env("RUNTIME_DIRECTORY", directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1 passed"), "{name} in its own process:\n{text}\n{errors}");
}

macro_rules! alone {
    ($($module:ident::$name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                alone(stringify!($name), $module::$name);
            }
        )*
    };
}

alone! {
    balancing::buckets_leave_the_busy_worker,
    balancing::nothing_moves_if_it_is_off,
    traffic::what_comes_in_goes_out_and_counts_add_up,
    traffic::several_workers_share_the_traffic,
    traffic::an_idle_worker_sleeps,
    traffic::matched_by_the_emulated_nic_and_no_rule_left,
    telemetry::dpdks_socket_tells_what_the_status_says,
    telemetry::without_it_there_is_no_socket,
    failures::a_missing_second_device_leaves_nothing_running,
    failures::too_many_queues_name_the_key,
    failures::more_workers_than_send_queues_name_the_key,
    failures::too_little_memory_says_how_much_is_needed,
    failures::a_core_that_is_not_there,
}
