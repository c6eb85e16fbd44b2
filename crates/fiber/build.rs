//! Compiles `native/`: the safepoint's thread-local block, stub, slow path and timing mode.
//!
//! Always with a plain compiler and without LTO or instrumentation, whatever `CC` and `CFLAGS` say:
//! when a program is built by `cargo curtail`, those name the instrumenting driver, and a safepoint
//! within the safepoint would never end.

use std::{env, process::Command};

/// `safepoint.c` and `kind_flag.c` both define the block: a linker that needs it takes it from the first.
const SOURCES: &[&str] = &[
    "safepoint.c",
    "state.c",
    "timing.c",
    "batch.c",
    "pace.c",
    "long_calls.c",
    "kind_clock.c",
    "kind_flag.c",
    "stub.S",
];

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=include");
    let target = env::var("TARGET").unwrap_or_default();
    if target != "x86_64-unknown-linux-gnu" {
        println!("cargo::error=curtail runs on x86_64-unknown-linux-gnu, not on {target}");
        return;
    }
    let Some(compiler) = compiler("CURTAIL_NATIVE_CC", &["gcc", "clang", "cc"]) else {
        println!("cargo::error=no C compiler: install gcc or clang, or set CURTAIL_NATIVE_CC");
        return;
    };
    // The `cc` crate would add these to every command line.
    let own = target.replace('-', "_");
    let flags = ["CFLAGS", "TARGET_CFLAGS", "CXXFLAGS", "TARGET_CXXFLAGS"].map(str::to_owned);
    for name in flags.into_iter().chain([format!("CFLAGS_{own}"), format!("CXXFLAGS_{own}")]) {
        // SAFETY: a build script has one thread at this point.
        unsafe { env::remove_var(name) };
    }
    let mut build = cc::Build::new();
    build
        .compiler(compiler)
        .no_default_flags(true)
        .inherit_rustflags(false)
        .files(SOURCES.iter().map(|name| format!("native/{name}")))
        .include("include")
        .flag("-std=gnu11")
        .flag("-O2")
        .flag("-g1")
        .flag("-fPIC")
        .flag("-fno-lto")
        .flag("-mgeneral-regs-only")
        .flag("-fasynchronous-unwind-tables")
        .flag("-fno-stack-protector")
        .flag("-fno-instrument-functions")
        .flag("-fno-sanitize=all")
        // Valid in executables (where the linker makes it local-exec) and in shared objects.
        .flag("-ftls-model=initial-exec")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror=implicit-function-declaration")
        .compile("curtail_safepoint");
    if env::var_os("CARGO_FEATURE_CXX").is_some() {
        compile_cxx();
    }
}

/// The edge for C++ exceptions.
fn compile_cxx() {
    let Some(compiler) = compiler("CURTAIL_NATIVE_CXX", &["g++", "clang++", "c++"]) else {
        println!("cargo::error=no C++ compiler: install g++ or clang, or set CURTAIL_NATIVE_CXX");
        return;
    };
    cc::Build::new()
        .compiler(compiler)
        .cpp(true)
        .no_default_flags(true)
        .inherit_rustflags(false)
        .file("native/contain.cc")
        .flags(["-std=c++17", "-O2", "-g1", "-fPIC", "-fno-lto", "-Wall", "-Wextra"])
        .compile("curtail_contain");
}

/// The first plain compiler that runs: the one that `variable` names, or one of `usual`.
fn compiler(variable: &str, usual: &[&str]) -> Option<String> {
    println!("cargo::rerun-if-env-changed={variable}");
    let chosen = env::var(variable).ok();
    let names = chosen.as_deref().map_or(usual.to_vec(), |name| vec![name]);
    let runs = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    names.into_iter().find(runs).map(str::to_owned)
}
