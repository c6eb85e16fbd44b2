//! Small programs in assembly, linked by the system's compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// What every program has: the thread-local block, the slow path, a way in.
const PRELUDE: &str = include_str!("prelude.s");

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A directory that goes when this does.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("curtail-verify-{}-{serial}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Assembles and links; the program's bytes. `body` must define the function `f`.
pub(crate) fn program(body: &str, flags: &[&str]) -> Vec<u8> {
    let scratch = Scratch::new();
    let source = scratch.path().join("program.s");
    let output = scratch.path().join("program");
    std::fs::write(&source, format!("{}\n{body}\n", PRELUDE)).expect("written");
    let built = Command::new("cc")
        .args(["-nostdlib", "-nostartfiles", "-Wl,--build-id=none"])
        .args(if flags.is_empty() { &["-static", "-no-pie"][..] } else { flags })
        .arg("-o")
        .args([&output, &source])
        .output()
        .expect("cc runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::read(&output).expect("linked")
}
