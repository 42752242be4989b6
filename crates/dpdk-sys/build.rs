//! Finds DPDK with pkg-config, compiles the shim and generates the bindings.
//!
//! Nothing is tuned for the building machine: the instruction set is the one
//! that pkg-config names for the installed DPDK (SSE4.2 on x86-64), never
//! `-march=native`; DPDK itself picks wider paths at run time.
use std::path::PathBuf;
use std::process::{Command, exit};

const OLDEST: &str = "22.11";

fn main() {
    println!("cargo::rerun-if-changed=csrc");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_LIBDIR");

    let found = pkg_config::Config::new().atleast_version(OLDEST).probe("libdpdk");
    if let Err(error) = found {
        stop(&format!(
            "DPDK {OLDEST} or later was not found by pkg-config.\n\
             On Debian and Ubuntu: apt-get install libdpdk-dev libclang-dev clang pkg-config\n\
             A DPDK installed elsewhere: set PKG_CONFIG_PATH to the directory of its libdpdk.pc.\n\n{error}"
        ));
    }
    // The driver whose ports are made from rings; it is a driver, so libdpdk.pc
    // does not name it.
    println!("cargo::rustc-link-lib=rte_net_ring");

    let flags = compiler_flags();
    compile_shim(&flags);
    generate_bindings(&flags);
}

/// What pkg-config says that `pkg_config::Library` leaves out: `-include` and
/// the instruction set.
fn compiler_flags() -> Vec<String> {
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_owned());
    let text = match Command::new(&program).args(["--cflags", "libdpdk"]).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        Ok(output) => {
            stop(&format!(
                "{program} --cflags libdpdk: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        Err(error) => stop(&format!("{program} can't be run: {error}")),
    };
    let mut flags: Vec<String> = text
        .split_whitespace()
        .map(|flag| if flag == "-march=native" { portable() } else { flag })
        .map(str::to_owned)
        .collect();
    flags.push("-D_GNU_SOURCE".to_owned());
    flags
}

/// The least instruction set DPDK's headers need where this is built for.
fn portable() -> &'static str {
    match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "-march=corei7",
        _ => "-march=armv8-a+crc",
    }
}

fn compile_shim(flags: &[String]) {
    let mut build = cc::Build::new();
    build.file("csrc/shim.c").opt_level(2).warnings(true);
    for flag in flags {
        build.flag(flag);
    }
    build.compile("hnlb_shim");
}

fn generate_bindings(flags: &[String]) {
    let builder = bindgen::Builder::default()
        .header("csrc/shim.h")
        .clang_args(flags)
        .rust_target(match bindgen::RustTarget::stable(85, 0) {
            Ok(target) => target,
            Err(error) => stop(&format!("bindgen does not know Rust 1.85: {error}")),
        })
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate_comments(false)
        .derive_default(false)
        .prepend_enum_name(false)
        .allowlist_function("hnlb_.*")
        .allowlist_function("rte_(eal_(init|cleanup)|thread_(un)?register|get_tsc_hz|version|strerror)")
        .allowlist_function("rte_pktmbuf_(pool_create|free_bulk)|rte_mempool_(avail|in_use)_count")
        .allowlist_function("rte_ring_(create|free)|rte_eth_from_rings")
        .allowlist_function("rte_hash_(create|free|add_key|del_key|lookup|lookup_bulk|free_key_with_position)")
        .allowlist_function("rte_mempool_free|rte_cryptodev_sym_session_free")
        .allowlist_function("rte_dev_(probe|remove|name)|rte_eal_get_runtime_dir")
        .allowlist_function("rte_telemetry_register_cmd|rte_tel_data_start_(dict|array)")
        .allowlist_function("rte_tel_data_add_(dict|array)_string")
        .allowlist_type("rte_tel_value_type")
        .allowlist_var("RTE_TEL_MAX_(STRING_LEN|DICT_ENTRIES|ARRAY_ENTRIES)")
        .allowlist_function("rte_eth_dev_(info_get|configure|start|stop|close|get_port_by_name|is_valid_port|adjust_nb_rx_tx_desc|callback_register|socket_id)")
        .allowlist_function("rte_eth_(rx|tx)_queue_setup|rte_eth_promiscuous_enable|rte_eth_macaddr_get")
        .allowlist_function("rte_eth_(stats_get|xstats_get|xstats_get_names)")
        .allowlist_function("rte_flow_(validate|create|destroy|query|get_aged_flows|configure|push|pull|async_create|async_destroy)")
        .allowlist_function("rte_flow_(pattern_template|actions_template|template_table)_(create|destroy)")
        .allowlist_type("rte_flow_(attr|item|action|error|query_count|item_type|action_type|error_type)")
        .allowlist_type("rte_flow_action_(queue|mark|count|jump|age|rss|port_id|ethdev|raw_encap|raw_decap|modify_field)")
        .allowlist_type("rte_flow_(field_id|modify_op|port_attr|queue_attr|op_attr|op_result|op_status)")
        .allowlist_type("rte_flow_(pattern_template_attr|actions_template_attr|template_table_attr)")
        .allowlist_type("hnlb_.*|rte_eth_event_type|rte_eth_rx_mq_mode")
        .allowlist_var("HNLB_.*|RING_F_.*|RTE_PKTMBUF_HEADROOM|RTE_MAX_ETHPORTS|RTE_MEMPOOL_CACHE_MAX_SIZE")
        .allowlist_var("RTE_HASH_EXTRA_FLAGS_RW_.*|RTE_HASH_LOOKUP_BULK_MAX")
        .allowlist_var("RTE_MAX_QUEUES_PER_PORT|RTE_PMD_RING_MAX_.*")
        // Packed and aligned at once or reached only by pointer: their bytes
        // are enough.
        .opaque_type("rte_arp_hdr|rte_arp_ipv4|rte_l2tpv2_.*|rte_gtp_psc_.*|rte_ether_hdr")
        .opaque_type("rte_mbuf|rte_mempool|rte_ring|rte_device|rte_hash|rte_crypto_op");
    let out = match std::env::var("OUT_DIR") {
        Ok(out) => PathBuf::from(out),
        Err(error) => stop(&format!("cargo did not set OUT_DIR: {error}")),
    };
    match builder.generate() {
        Ok(bindings) => {
            if let Err(error) = bindings.write_to_file(out.join("bindings.rs")) {
                stop(&format!("the bindings can't be written: {error}"));
            }
        }
        Err(error) => stop(&format!(
            "bindgen could not read DPDK's headers (on Debian: apt-get install libclang-dev clang): {error}"
        )),
    }
}

/// Ends the build with `message`, without the backtrace of a panic.
fn stop(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    exit(1)
}
