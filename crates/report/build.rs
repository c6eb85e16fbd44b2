//! Notes which compiler builds this, for [`Machine`]'s `rustc` and `llvm`. Unknown is no error.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output().map(|o| o.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    for (key, variable) in
        [("release: ", "CURTAIL_REPORT_RUSTC"), ("LLVM version: ", "CURTAIL_REPORT_LLVM")]
    {
        let value = said.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("");
        println!("cargo::rustc-env={variable}={value}");
    }
}
