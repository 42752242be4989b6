//! Finds libndpi with pkg-config and compiles the shim.

fn main() {
    println!("cargo::rerun-if-changed=csrc");
    let library = match pkg_config::Config::new().atleast_version("4.2").probe("libndpi") {
        Ok(library) => library,
        Err(error) => {
            eprintln!(
                "libndpi 4.2 or later was not found by pkg-config.\n\
                 On Debian and Ubuntu: apt-get install libndpi-dev\n\n{error}"
            );
            std::process::exit(1);
        }
    };
    cc::Build::new()
        .file("csrc/shim.c")
        .includes(&library.include_paths)
        .flag("-std=gnu11")
        .warnings(true)
        .compile("hnlb_ndpi");
}
