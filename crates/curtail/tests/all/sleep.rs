//! A thread or handler that sleeps by the functions of C or of the standard library lets others run
//! meanwhile.

use crate::common;

use common::{Does, preset, serve};
use curtail::{Runtime, spawn};
use libc::timespec;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
static TWENTY: timespec = timespec { tv_sec: 0, tv_nsec: 20_000_000 };

fn nanosleep() {
    // SAFETY: a valid time; what is left of it is not asked for.
    assert_eq!(unsafe { libc::nanosleep(&raw const TWENTY, ptr::null_mut()) }, 0);
}

fn relative() {
    for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
        // SAFETY: as above.
        let answer = unsafe { libc::clock_nanosleep(clock, 0, &raw const TWENTY, ptr::null_mut()) };
        assert_eq!(answer, 0);
    }
}

fn absolute() {
    for clock in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
        // SAFETY: fills in our own structure; then as above.
        let answer = unsafe {
            let mut end = std::mem::zeroed::<timespec>();
            libc::clock_gettime(clock, &raw mut end);
            let nanos = end.tv_nsec + TWENTY.tv_nsec;
            end.tv_sec += nanos / 1_000_000_000;
            end.tv_nsec = nanos % 1_000_000_000;
            libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &raw const end, ptr::null_mut())
        };
        assert_eq!(answer, 0);
    }
}

/// Each takes at least 20 ms.
const SLEEPS: [(&str, fn()); 6] = [
    ("std", || std::thread::sleep(20 * MS)),
    ("nanosleep", nanosleep),
    ("relative", relative),
    ("absolute", absolute),
    // SAFETY: it asks for nothing.
    ("usleep", || assert_eq!(unsafe { libc::usleep(20_000) }, 0)),
    // SAFETY: it asks for nothing.
    ("sleep", || assert_eq!(unsafe { libc::sleep(1) }, 0)),
];

#[test]
fn a_thread_that_sleeps_leaves_the_kthread_to_others() {
    for (name, sleep) in SLEEPS {
        Runtime::builder().kthreads(1).run(move || {
            let turns = Arc::new(AtomicUsize::new(0));
            let same = turns.clone();
            // It has not run when the sleep begins: there is one kthread.
            let other = spawn(move || same.fetch_add(1, Ordering::Relaxed));
            let since = Instant::now();
            assert_eq!(turns.load(Ordering::Relaxed), 0, "{name}");
            sleep();
            assert_eq!(turns.load(Ordering::Relaxed), 1, "{name}");
            assert!(since.elapsed() >= 20 * MS, "{name}: {:?}", since.elapsed());
            other.join().unwrap();
        });
    }
}

#[test]
fn a_handler_that_sleeps_leaves_the_worker_to_others() {
    for (name, sleep) in SLEEPS {
        let others = AtomicUsize::new(0);
        let app = Does(move |request: &[u8], response: &mut curtail::Response| {
            if request == b"short" {
                others.fetch_add(1, Ordering::Relaxed);
                return response.write(b"done");
            }
            let since = Instant::now();
            while others.load(Ordering::Relaxed) == 0 && since.elapsed() < 2 * SECOND {
                sleep();
            }
            let met = others.load(Ordering::Relaxed) > 0;
            response.write(if met { b"met" } else { b"alone" });
        });
        serve(
            app,
            |builder| builder.policy(preset("tq")).workers(1),
            move |client, _| {
                let sleeper = client.submit(b"sleeps".to_vec()).unwrap();
                assert_eq!(client.call(b"short".to_vec()).unwrap(), b"done", "{name}");
                assert_eq!(sleeper.wait().unwrap(), b"met", "{name}");
            },
        );
    }
}

#[test]
fn a_time_limit_does_not_cut_a_sleep_of_c() {
    Runtime::builder().kthreads(1).run(|| {
        let since = Instant::now();
        let slept = curtail::time::timeout(5 * MS, || std::thread::sleep(20 * MS));
        assert!(slept.is_ok() && since.elapsed() >= 20 * MS);
    });
}

#[test]
fn an_invalid_time_is_refused_and_a_past_one_is_over() {
    Runtime::builder().kthreads(1).run(|| {
        let bad = timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        let past = timespec { tv_sec: 1, tv_nsec: 0 };
        // SAFETY: times of ours.
        unsafe {
            assert_eq!(libc::nanosleep(&raw const bad, ptr::null_mut()), -1);
            assert_eq!(*libc::__errno_location(), libc::EINVAL);
            let clock = libc::CLOCK_MONOTONIC;
            let answer = libc::clock_nanosleep(clock, 0, &raw const bad, ptr::null_mut());
            assert_eq!(answer, libc::EINVAL);
            let absolute = libc::TIMER_ABSTIME;
            let clock = libc::CLOCK_REALTIME;
            let answer = libc::clock_nanosleep(clock, absolute, &raw const past, ptr::null_mut());
            assert_eq!(answer, 0);
        }
    });
}
