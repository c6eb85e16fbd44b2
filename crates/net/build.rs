//! Compiles `native/dpdk.c` where the feature `dpdk` asks for it, and links DPDK's libraries.
//!
//! Always with a plain compiler, whatever `CC` and `CFLAGS` say: transports are never instrumented.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::{env, process::Command};

    /// What is called. Drivers are plugins, which DPDK loads when it starts.
    const LIBRARIES: [&str; 5] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal", "rte_kvargs"];

    pub(super) fn build() {
        println!("cargo::rerun-if-changed=native");
        let Some(flags) = ask(&["--cflags", "libdpdk >= 22.11"]) else {
            println!(
                "cargo::error=the feature `dpdk` needs DPDK 22.11 or later: apt install dpdk-dev"
            );
            return;
        };
        let Some(compiler) = compiler() else {
            println!("cargo::error=no C compiler: install gcc or clang, or set CURTAIL_NATIVE_CC");
            return;
        };
        // The `cc` crate would add these to every command line.
        let own = env::var("TARGET").unwrap_or_default().replace('-', "_");
        for name in ["CFLAGS".to_owned(), "TARGET_CFLAGS".to_owned(), format!("CFLAGS_{own}")] {
            // SAFETY: a build script has one thread at this point.
            unsafe { env::remove_var(name) };
        }
        cc::Build::new()
            .compiler(compiler)
            .no_default_flags(true)
            .inherit_rustflags(false)
            .file("native/dpdk.c")
            .flags(["-std=gnu11", "-O2", "-g1", "-fPIC", "-fno-lto", "-Wall", "-Wextra"])
            .flags(flags.split_ascii_whitespace())
            .compile("curtail_dpdk");
        for word in ask(&["--libs-only-L", "libdpdk"]).unwrap_or_default().split_ascii_whitespace()
        {
            println!("cargo::rustc-link-search=native={}", word.trim_start_matches("-L"));
        }
        for library in LIBRARIES {
            println!("cargo::rustc-link-lib=dylib={library}");
        }
    }

    /// What `pkg-config` says.
    fn ask(words: &[&str]) -> Option<String> {
        println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
        let output = Command::new("pkg-config").args(words).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The first plain compiler that runs.
    fn compiler() -> Option<String> {
        println!("cargo::rerun-if-env-changed=CURTAIL_NATIVE_CC");
        let chosen = env::var("CURTAIL_NATIVE_CC").ok();
        let names = chosen.as_deref().map_or(vec!["gcc", "clang", "cc"], |name| vec![name]);
        let runs = |name: &&str| {
            Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
        };
        names.into_iter().find(runs).map(str::to_owned)
    }
}
