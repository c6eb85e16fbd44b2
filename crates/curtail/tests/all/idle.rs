//! What waits does not run: locks and conditions of C and of the standard library on threads, with
//! time limits and without, leave the kthread asleep. And what a plain thread gives back unseen is
//! found.

use curtail::{Runtime, scope, spawn, yield_now};
use libc::{pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, timespec};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// CPU time of the calling kernel thread: of the one kthread.
fn used() -> Duration {
    // SAFETY: fills in our own structure.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::from_micros((time.tv_sec * 1_000_000 + time.tv_usec) as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Runs `f` on a runtime of one kthread; it uses less than a fifth of a core.
fn mostly_idle(f: impl FnOnce() + Send + 'static) {
    Runtime::builder().kthreads(1).run(move || {
        let (before, since) = (used(), Instant::now());
        f();
        let (used, passed) = (used() - before, since.elapsed());
        assert!(used < passed / 5, "{used:?} of {passed:?}");
    });
}

struct OfC<T>(UnsafeCell<T>);
// SAFETY: the locks of C are made to be shared.
unsafe impl<T> Sync for OfC<T> {}

impl<T> OfC<T> {
    const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn at(&self) -> *mut T {
        self.0.get()
    }
}

fn after(clock: libc::clockid_t, time: Duration) -> timespec {
    // SAFETY: fills in our own structure.
    let now = unsafe {
        let mut now = std::mem::zeroed::<timespec>();
        libc::clock_gettime(clock, &raw mut now);
        now
    };
    let end = Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + time;
    timespec { tv_sec: end.as_secs() as i64, tv_nsec: i64::from(end.subsec_nanos()) }
}

unsafe extern "C" {
    fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const timespec,
    ) -> libc::c_int;
    fn pthread_cond_clockwait(
        cond: *mut pthread_cond_t,
        mutex: *mut pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const timespec,
    ) -> libc::c_int;
}

#[test]
fn a_time_limit_of_c_is_kept_asleep_by_either_clock() {
    static MUTEX: OfC<pthread_mutex_t> = OfC::new(libc::PTHREAD_MUTEX_INITIALIZER);
    static COND: OfC<pthread_cond_t> = OfC::new(libc::PTHREAD_COND_INITIALIZER);
    mostly_idle(|| {
        for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
            let since = Instant::now();
            let until = after(clock, 100 * MS);
            // SAFETY: initialised locks, taken and given back by this thread.
            unsafe {
                assert_eq!(libc::pthread_mutex_lock(MUTEX.at()), 0);
                let answer = pthread_cond_clockwait(COND.at(), MUTEX.at(), clock, &raw const until);
                assert_eq!(answer, libc::ETIMEDOUT);
                assert!(since.elapsed() >= 100 * MS);
                // Held by this one: another waits for it, and gives up.
                let other = spawn(move || {
                    let until = after(clock, 50 * MS);
                    pthread_mutex_clocklock(MUTEX.at(), clock, &raw const until)
                });
                assert_eq!(other.join().unwrap(), libc::ETIMEDOUT);
                assert!(since.elapsed() >= 150 * MS);
                assert_eq!(libc::pthread_mutex_unlock(MUTEX.at()), 0);
            }
        }
    });
}

#[test]
fn who_waits_for_a_lock_of_c_sleeps_and_is_woken() {
    static MUTEX: OfC<pthread_mutex_t> = OfC::new(libc::PTHREAD_MUTEX_INITIALIZER);
    static LOCK: OfC<pthread_rwlock_t> = OfC::new(libc::PTHREAD_RWLOCK_INITIALIZER);
    // SAFETY: initialised locks, taken and given back by each thread in turn.
    mostly_idle(|| unsafe {
        libc::pthread_mutex_lock(MUTEX.at());
        libc::pthread_rwlock_wrlock(LOCK.at());
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    assert_eq!(libc::pthread_mutex_lock(MUTEX.at()), 0);
                    assert_eq!(libc::pthread_mutex_unlock(MUTEX.at()), 0);
                });
                s.spawn(|| {
                    assert_eq!(libc::pthread_rwlock_rdlock(LOCK.at()), 0);
                    assert_eq!(libc::pthread_rwlock_unlock(LOCK.at()), 0);
                });
            }
            curtail::time::sleep(200 * MS);
            libc::pthread_mutex_unlock(MUTEX.at());
            libc::pthread_rwlock_unlock(LOCK.at());
        });
    });
}

#[test]
fn a_lock_that_libc_gives_back_by_itself_is_found() {
    static MUTEX: OfC<pthread_mutex_t> = OfC::new(libc::PTHREAD_MUTEX_INITIALIZER);
    static COND: OfC<pthread_cond_t> = OfC::new(libc::PTHREAD_COND_INITIALIZER);
    static HELD: AtomicBool = AtomicBool::new(false);
    static DONE: AtomicBool = AtomicBool::new(false);
    // A plain thread holds it, and then waits for a condition, within libc.
    // SAFETY: initialised locks.
    let plain = std::thread::spawn(|| unsafe {
        libc::pthread_mutex_lock(MUTEX.at());
        HELD.store(true, Ordering::Release);
        std::thread::sleep(20 * MS);
        while !DONE.load(Ordering::Acquire) {
            libc::pthread_cond_wait(COND.at(), MUTEX.at());
        }
        libc::pthread_mutex_unlock(MUTEX.at());
    });
    while !HELD.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    // SAFETY: as above.
    mostly_idle(|| unsafe {
        let since = Instant::now();
        assert_eq!(libc::pthread_mutex_lock(MUTEX.at()), 0);
        assert!(since.elapsed() < 500 * MS, "{:?}", since.elapsed());
        DONE.store(true, Ordering::Release);
        libc::pthread_cond_signal(COND.at());
        libc::pthread_mutex_unlock(MUTEX.at());
        curtail::time::sleep(50 * MS);
    });
    plain.join().unwrap();
}

#[test]
fn locks_of_std_sleep_on_threads() {
    mostly_idle(|| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let same = shared.clone();
        let waits = spawn(move || {
            let done = same.1.wait_while(same.0.lock().unwrap(), |done| !*done).unwrap();
            assert!(*done);
        });
        let (lock, changed) = &*shared;
        let since = Instant::now();
        let (mut held, result) = changed.wait_timeout(lock.lock().unwrap(), 150 * MS).unwrap();
        assert!(result.timed_out() && since.elapsed() >= 150 * MS);
        let same = shared.clone();
        let contends = spawn(move || drop(same.0.lock().unwrap()));
        curtail::time::sleep(100 * MS);
        assert!(!contends.is_finished());
        *held = true;
        drop(held);
        changed.notify_all();
        waits.join().unwrap();
        contends.join().unwrap();
        yield_now();
    });
}
