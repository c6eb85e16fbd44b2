//! What a core allocator (`curtaild`) can do here: for the programs of one user, without rights.

use super::Finding;
use curtail_shm::session::{self, Session};
use curtail_shm::{Board, kthreads};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};
use std::fs;
use std::time::Duration;

pub(super) fn all() -> Vec<Finding> {
    vec![places(), rank(), sessions(), groups(), means(), rseq(), daemon()]
}

fn list(cpus: &[u32]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn places() -> Finding {
    let what = "shared cores";
    let cpus = kthreads::allowed_cpus().unwrap_or_default();
    let here = format!("{} allowed", cpus.len());
    match cpus.split_first() {
        Some((own, managed)) if !managed.is_empty() => {
            let used = format!("curtaild --cores {}: itself on core {own}", list(managed));
            Finding::good(what, here, used)
        }
        _ => Finding::poor(
            what,
            here,
            "curtaild takes turns with the programs that it serves",
            "two cores or more: one for curtaild and the system",
        ),
    }
}

/// What `ulimit -e` must be for leaving SCHED_IDLE for the usual class at its usual rank.
const USUAL_RANK: u64 = 20;
const CAP_SYS_NICE: u32 = 23;

fn rank() -> Finding {
    let what = "lowest rank";
    // A thread of its own, which ends with that rank.
    let ranked = std::thread::spawn(kthreads::rank_last).join();
    if let Ok(Err(error)) | Err(error) =
        ranked.map_err(|_| std::io::Error::other("the thread has ended"))
    {
        let used = "batch programs compete with services as equals";
        let better = "a system that lets programs lower their rank (seccomp filters may not)";
        return Finding::poor(what, format!("SCHED_IDLE is refused: {error}"), used, better);
    }
    let limit = getrlimit(Resource::Nice).current.is_none_or(|limit| limit >= USUAL_RANK);
    if limit || has_capability(CAP_SYS_NICE) {
        let used = "curtail batch; the user may raise a program's rank again";
        return Finding::good(what, "SCHED_IDLE can be set, and left", used);
    }
    let mut finding = Finding::good(what, "SCHED_IDLE can be set, not left", "curtail batch");
    finding.better =
        "CAP_SYS_NICE, or a nice limit of 20 (limits.conf): a program that has become \
                      batch could be made a service again"
            .to_owned();
    finding
}

fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> number & 1 == 1)
}

/// SCHED_IDLE is a rank within a group of the scheduler. Each login session may be one.
fn sessions() -> Finding {
    let what = "sessions";
    let enabled = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    if !enabled.is_ok_and(|text| text.trim() == "1") {
        return Finding::good(what, "all sessions are ranked together", "");
    }
    Finding::poor(
        what,
        "sched_autogroup: the lowest rank counts within a session only",
        "curtail batch warns where curtaild runs in another session",
        "start curtaild, services and batch from one session, or (root) sysctl \
         kernel.sched_autogroup_enabled=0",
    )
}

/// Control groups are groups, too.
fn groups() -> Finding {
    let what = "control group";
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut groups = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let of_cpu = controllers.is_empty() || controllers.split(',').any(|name| name == "cpu");
        (of_cpu && path != "/").then_some(path)
    });
    match groups.next() {
        None => Finding::good(what, "the root's", ""),
        Some(path) => {
            let mut finding = Finding::good(
                what,
                path,
                "ranks count within it: start services and batch in the same one",
            );
            finding.better =
                "where they can't be: cpu.idle = 1 for the group of the batch programs (root)"
                    .to_owned();
            finding
        }
    }
}

fn means() -> Finding {
    let what = "curtaild's means";
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty()).map_err(std::io::Error::from);
    let board = Board::create(&[0], 1, Duration::from_micros(5));
    match (pidfd, board) {
        (Ok(_), Ok(_)) => Finding::good(what, "pidfd, sealed memory", "all of it"),
        (pidfd, board) => {
            let no = |error: Option<std::io::Error>| {
                error.map_or_else(|| "yes".to_owned(), |error| error.to_string())
            };
            let here = format!("pidfd: {}, sealed memory: {}", no(pidfd.err()), no(board.err()));
            Finding::poor(what, here, "curtaild can't serve", "Linux 5.3 or later")
        }
    }
}

/// In the auxiliary vector, since Linux 6.3.
const AT_RSEQ_FEATURE_SIZE: u64 = 27;

fn rseq() -> Finding {
    let what = "rseq";
    let vector = fs::read("/proc/self/auxv").unwrap_or_default();
    let words = vector.as_chunks::<16>().0.iter();
    let mut keys = words.map(|pair| u64::from_ne_bytes(*pair.first_chunk().expect("16 bytes")));
    if keys.any(|key| key == AT_RSEQ_FEATURE_SIZE) {
        return Finding::good(what, "yes", "batch threads know their core without a call");
    }
    let used = "batch threads ask the kernel what core they are on";
    Finding::poor(what, "unknown", used, "Linux 6.3 and glibc 2.35, or later")
}

fn daemon() -> Finding {
    let what = "core allocator";
    let path = session::default_path();
    match Session::status(&path) {
        Ok(_) => Finding::good(
            what,
            format!("runs, at {}", path.display()),
            "curtail run, curtail batch; curtaild --status says what it does",
        ),
        Err(_) => {
            let mut finding = Finding::good(
                what,
                format!("none at {}", path.display()),
                "programs run on cores of their own",
            );
            finding.better = "curtaild --cores LIST: services and batch share cores".to_owned();
            finding
        }
    }
}
