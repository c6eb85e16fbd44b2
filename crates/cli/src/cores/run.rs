//! `curtail run`: a program of threads, told where the core allocator is.

use super::{become_program, command};
use crate::failure::Failure;
use clap::Args;
use curtail_shm::session;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `curtail run`.
#[derive(Args)]
#[command(after_help = "\
The program finds $CURTAILD and $CURTAIL_KTHREADS in its environment. Without a core allocator it
runs with its own kthreads on the cores that it has.

With --pthreads, any dynamically linked program of pthreads runs on Curtail's threads: see the page
\"Run your program of threads\".")]
pub(crate) struct Run {
    /// The socket of the core allocator [default: $CURTAILD, or else the usual place]
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Kthreads of the program: cores that it can use at a time, at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60))]
    kthreads: Option<u32>,
    /// The program is one of pthreads: its threads are to be Curtail's
    #[arg(long)]
    pthreads: bool,
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
        if self.pthreads {
            command.env("LD_PRELOAD", preloaded(&pthread_library()?));
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

/// The library that runs programs of pthreads: in `$CURTAIL_HOME`, beside this command, or where packages
/// have it.
pub(crate) fn pthread_library() -> Result<PathBuf, Failure> {
    const NAME: &str = "libcurtail_pthread.so";
    let beside = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let beside = beside.and_then(|exe| exe.parent().map(Path::to_owned));
    let home = std::env::var_os("CURTAIL_HOME").map(PathBuf::from);
    let homes = home.iter().flat_map(|home| [home.join(NAME), home.join("lib/curtail").join(NAME)]);
    let own = |bin: &PathBuf| [bin.join(NAME), bin.join("../lib/curtail").join(NAME)];
    let places: Vec<PathBuf> = homes.chain(beside.iter().flat_map(own)).collect();
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        let text = places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>();
        Failure::failed(format!("no {}: `./x build` makes it", text.join(", ")))
    })
}

/// What is to be loaded before all others: that library, and what the user has.
fn preloaded(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
