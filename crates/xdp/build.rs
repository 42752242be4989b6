//! Compiles the XDP programs with clang. They include nothing of the system.
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    let clang = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang".to_owned());
    let out = PathBuf::from(std::env::var("OUT_DIR").map_err(|e| format!("OUT_DIR: {e}"))?);
    for name in ["gate", "up", "forward", "bench", "unbounded"] {
        let status = Command::new(&clang)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
            .args(["-nostdinc", "-c", &format!("bpf/{name}.c"), "-o"])
            .arg(out.join(format!("{name}.o")))
            .status()
            .map_err(|e| format!("cannot run {clang}: {e}; install clang 14 or later"))?;
        if !status.success() {
            return Err(format!("{clang} could not compile crates/xdp/bpf/{name}.c"));
        }
    }
    Ok(())
}
