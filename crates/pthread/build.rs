//! Compiles `native/`: where a thread's routine is called, and where `pthread_exit` comes back to.
//!
//! By a plain compiler, whatever `CFLAGS` say, as `crates/fiber` does for the same reason.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-env-changed=CURTAIL_NATIVE_CC");
    let compiler = env::var("CURTAIL_NATIVE_CC").unwrap_or_else(|_| "cc".to_owned());
    cc::Build::new()
        .compiler(compiler)
        .no_default_flags(true)
        .inherit_rustflags(false)
        .file("native/start.c")
        .flags(["-std=gnu11", "-O2", "-g1", "-fPIC", "-fno-lto", "-Wall", "-Wextra"])
        .flag("-fasynchronous-unwind-tables")
        .compile("curtail_pthread_start");
}
