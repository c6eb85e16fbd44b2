//! Programs of pthreads in C: each says the same on the kernel's threads and on Curtail's.

mod limits;
mod same;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The library of this build: Cargo leaves it beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().join("libcurtail_pthread.so");
    assert!(beside.exists(), "Cargo built {}", beside.display());
    beside
}

/// A program of `tests/programs`.
struct Program {
    path: PathBuf,
    _scratch: TempDir,
}

impl Program {
    fn compile(source: &str) -> Self {
        let scratch = TempDir::new().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source);
        let path = scratch.path().join(source.file_stem().unwrap());
        let mut command = Command::new("cc");
        command.args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-Werror",
            "-pthread",
        ]);
        command.arg(&source).arg("-o").arg(&path);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { path, _scratch: scratch }
    }

    /// `timeout` turns a hang into a failure: no figure is judged by it.
    fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command.arg("60").arg(&self.path);
        command
    }

    fn run_native(&self) -> Output {
        self.command().output().unwrap()
    }

    fn run(&self, kthreads: u32) -> Output {
        let mut command = self.command();
        command.env("LD_PRELOAD", library()).env("CURTAIL_KTHREADS", kthreads.to_string());
        command.env("CURTAIL_QUIET", "1").env_remove("CURTAILD").output().unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
