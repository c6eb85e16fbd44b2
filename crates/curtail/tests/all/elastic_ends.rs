//! Kthreads under a core allocator, which the tests play: their program forks, and one of them is
//! stuck.

use crate::daemon;

use curtail::{Runtime, Stall, Thread, park, spawn, yield_now};
use curtail_shm::kthreads::{allowed_cpus, pin_thread_of};
use daemon::{Daemon, socket, until};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the child saw, as its status.
const ALL_CORES: i32 = 3;
const FEW_CORES: i32 = 5;

/// The status of a child that wakes `other` and ends; `cores`: on how many its parent began.
fn forked(other: &Thread, cores: usize) -> i32 {
    // SAFETY: the child only does what is done here, and ends.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1);
    if child == 0 {
        other.unpark();
        let found = allowed_cpus().map_or(0, |found| found.len());
        // SAFETY: ends the child.
        unsafe { libc::_exit(if found == cores { ALL_CORES } else { FEW_CORES }) };
    }
    let mut status = 0;
    // SAFETY: our child, and a word for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

#[test]
fn a_child_writes_neither_its_parents_page_nor_keeps_its_core() {
    let path = socket("forks");
    let daemon = Daemon::at(&path);
    let cores = allowed_cpus().unwrap();
    let count = cores.len();
    let (tell, told) = sync_channel(1);
    let goes_on = Arc::new([const { AtomicBool::new(false) }; 2]);
    let go_on = goes_on.clone();
    let builder = Runtime::builder().kthreads(1).watchdog(None).daemon(&path);
    let body = move || {
        let wait = |at: usize| {
            while !goes_on[at].load(Ordering::Relaxed) {
                yield_now();
            }
        };
        let parks = spawn(park);
        yield_now();
        wait(0);
        tell.send(forked(&parks.thread(), count)).unwrap();
        wait(1);
        parks.thread().unpark();
        parks.join().unwrap();
    };
    let program = std::thread::spawn(move || builder.run(body));
    let guest = daemon.take(0);
    daemon.run(&guest, 0);
    pin_thread_of(rustix::process::getpid(), guest.look(0).tid, &cores[..1]).unwrap();
    go_on[0].store(true, Ordering::Relaxed);
    let status = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(status, ALL_CORES, "the child keeps to the core that its parent was granted");
    // It took out of its inbox what its own threads put in, and so far none did.
    assert_eq!(guest.look(0).inbox, (0, 0), "the child wrote its parent's page");
    go_on[1].store(true, Ordering::Relaxed);
    until("the program ends", || program.is_finished());
    program.join().unwrap();
}

#[test]
fn a_kthread_that_is_stuck_in_the_kernel_gives_its_core_back() {
    let path = socket("stuck");
    let daemon = Daemon::at(&path);
    let stalls = Arc::new(Mutex::new(Vec::<Stall>::new()));
    let told = stalls.clone();
    let builder = Runtime::builder()
        .kthreads(2)
        .watchdog(Some(Duration::from_millis(20)))
        .on_stall(move |stall| told.lock().unwrap().push(stall.clone()))
        .daemon(&path);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let (ran, is_back) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (runs, back) = (ran.clone(), is_back.clone());
    let ends = Arc::new(AtomicBool::new(false));
    let end = ends.clone();
    let program = std::thread::spawn(move || {
        builder.run(move || {
            for _ in 0..5 {
                let runs = runs.clone();
                drop(spawn(move || runs.fetch_add(1, Ordering::Relaxed)));
            }
            // A call that Curtail knows nothing of: the kthread is stuck.
            assert_eq!(raw_read(&theirs), 1);
            back.store(true, Ordering::Relaxed);
            while !end.load(Ordering::Relaxed) {
                yield_now();
            }
        });
    });
    let guest = daemon.take(0);
    let word = daemon.run(&guest, 0);
    until("the watchdog tells of it", || !stalls.lock().unwrap().is_empty());
    guest.until_parked(0, word);
    assert_eq!(ran.load(Ordering::Relaxed), 0, "the other kthread has no core");
    // Its queue goes on elsewhere.
    daemon.grant(&guest, 1);
    until("the others run", || ran.load(Ordering::Relaxed) == 5);
    assert!(stalls.lock().unwrap().iter().all(|stall| stall.kthread == 0), "the other one parks");
    // It comes back, and parks at its next look: its thread goes on where there is a core again.
    ours.write_all(&[7]).unwrap();
    until("the call returns", || is_back.load(Ordering::Relaxed));
    until("its thread waits for a core", || guest.has_ready(0));
    assert!(guest.is_parked(0, word));
    ends.store(true, Ordering::Relaxed);
    daemon.grant(&guest, 1);
    until("the program ends", || program.is_finished());
    program.join().unwrap();
}

/// Waits for a byte in the kernel.
fn raw_read(stream: &UnixStream) -> i64 {
    use std::os::fd::AsRawFd;
    let mut byte = 0_u8;
    let result: i64;
    // SAFETY: read(2) of one byte into `byte`, by the instruction itself: no function of the C
    // library that Curtail could have in its place.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_read => result,
            in("rdi") stream.as_raw_fd() as i64,
            in("rsi") &raw mut byte,
            in("rdx") 1_i64,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}

#[test]
fn a_daemon_that_stops_is_left_until_it_goes_on() {
    let path = socket("stops");
    let daemon = Daemon::at(&path);
    daemon.board.beat(1);
    let builder = Runtime::builder().kthreads(2).watchdog(None).daemon(&path);
    let (ran, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (runs, end) = (ran.clone(), ends.clone());
    let program = std::thread::spawn(move || {
        builder.run(move || {
            while !end.load(Ordering::Relaxed) {
                spawn(move || ()).join().unwrap();
                runs.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    let guest = daemon.take(0);
    // No kthread was granted a core. The daemon does not beat: all of them run without it.
    until("the program goes on by itself", || ran.load(Ordering::Relaxed) > 10);
    // It goes on: the program leaves the session, and registers again.
    daemon.board.beat(2);
    let again = daemon.take(2);
    drop(guest);
    ends.store(true, Ordering::Relaxed);
    until("the program ends", || {
        daemon.board.beat(curtail_shm::monotonic_ns());
        daemon.grant(&again, 0);
        daemon.grant(&again, 1);
        program.is_finished()
    });
    program.join().unwrap();
}
