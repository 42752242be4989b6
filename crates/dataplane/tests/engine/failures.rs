//! Starts that fail half-way: nothing is left, and the error says what to do.
use config::Config;
use dataplane::LoadBalancer;

use crate::bench::{Bench, conversations_of_one};

fn error(config: &Config) -> String {
    LoadBalancer::start(config, "test.toml".as_ref(), [0; 32])
        .err()
        .expect("can't start")
        .to_string()
}

#[track_caller]
fn assert_says(error: &str, words: &[&str]) {
    for word in words {
        assert!(error.contains(word), "'{word}' in: {error}");
    }
}

pub(crate) fn a_missing_second_device_leaves_nothing_running() {
    let bench = Bench::new();
    bench.incoming(&conversations_of_one());
    let second = "[[port]]\nname = \"b\"\ndevice = \"net_af_packet1,iface=hnlb-none\"\n\
                  [[interface]]\nport = \"b\"\naddresses = [\"10.9.0.1/24\"]";
    let nic = "[port.nic]\nprofile = \"x550\"";
    let error = error(&bench.config(&bench.device(), nic, second));
    assert_says(&error, &["port 'b'", "no interface 'hnlb-none'"]);
    bench.assert_nothing_is_left();
}

pub(crate) fn too_many_queues_name_the_key() {
    let bench = Bench::new();
    bench.incoming(&conversations_of_one());
    let nic = "[port.nic]\nprofile = \"x550\"\nqueues = 17";
    let error = error(&bench.config(&bench.device(), nic, ""));
    assert_says(&error, &["port 'a'", "16 receive queues", "17", "[port.nic] queues to 16"]);
    bench.assert_nothing_is_left();
}

pub(crate) fn more_workers_than_send_queues_name_the_key() {
    let bench = Bench::new();
    bench.incoming(&conversations_of_one());
    // Two captures to read are two receive queues; one to write, one send queue.
    let device = format!("{},rx_pcap={}", bench.device(), bench.path("in.pcap").display());
    let more = "[offload]\nencoding = \"off\"\n[workers]\ncount = 2";
    let error = error(&bench.config(&device, "", more));
    assert_says(&error, &["port 'a'", "1 send queues", "2 are needed", "[workers] count to 1"]);
    bench.assert_nothing_is_left();
}

pub(crate) fn too_little_memory_says_how_much_is_needed() {
    let bench = Bench::new();
    bench.incoming(&conversations_of_one());
    let port = "rx_descriptors = 4096\ntx_descriptors = 4096\n\
                [port.nic]\nprofile = \"e810\"\nqueues = 16";
    let config = bench.config(&bench.device(), port, "");
    let config = Config { eal: config::Eal { memory_mb: 64, ..config.eal }, ..config };
    let error = error(&config);
    assert_says(&error, &["memory_mb = 64", "packet buffers", "set it to ", "rx_descriptors"]);
    bench.assert_nothing_is_left();
}

pub(crate) fn a_core_that_is_not_there() {
    let bench = Bench::new();
    let config = bench.config("net_null0", "", "[workers]\ncores = [1023]");
    assert_says(&error(&config), &["[workers] cores", "no core 1023", "[0"]);
    bench.assert_nothing_is_left();
}
