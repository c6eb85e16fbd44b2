//! Programs under a core allocator (`curtaild`): `curtail batch` and `curtail run`. Both become the
//! program that they start, so that its exit status, signals and descriptors are its own.

mod batch;
mod run;

pub(crate) use batch::Batch;
pub(crate) use run::{Run, pthread_library};

use crate::failure::Failure;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The program and its arguments. They come last, with or without `--` before them.
fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Becomes the program; comes back only if that fails.
fn become_program(mut command: Command) -> Failure {
    let error = command.exec();
    Failure::failed(format!("{}: {error}", command.get_program().to_string_lossy()))
}
