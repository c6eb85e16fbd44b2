//! What the daemon and its helpers do to kernel threads, their own and other programs': where they
//! run, how they rank, and the signal of an eviction. All of it needs no rights but those of the
//! same user.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;

/// Sent to a kthread that has not followed an eviction in time ([`crate::Ask::Evict`]).
///
/// Its handler makes the kthread look at its word at its next safepoint; in a program without a
/// handler the signal does nothing (which is why it is this one), and the next rung of the ladder
/// follows.
pub const EVICT_SIGNAL: i32 = libc::SIGURG;

/// In the environment of a batch program: the number of the descriptor of the board that it has
/// inherited, to be mapped by [`crate::BoardView::map`]. Its threads follow the orders of the core
/// that they are on.
pub const BOARD_FD_VARIABLE: &str = "CURTAIL_BOARD_FD";

/// Whether the thread is one of that process, which has not been waited for yet.
#[must_use]
pub fn is_thread_of(pid: Pid, tid: u32) -> bool {
    signal(pid, tid, 0).is_ok()
}

/// Sends [`EVICT_SIGNAL`] to a thread of that process.
///
/// # Errors
/// Where it is none of that process (ESRCH), or another user's.
pub fn ask_by_signal(pid: Pid, tid: u32) -> io::Result<()> {
    signal(pid, tid, EVICT_SIGNAL)
}

fn signal(pid: Pid, tid: u32, number: i32) -> io::Result<()> {
    let tid = i32::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: takes numbers only. A signal that is sent does nothing to this process's memory.
    match unsafe { libc::syscall(libc::SYS_tgkill, pid.as_raw_nonzero().get(), tid, number) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The thread of that process runs on these cores (the kernel's numbers) only.
///
/// # Errors
/// Where it is none of that process (ESRCH), or the system says no.
pub fn pin_thread_of(pid: Pid, tid: u32, cpus: &[u32]) -> io::Result<()> {
    // The number of a thread that has ended may be another process's thread by now. What remains
    // is the time between this check and the call.
    signal(pid, tid, 0)?;
    let tid = Pid::from_raw(tid as i32).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(sched_setaffinity(Some(tid), &set_of(cpus))?)
}

/// The calling thread runs on these cores only, and so do the threads and programs that it starts.
///
/// # Errors
/// Where none of them exists or is allowed.
pub fn pin_this_thread(cpus: &[u32]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &set_of(cpus))?)
}

fn set_of(cpus: &[u32]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < CpuSet::MAX_CPU) {
        set.set(cpu as usize);
    }
    set
}

/// The cores that the calling thread may run on.
///
/// # Errors
/// What the system says.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// The calling thread ranks below all others (`SCHED_IDLE`): the kernel takes its core away as soon
/// as a thread that is not of that class wants it. Threads and programs that it starts inherit it.
///
/// # Errors
/// What the system says.
pub fn rank_last() -> io::Result<()> {
    rank(0)
}

/// Makes a thread of that process the last in rank.
///
/// # Errors
/// Where it is none of that process (ESRCH), or the system says no.
pub fn rank_thread_last(pid: Pid, tid: u32) -> io::Result<()> {
    signal(pid, tid, 0)?;
    rank(tid as i32)
}

fn rank(tid: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameter` lives during the call, which reads it.
    match unsafe { libc::sched_setscheduler(tid, libc::SCHED_IDLE, &raw const parameter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_the_process_are_touched() {
        let own = rustix::process::getpid();
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert!(is_thread_of(own, tid));
        let parent = rustix::process::getppid().unwrap();
        for other in [0, u32::MAX, parent.as_raw_nonzero().get() as u32] {
            assert!(!is_thread_of(own, other), "{other}");
            assert!(ask_by_signal(own, other).is_err(), "{other}");
            assert!(pin_thread_of(own, other, &[0]).is_err(), "{other}");
            assert!(rank_thread_last(own, other).is_err(), "{other}");
        }
        // No handler: nothing happens.
        ask_by_signal(own, tid).unwrap();
    }

    #[test]
    fn a_thread_is_pinned_and_ranked_and_others_are_not() {
        let all = allowed_cpus().unwrap();
        let (own, first) = (rustix::process::getpid(), all[0]);
        std::thread::spawn(move || {
            pin_this_thread(&[first]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [first]);
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            rank_thread_last(own, tid).unwrap();
            rank_last().unwrap();
            // SAFETY: takes a number only.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_IDLE);
            assert!(pin_this_thread(&[]).is_err());
            assert!(pin_thread_of(own, tid, &[u32::MAX]).is_err());
        })
        .join()
        .unwrap();
        assert_eq!(allowed_cpus().unwrap(), all);
    }
}
