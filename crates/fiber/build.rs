//! Compiles `native/`: the safepoint's thread-local block, stub, slow path and timing mode.
//!
//! Always with a plain compiler and without LTO or instrumentation, whatever `CC` and `CFLAGS` say:
//! when a program is built by `cargo curtail`, those name the instrumenting driver, and a safepoint
//! within the safepoint would never end.

use std::{env, process::Command};

const SOURCES: &[&str] =
    &["safepoint.c", "state.c", "timing.c", "kind_clock.c", "kind_flag.c", "stub.S"];

fn main() {
    println!("cargo::rerun-if-changed=native");
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-env-changed=CURTAIL_NATIVE_CC");
    let target = env::var("TARGET").unwrap_or_default();
    if target != "x86_64-unknown-linux-gnu" {
        println!("cargo::error=curtail runs on x86_64-unknown-linux-gnu, not on {target}");
        return;
    }
    let Some(compiler) = compiler() else {
        println!("cargo::error=no C compiler: install gcc or clang, or set CURTAIL_NATIVE_CC");
        return;
    };
    // The `cc` crate would add these to every command line.
    for name in ["CFLAGS", "TARGET_CFLAGS", &format!("CFLAGS_{}", target.replace('-', "_"))] {
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
}

/// The first plain compiler that runs.
fn compiler() -> Option<String> {
    let chosen = env::var("CURTAIL_NATIVE_CC").ok();
    let mut names = chosen.as_deref().map_or(vec!["gcc", "clang", "cc"], |name| vec![name]);
    names.retain(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    names.first().map(|name| (*name).to_owned())
}
