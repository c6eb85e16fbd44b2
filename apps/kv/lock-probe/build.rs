//! Compiles the probe as a C++ application would be, with the environment's compiler and flags.

fn main() {
    println!("cargo::rerun-if-changed=src/probe.cc");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .file("src/probe.cc")
        .compile("kv_lock_probe");
}
