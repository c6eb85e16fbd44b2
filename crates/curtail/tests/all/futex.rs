//! The locks of Rust's standard library on fibers where the compiler did not see them: their
//! holders are pre-empted, and a waiter blocks its fiber and not its worker.
//!
//! No test judges a time: the longest wait turns a deadlock into a failure.

use crate::common;

use common::{preset, presets, spin};
use curtail::net::Local;
use curtail::{App, ClassId, Nanos, Report, Response, Server, Spec, WorkerId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant};

const STUCK: Duration = Duration::from_secs(120);
/// Steps that take some quanta.
const LONG: u64 = 20_000;

type Task = Box<dyn Fn() + Send + Sync>;

/// Request *n* runs task *n*.
struct Tasks(Vec<Task>);

impl App for Tasks {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        self.0[usize::from(request[0])]();
        response.write(request);
    }
}

/// Runs all tasks at once, one request each, with quanta of a microsecond.
fn run(spec: Spec, workers: usize, tasks: Vec<Task>) -> Report {
    let (transport, local) = Local::new(1024).unwrap();
    let count = u8::try_from(tasks.len()).unwrap();
    let server = Server::builder(Tasks(tasks))
        .policy(spec)
        .workers(workers)
        .transport(Box::new(transport))
        .safepoints_by_hand()
        .build()
        .unwrap();
    let handle = server.handle();
    // Not joined where a request is stuck: then the test fails instead of waiting for it.
    let server = thread::spawn(move || server.run());
    let tickets: Vec<_> = (0..count).map(|task| local.submit(vec![task]).unwrap()).collect();
    for (task, ticket) in tickets.into_iter().enumerate() {
        let answer = ticket.wait_timeout(STUCK).unwrap_or_else(|_| panic!("{task} is stuck"));
        assert_eq!(answer.unwrap(), [task as u8]);
    }
    handle.shutdown();
    server.join().unwrap().unwrap()
}

fn shared_core() -> Spec {
    preset("tq").with_quantum(Nanos(1_000)).unwrap()
}

fn tasks<T: Send + Sync + 'static>(
    shared: &Arc<T>,
    count: usize,
    task: impl Fn(&T, usize) + Copy + Send + Sync + 'static,
) -> Vec<Task> {
    let one = |index| {
        let shared = shared.clone();
        Box::new(move || task(&shared, index)) as Task
    };
    (0..count).map(one).collect()
}

/// How many are in, and how often others came on while one was. Bystanders move the clock on.
#[derive(Default)]
struct Inside {
    inside: AtomicU32,
    clock: AtomicU64,
    overtaken: AtomicU64,
}

impl Inside {
    fn alone(&self) {
        let before = self.clock.load(Ordering::Relaxed);
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0);
        spin(LONG);
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1);
        let moved = self.clock.load(Ordering::Relaxed) != before;
        self.overtaken.fetch_add(u64::from(moved), Ordering::Relaxed);
    }

    fn stand_by(&self) {
        for _ in 0..500 {
            self.clock.fetch_add(1, Ordering::Relaxed);
            spin(LONG / 10);
        }
    }
}

#[test]
fn a_mutex_whose_holder_is_preempted_stops_nobody() {
    for workers in [1, 2] {
        let shared = Arc::new((Inside::default(), Mutex::new(0_u64)));
        let mut all = tasks(&shared, 2, |(inside, _), _| inside.stand_by());
        all.extend(tasks(&shared, 20, |(inside, mutex), _| {
            for _ in 0..10 {
                let mut guard = mutex.lock().unwrap();
                inside.alone();
                *guard += 1;
            }
        }));
        let report = run(shared_core(), workers, all);
        assert_eq!(*shared.1.lock().unwrap(), 200);
        assert!(report.preemptions > 0);
        let overtaken = shared.0.overtaken.load(Ordering::Relaxed);
        assert!(overtaken > 0, "others came on while it was held");
    }
}

#[test]
fn a_read_write_lock_whose_holders_are_preempted_stops_nobody() {
    for workers in [1, 2] {
        let shared = Arc::new((Inside::default(), RwLock::new((0_u64, 0_u64))));
        let mut all = tasks(&shared, 2, |(inside, _), _| inside.stand_by());
        all.extend(tasks(&shared, 20, |(inside, lock), index| {
            for _ in 0..10 {
                if index % 2 == 0 {
                    let mut pair = lock.write().unwrap();
                    pair.0 += 1;
                    inside.alone();
                    pair.1 += 1;
                } else {
                    let pair = lock.read().unwrap();
                    let seen = *pair;
                    spin(LONG);
                    assert!(seen.0 == seen.1 && seen == *pair, "a writer is in");
                }
            }
        }));
        let report = run(shared_core(), workers, all);
        assert_eq!(*shared.1.read().unwrap(), (100, 100));
        assert!(report.preemptions > 0);
        assert!(shared.0.overtaken.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn a_condition_variable_is_waited_for_on_one_worker_under_every_preset() {
    for name in presets() {
        let shared = Arc::new((Mutex::new(0_usize), Condvar::new()));
        // The last to come has the first turn.
        let all = tasks(&shared, 12, |(turn, changed), index| {
            let mut turn = turn.lock().unwrap();
            while *turn != 11 - index {
                turn = changed.wait(turn).unwrap();
            }
            *turn += 1;
            changed.notify_all();
        });
        run(preset(name), 1, all);
        assert_eq!(*shared.0.lock().unwrap(), 12, "{name}");
    }
}

#[test]
fn a_wait_with_a_timeout_ends_by_a_signal_or_by_the_clock() {
    let shared = Arc::new((Mutex::new(false), Condvar::new()));
    let mut all = tasks(&shared, 2, |(mutex, changed), _| {
        let guard = mutex.lock().unwrap();
        // The deadline is far: only the signal ends the wait in time.
        let (guard, result) = changed.wait_timeout_while(guard, STUCK, |set| !*set).unwrap();
        assert!(*guard && !result.timed_out());
    });
    all.push(Box::new(|| {
        let (mutex, nobody) = (Mutex::new(()), Condvar::new());
        let guard = mutex.lock().unwrap();
        let millisecond = Duration::from_millis(1);
        let (_guard, result) = nobody.wait_timeout_while(guard, millisecond, |()| true).unwrap();
        assert!(result.timed_out());
    }));
    all.extend(tasks(&shared, 1, |(mutex, changed), _| {
        *mutex.lock().unwrap() = true;
        changed.notify_all();
    }));
    run(shared_core(), 1, all);
}

#[test]
fn a_barrier_on_one_worker() {
    let shared = Arc::new((Barrier::new(8), AtomicU32::new(0)));
    let all = tasks(&shared, 8, |(barrier, leaders), _| {
        for _ in 0..5 {
            leaders.fetch_add(u32::from(barrier.wait().is_leader()), Ordering::Relaxed);
        }
    });
    run(shared_core(), 1, all);
    assert_eq!(shared.1.load(Ordering::Relaxed), 5);
}

#[test]
fn an_initialiser_that_is_preempted_is_waited_for() {
    let shared = Arc::new((OnceLock::new(), Once::new(), AtomicU32::new(0)));
    let all = tasks(&shared, 10, |(cell, once, times), _| {
        let value = cell.get_or_init(|| {
            spin(LONG);
            times.fetch_add(1, Ordering::Relaxed)
        });
        assert_eq!(*value, 0);
        once.call_once(|| {
            spin(LONG);
        });
        assert!(once.is_completed());
    });
    let report = run(shared_core(), 1, all);
    assert!(report.preemptions > 0);
    assert_eq!(shared.2.load(Ordering::Relaxed), 1);
}

#[test]
fn park_and_yield_let_the_one_that_ends_them_run() {
    let shared = Arc::new((AtomicU32::new(0), Mutex::new(Vec::new())));
    let mut all = tasks(&shared, 3, |(gone, threads), _| {
        threads.lock().unwrap().push(thread::current());
        while gone.load(Ordering::Acquire) == 0 {
            thread::park();
        }
        let end = Instant::now() + Duration::from_millis(1);
        while Instant::now() < end {
            thread::park_timeout(Duration::from_millis(1));
        }
    });
    all.extend(tasks(&shared, 3, |(gone, _), _| {
        // No pre-emption helps.
        curtail::sync::no_preempt(|| {
            while gone.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
        });
    }));
    all.extend(tasks(&shared, 1, |(gone, threads), _| {
        gone.store(1, Ordering::Release);
        threads.lock().unwrap().drain(..).for_each(|thread| thread.unpark());
    }));
    run(shared_core(), 1, all);
}

#[test]
fn threads_and_fibers_wait_for_each_other() {
    let shared = Arc::new((Mutex::new(0_u64), Barrier::new(2), AtomicU32::new(0)));
    let outside = shared.clone();
    let thread = thread::spawn(move || {
        let (mutex, both, coming) = &*outside;
        // First the fibers wait for the thread.
        let mut guard = mutex.lock().unwrap();
        both.wait();
        let end = Instant::now() + STUCK;
        while coming.load(Ordering::SeqCst) < 20 {
            assert!(Instant::now() < end, "all fibers come, on one worker");
            thread::yield_now();
        }
        *guard += 1;
        drop(guard);
        for _ in 0..1_000 {
            *mutex.lock().unwrap() += 1;
        }
    });
    shared.1.wait();
    let all = tasks(&shared, 20, |(mutex, _, coming), _| {
        coming.fetch_add(1, Ordering::SeqCst);
        for _ in 0..50 {
            let mut guard = mutex.lock().unwrap();
            spin(500);
            *guard += 1;
        }
    });
    run(shared_core(), 1, all);
    thread.join().unwrap();
    assert_eq!(*shared.0.lock().unwrap(), 2_001);
}

fn futex(word: &AtomicU32, operation: i32, value: u32) -> i64 {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: a live word, and operations that need nothing else.
    unsafe { libc::syscall(libc::SYS_futex, std::ptr::from_ref(word), operation, value, none) }
}

#[test]
fn a_wake_finds_fibers_and_threads_and_counts_them() {
    let word = Arc::new(AtomicU32::new(0));
    let wait = |word: &AtomicU32| {
        while word.load(Ordering::SeqCst) == 0 {
            futex(word, libc::FUTEX_WAIT, 0);
        }
    };
    let outside: Vec<_> = (0..3)
        .map(|_| {
            let word = word.clone();
            thread::spawn(move || wait(&word))
        })
        .collect();
    let mut all = tasks(&word, 3, move |word, _| wait(word));
    all.extend(tasks(&word, 1, |word, _| {
        // A value that is not there is said so, on a fiber too.
        assert_eq!(futex(word, libc::FUTEX_WAIT, 7), -1);
        // SAFETY: this thread's own variable.
        assert_eq!(unsafe { *libc::__errno_location() }, libc::EAGAIN);
        // One at a time, and each finds one of the two kinds: all have begun to wait at some time,
        // and wait again, as the word says so.
        let (mut woken, end) = (0, Instant::now() + STUCK);
        while woken < 12 {
            let now = futex(word, libc::FUTEX_WAKE, 1);
            assert!((0..=1).contains(&now), "{now}");
            woken += now;
            assert!(Instant::now() < end, "only {woken} waited");
            thread::yield_now();
        }
        word.store(1, Ordering::SeqCst);
        let rest = futex(word, libc::FUTEX_WAKE, u32::try_from(i32::MAX).unwrap());
        assert!((0..=6).contains(&rest), "{rest}");
    }));
    run(shared_core(), 1, all);
    for thread in outside {
        thread.join().unwrap();
    }
    assert_eq!(futex(&word, libc::FUTEX_WAKE, 1), 0);
}
