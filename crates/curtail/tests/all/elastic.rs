//! Kthreads under a core allocator, which the tests play.

use crate::daemon;

use curtail::{Runtime, RuntimeBuilder, park, spawn, yield_now};
use daemon::{Daemon, socket, until};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

fn under(path: &Path, kthreads: usize) -> RuntimeBuilder {
    Runtime::builder().kthreads(kthreads).watchdog(None).daemon(path)
}

/// Runs `f` in a runtime of so many kthreads under the daemon, on a thread of its own.
fn program<T: Send + 'static>(
    path: &Path,
    kthreads: usize,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let builder = under(path, kthreads);
    std::thread::spawn(move || builder.run(f))
}

/// A program of one kthread, whose first thread parks again and again until it has been told to end.
/// What it is told by: its thread's handle.
fn parks(path: &Path, ends: &Arc<AtomicBool>) -> (JoinHandle<usize>, Receiver<curtail::Thread>) {
    let (tell, told) = sync_channel(1);
    let ends = ends.clone();
    let body = move || {
        tell.send(curtail::current()).unwrap();
        let mut turns = 0;
        while !ends.load(Ordering::Relaxed) {
            park();
            turns += 1;
        }
        turns
    };
    (program(path, 1, body), told)
}

#[test]
fn a_kthread_gets_a_core_parks_and_gets_one_again() {
    let path = socket("gets");
    let daemon = Daemon::at(&path);
    let ends = Arc::new(AtomicBool::new(false));
    let (program, told) = parks(&path, &ends);
    let guest = daemon.take(3);
    // Before the first grant: the first thread is there, and no core to run it.
    let first = daemon.board.park(guest.slot(0));
    daemon.board.wake(guest.slot(0));
    guest.until_parked(0, first);
    let look = guest.look(0);
    assert_eq!((look.stranded, look.run.1.wrapping_sub(look.run.0)), (1, 1));
    assert!(look.tid > 0 && told.try_recv().is_err());
    let mut word = daemon.grant(&guest, 0);
    let thread = told.recv_timeout(SOON).unwrap();
    for turn in 0..10 {
        // It has nothing to do, and says so; that is no reason to take a core by itself.
        guest.until_parked(0, word);
        assert_eq!((guest.look(0).stranded, guest.has_mail(0)), (0, false));
        if turn == 9 {
            ends.store(true, Ordering::Relaxed);
        }
        thread.unpark();
        assert!(guest.has_mail(0) && guest.look(0).is_parked, "it waits for a core");
        word = daemon.grant(&guest, 0);
    }
    assert_eq!(ended(program), 10);
    assert!(guest.has_left());
}

/// What the program ends with.
fn ended<T>(program: JoinHandle<T>) -> T {
    until("the program ends", || program.is_finished());
    program.join().unwrap()
}

/// Threads that yield to each other until they are told to end.
fn yields(path: &Path, ends: &Arc<AtomicBool>, turns: &Arc<AtomicUsize>) -> JoinHandle<()> {
    let (ends, turns) = (ends.clone(), turns.clone());
    let body = move || {
        let go_on = move || {
            while !ends.load(Ordering::Relaxed) {
                turns.fetch_add(1, Ordering::Relaxed);
                yield_now();
            }
        };
        let other = spawn(go_on.clone());
        go_on();
        other.join().unwrap();
    };
    program(path, 1, body)
}

#[test]
fn an_evicted_kthread_parks_and_wakes_its_heir() {
    let path = socket("evicted");
    let daemon = Daemon::at(&path);
    let (ends, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let program = yields(&path, &ends, &turns);
    let guest = daemon.take(0);
    daemon.grant(&guest, 0);
    // The heir, of another program: it was granted the core, and sleeps until it is woken.
    let heir = curtail_shm::Slot(9);
    let granted = daemon.board.grant(heir, curtail_shm::CoreIndex(0));
    let view = daemon.view();
    let (ready, is_ready) = sync_channel(0);
    let sleeper = std::thread::spawn(move || {
        ready.send(()).unwrap();
        view.sleep(heir, granted, None);
    });
    is_ready.recv().unwrap();
    for _ in 0..20 {
        let before = turns.load(Ordering::Relaxed);
        until("threads run", || turns.load(Ordering::Relaxed) > before + 100);
        let word = daemon.board.evict(guest.slot(0), Some(heir), 0);
        guest.until_parked(0, word);
        let look = guest.look(0);
        let queued = look.run.1.wrapping_sub(look.run.0);
        assert!((1..=2).contains(&look.stranded) && queued == look.stranded, "{look:?}");
        let stood = turns.load(Ordering::Relaxed);
        daemon.run(&guest, 0);
        assert!(turns.load(Ordering::Relaxed) >= stood);
        if sleeper.is_finished() {
            break;
        }
    }
    ended(sleeper);
    ends.store(true, Ordering::Relaxed);
    ended(program);
}

#[test]
fn threads_that_have_not_started_go_to_another_kthread() {
    let path = socket("stolen");
    let daemon = Daemon::at(&path);
    let ran = Arc::new(AtomicUsize::new(0));
    let program = program(&path, 2, {
        let ran = ran.clone();
        move || {
            for _ in 0..20 {
                let ran = ran.clone();
                drop(spawn(move || ran.fetch_add(1, Ordering::Relaxed)));
            }
            // It neither blocks nor yields: the others have to run elsewhere.
            let begun = Instant::now();
            while ran.load(Ordering::Relaxed) < 20 && begun.elapsed() < SOON {
                std::hint::spin_loop();
            }
        }
    });
    let guest = daemon.take(0);
    daemon.grant(&guest, 0);
    until("the queue is seen", || {
        let (head, tail) = guest.look(0).run;
        tail.wrapping_sub(head) == 20
    });
    assert!(guest.look(1).is_parked, "no kthread takes a core by itself");
    daemon.grant(&guest, 1);
    ended(program);
    assert_eq!(ran.load(Ordering::Relaxed), 20);
    let sum =
        |end: fn((u32, u32)) -> u32| end(guest.look(0).run).wrapping_add(end(guest.look(1).run));
    assert_eq!(sum(|run| run.0), sum(|run| run.1), "what was put in was taken out");
}

#[test]
fn batch_threads_ask_for_no_core() {
    let path = socket("inside");
    let daemon = Daemon::at(&path);
    let (ends, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (stop, count) = (ends.clone(), turns.clone());
    let program = program(&path, 2, move || {
        let compute = move || {
            while !stop.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
                curtail::safepoint();
            }
        };
        let batch = |_| curtail::Builder::new().batch().spawn(compute.clone()).unwrap();
        let all: Vec<_> = (0..3).map(batch).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
    });
    let guest = daemon.take(0);
    daemon.grant(&guest, 0);
    for _ in 0..3 {
        let before = turns.load(Ordering::Relaxed);
        until("it has a core and runs them", || turns.load(Ordering::Relaxed) > before + 100);
        let queues = |kthread| {
            let look = guest.look(kthread);
            (look.run.1.wrapping_sub(look.run.0), look.oldest_ready_ns, guest.has_mail(kthread))
        };
        assert_eq!((queues(0), queues(1)), ((0, None, false), (0, None, false)));
        assert!(guest.look(1).is_parked && !guest.look(0).is_parked);
        // It is evicted at a safepoint; it wants the core back, but not at once.
        let word = daemon.board.evict(guest.slot(0), None, 0);
        guest.until_parked(0, word);
        let look = guest.look(0);
        assert_eq!((look.stranded, queues(0)), (0, (0, None, false)));
        assert!(look.next_timer_ns.is_some(), "else they would wait for ever");
        daemon.run(&guest, 0);
    }
    ends.store(true, Ordering::Relaxed);
    ended(program);
}

#[test]
fn timers_and_packets_of_parked_kthreads_are_the_daemons() {
    use std::io::{Read, Write};
    let path = socket("timers");
    let daemon = Daemon::at(&path);
    let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    let program = program(&path, 1, move || {
        curtail::time::sleep(Duration::from_millis(20));
        let mut server = curtail::net::UnixStream::from(server);
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        byte[0]
    });
    let guest = daemon.take(0);
    let mut word = daemon.grant(&guest, 0);
    guest.until_parked(0, word);
    let due = guest.look(0).next_timer_ns.expect("a timer");
    assert!(due > curtail_shm::monotonic_ns() - 1_000_000_000);
    until("it is due", || curtail_shm::monotonic_ns() > due);
    word = daemon.grant(&guest, 0);
    guest.until_parked(0, word);
    until("it has been waited for, and the next wait is a packet's", || {
        if guest.look(0).next_timer_ns.is_none() {
            return true;
        }
        word = daemon.grant(&guest, 0);
        guest.until_parked(0, word);
        false
    });
    assert!(!guest.has_packets(Duration::ZERO));
    client.write_all(&[42]).unwrap();
    assert!(guest.has_packets(SOON) && guest.look(0).is_parked);
    daemon.grant(&guest, 0);
    assert_eq!(ended(program), 42);
}

#[test]
fn packets_of_a_parked_kthread_are_noticed_by_one_that_runs() {
    use std::io::{Read, Write};
    let path = socket("siblings");
    let daemon = Daemon::at(&path);
    let (mut client, server) = std::os::unix::net::UnixStream::pair().unwrap();
    let read = Arc::new(AtomicBool::new(false));
    let started = Arc::new(AtomicBool::new(false));
    let has_started = started.clone();
    // Its threads are to stay where they are.
    let builder = under(&path, 2).light();
    let body = move || {
        let (starts, reads) = (started.clone(), read.clone());
        let reader = spawn(move || {
            starts.store(true, Ordering::Relaxed);
            let mut server = curtail::net::UnixStream::from(server);
            server.read_exact(&mut [0]).unwrap();
            reads.store(true, Ordering::Relaxed);
        });
        let begun = Instant::now();
        // It is to start on the other kthread.
        while !started.load(Ordering::Relaxed) && begun.elapsed() < SOON {
            std::hint::spin_loop();
        }
        while !read.load(Ordering::Relaxed) && begun.elapsed() < SOON {
            yield_now();
        }
        reader.join().unwrap();
    };
    let program = std::thread::spawn(move || builder.run(body));
    let guest = daemon.take(0);
    let mut first = daemon.grant(&guest, 0);
    let mut word = daemon.grant(&guest, 1);
    until("it starts on the other kthread", || {
        if !has_started.load(Ordering::Relaxed) && guest.is_parked(1, word) {
            word = daemon.grant(&guest, 1);
        }
        has_started.load(Ordering::Relaxed)
    });
    let waits = || guest.is_parked(1, word) && !guest.look(0).is_parked;
    until("it waits for a packet without a core", waits);
    client.write_all(&[1]).unwrap();
    until("the other one sees that", || guest.has_mail(1));
    daemon.grant(&guest, 1);
    until("the program ends", || {
        // The first thread may wait for the reader's end by now, without a core.
        if guest.is_parked(0, first) && guest.has_mail(0) {
            first = daemon.grant(&guest, 0);
        }
        program.is_finished()
    });
    program.join().unwrap();
}

#[test]
fn without_the_daemon_all_run_on_and_register_when_it_is_back() {
    let path = socket("dies");
    let daemon = Daemon::at(&path);
    let ends = Arc::new(AtomicBool::new(false));
    let (program, told) = parks(&path, &ends);
    let guest = daemon.take(0);
    daemon.grant(&guest, 0);
    let thread = told.recv_timeout(SOON).unwrap();
    until("it parks", || guest.look(0).is_parked);
    thread.unpark();
    assert!(guest.has_mail(0), "it waits for a core");
    let page = guest.leave();
    drop(daemon);
    let mail = || {
        let (head, tail) = page.look(0).unwrap().inbox;
        head != tail
    };
    until("it runs without a core of the daemon's", || !mail());
    thread.unpark();
    until("it runs again", || !mail());

    let daemon = Daemon::at(&path);
    let guest = daemon.take(5);
    let word = daemon.board.park(guest.slot(0));
    daemon.board.wake(guest.slot(0));
    guest.until_parked(0, word);
    ends.store(true, Ordering::Relaxed);
    thread.unpark();
    assert!(guest.has_mail(0) && guest.look(0).is_parked);
    daemon.grant(&guest, 0);
    assert!(ended(program) >= 2);
    assert!(guest.has_left());
}

#[test]
fn a_runtime_ends_while_kthreads_have_no_core() {
    let path = socket("ends");
    let daemon = Daemon::at(&path);
    let program = program(&path, 4, || 7);
    let guest = daemon.take(0);
    daemon.grant(&guest, 0);
    assert_eq!(ended(program), 7);
    assert!(guest.has_left());
}

#[test]
fn batch_work_is_granted_nothing_and_ranks_last() {
    let path = socket("batch");
    let daemon = Daemon::at(&path);
    let builder = under(&path, 2).batch();
    let program = std::thread::spawn(move || {
        // SAFETY: takes a number only.
        builder.run(|| spawn(|| unsafe { libc::sched_getscheduler(0) }).join().unwrap())
    });
    let session = daemon.knock();
    let curtail_shm::session::Request::Hello { page, .. } = daemon::request(&session) else {
        panic!("no hello")
    };
    let class = curtail_shm::PageView::map(page).unwrap().spec().class;
    assert_eq!(class, curtail_shm::Class::Batch { looks: false });
    session.welcome(daemon.board.fd(), curtail_shm::Slot(0), 0).unwrap();
    assert_eq!(ended(program), libc::SCHED_IDLE);
}

#[test]
fn where_there_is_no_daemon_or_it_refuses_it_is_an_error() {
    let path = socket("refuses");
    let error = under(&path, 1).try_run(|| ()).unwrap_err().to_string();
    assert!(error.contains("no core allocator at") && error.contains("refuses"), "{error}");
    let daemon = Daemon::at(&path);
    let builder = under(&path, 1).guaranteed(9);
    let program = std::thread::spawn(move || builder.try_run(|| ()).unwrap_err().to_string());
    let session = daemon.knock();
    let curtail_shm::session::Request::Hello { page, .. } = daemon::request(&session) else {
        panic!("no hello")
    };
    let spec = *curtail_shm::PageView::map(page).unwrap().spec();
    assert_eq!((spec.guaranteed, spec.burstable), (9, 0));
    session.refuse("there are not so many cores").unwrap();
    let error = ended(program);
    assert!(error.ends_with("the daemon refuses: there are not so many cores"), "{error}");
}
