//! `curtail batch`: any program, on what latency-critical ones leave of the managed cores.
//!
//! It registers, ranks itself last (SCHED_IDLE), binds itself to the daemon's cores, and becomes the
//! program, whose threads inherit all that; they float over the cores. The session stays open as long
//! as the program or a child of it has the descriptor. An instrumented program finds the board by
//! [`BOARD_FD_VARIABLE`] and hands cores over at its safepoints.

use super::{become_program, command};
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use curtail_shm::kthreads::{self, BOARD_FD_VARIABLE};
use curtail_shm::session::{self, Session};
use curtail_shm::{BoardView, Class, CoreIndex, Page, Spec};
use object::{Object, ObjectSection};
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::{FdFlags, fcntl_setfd};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// `curtail batch`.
#[derive(Args)]
#[command(after_help = "\
The exit status is the program's. It needs no rights: the program runs at the lowest rank of the
kernel (SCHED_IDLE), on the cores that the core allocator manages, and is never stopped by a signal.
A program that was built by `cargo curtail`, `curtail-cc` or `curtail-c++` gives a core back at its
next safepoint, within about 3us; any other is pre-empted by the kernel, within about 12us.")]
pub(crate) struct Batch {
    /// The socket of the core allocator [default: $CURTAILD, or else the usual place]
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Whether the program gives cores back at safepoints; `auto` looks into its file
    #[arg(long, value_name = "WHETHER", value_enum, default_value = "auto")]
    safepoints: Safepoints,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    words: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Safepoints {
    Auto,
    Yes,
    No,
}

impl Batch {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let program = &self.words[0];
        let looks = match self.safepoints {
            Safepoints::Yes => true,
            Safepoints::No => false,
            Safepoints::Auto => is_instrumented(program),
        };
        let path = self.daemon.clone().unwrap_or_else(session::default_path);
        let class = Class::Batch { looks };
        let page = Page::create(&Spec { class, kthreads: 1, guaranteed: 0, burstable: 0 });
        let page = page.map_err(Failure::failed)?;
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        let (session, welcome) = Session::connect(&path, &name, page.fd()).map_err(|error| {
            Failure::failed(format!(
                "no core allocator at {} ({error}): start one with `curtaild --cores LIST`, or name \
                 its socket with --daemon",
                path.display()
            ))
        })?;
        let board = welcome.board.try_clone().map_err(Failure::failed)?;
        let cpus = cpus(&BoardView::map(board).map_err(Failure::failed)?);
        // In this order: a shell that waits for it does not hang on a core that others have.
        kthreads::pin_this_thread(&cpus).map_err(|error| {
            Failure::failed(format!("cores {cpus:?}, which the core allocator manages: {error}"))
        })?;
        kthreads::rank_last()
            .map_err(|error| Failure::failed(format!("the lowest rank, SCHED_IDLE: {error}")))?;
        warn_of_groups(&session);
        let mut command = command(&self.words);
        command.env(BOARD_FD_VARIABLE, welcome.board.as_raw_fd().to_string());
        for fd in [session.as_fd(), welcome.board.as_fd()] {
            fcntl_setfd(fd, FdFlags::empty())
                .map_err(|error| Failure::failed(format!("a descriptor to inherit: {error}")))?;
        }
        Err(become_program(command))
    }
}

fn cpus(board: &BoardView) -> Vec<u32> {
    (0..board.cores()).filter_map(|core| board.cpu(CoreIndex(core))).collect()
}

/// SCHED_IDLE ranks within a group of the kernel's scheduler only, and each login session is one,
/// where `sched_autogroup_enabled` says so. The daemon stands for the programs that it serves.
fn warn_of_groups(session: &Session) {
    let group = |process: &str| {
        let text = fs::read_to_string(format!("/proc/{process}/autogroup")).ok()?;
        text.split_whitespace().next().map(str::to_owned)
    };
    let enabled = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    if enabled.is_ok_and(|text| text.trim() == "0") {
        return;
    }
    let Ok((daemon, _)) = session.peer() else { return };
    let daemon = group(&daemon.as_raw_nonzero().to_string());
    if let (Some(own), Some(daemon)) = (group("self"), daemon)
        && own != daemon
    {
        say!(
            "curtail: note: the core allocator runs in another session, against which the kernel \
             does not rank this program last: start all from one session, or see `curtail doctor`"
        );
    }
}

/// Whether the pass left its notes in the program's file.
fn is_instrumented(program: &OsStr) -> bool {
    let Some(bytes) = find(program).and_then(|path| fs::read(path).ok()) else { return false };
    let Ok(file) = object::File::parse(&*bytes) else { return false };
    file.sections().any(|section| section.name() == Ok(".curtail.functions"))
}

/// The file that `exec` would take.
fn find(program: &OsStr) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Some(program.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}
