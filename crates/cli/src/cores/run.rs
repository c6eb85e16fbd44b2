//! `curtail run`: a program of threads, told where the core allocator is.

use super::{become_program, command};
use crate::failure::Failure;
use clap::Args;
use curtail_shm::session;
use std::ffi::OsString;
use std::path::PathBuf;

/// `curtail run`.
#[derive(Args)]
#[command(after_help = "\
The program finds $CURTAILD and $CURTAIL_KTHREADS in its environment. Without a core allocator it
runs with its own kthreads on the cores that it has.")]
pub(crate) struct Run {
    /// The socket of the core allocator [default: $CURTAILD, or else the usual place]
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Kthreads of the program: cores that it can use at a time, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60))]
    kthreads: Option<u32>,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    words: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut command = command(&self.words);
        if let Some(kthreads) = self.kthreads {
            command.env("CURTAIL_KTHREADS", kthreads.to_string());
        }
        let path = self.daemon.clone().unwrap_or_else(session::default_path);
        if path.exists() {
            command.env("CURTAILD", &path);
        } else if self.daemon.is_some() {
            say!("curtail: note: no core allocator at {}: it runs without", path.display());
        }
        Err(become_program(command))
    }
}
