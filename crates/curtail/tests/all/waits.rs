//! What waits, waits for those that it needs: a request that yields lets the others run, a timed wait
//! lasts as long as it says by the clock that it says, and what the application answers with may
//! wait like a handler.

use crate::common;

use common::{Does, in_time, preset, presets, serve, spin};
use curtail::net::NoResponse;
use curtail::policy::CoreKind;
use curtail::{App, ClassId, Response, WorkerId, sync};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_request_that_yields_does_not_starve_the_one_that_it_waits_for() {
    let las = preset("tq").with_core(CoreKind::Las).unwrap();
    for spec in presets().map(preset).chain([las]) {
        in_time(move || {
            let (begun, ended) =
                (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let (has_begun, name) = (begun.clone(), format!("{} {:?}", spec.name, spec.core));
            let app = Does(move |request: &[u8], response: &mut Response| {
                if request == b"long" {
                    begun.store(true, Ordering::SeqCst);
                    spin(3_000_000);
                    ended.store(true, Ordering::SeqCst);
                } else {
                    // It has had little service when it comes, and the other much.
                    while !ended.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                }
                response.write(b"done");
            });
            let ((), report) = serve(
                app,
                |server| server.policy(spec).workers(1),
                move |client, _| {
                    let long = client.submit(b"long".to_vec()).unwrap();
                    while !has_begun.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                    thread::sleep(Duration::from_millis(5));
                    assert_eq!(client.call(b"yields".to_vec()).unwrap(), b"done", "{name}");
                    assert_eq!(long.wait().unwrap(), b"done");
                },
            );
            assert_eq!(report.abandoned, 0);
        });
    }
}

/// A condition variable of C whose time limits are by `clock`, and its mutex.
struct Timed(Box<std::cell::UnsafeCell<(libc::pthread_mutex_t, libc::pthread_cond_t)>>);

// SAFETY: both are made to be shared between threads.
unsafe impl Sync for Timed {}
// SAFETY: as above; the box keeps them where they are.
unsafe impl Send for Timed {}

impl Timed {
    fn new(clock: libc::clockid_t) -> Self {
        let both = (libc::PTHREAD_MUTEX_INITIALIZER, libc::PTHREAD_COND_INITIALIZER);
        let new = Self(Box::new(std::cell::UnsafeCell::new(both)));
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: initialised before use, in place.
        unsafe {
            assert_eq!(libc::pthread_condattr_init(attributes.as_mut_ptr()), 0);
            assert_eq!(libc::pthread_condattr_setclock(attributes.as_mut_ptr(), clock), 0);
            let cond = &raw mut (*new.0.get()).1;
            assert_eq!(libc::pthread_cond_init(cond, attributes.as_ptr()), 0);
        }
        new
    }

    /// Waits until so long from now on that clock: what the call answers, and how long it took.
    fn wait(&self, clock: libc::clockid_t, limit: Duration) -> (i32, Duration) {
        let begun = Instant::now();
        // SAFETY: both are initialised, and the caller's fiber takes and gives the mutex.
        let answer = unsafe {
            let mut until = MaybeUninit::<libc::timespec>::uninit();
            libc::clock_gettime(clock, until.as_mut_ptr());
            let mut until = until.assume_init();
            let nanos = until.tv_nsec + i64::from(limit.subsec_nanos());
            until.tv_sec += limit.as_secs().cast_signed() + nanos / 1_000_000_000;
            until.tv_nsec = nanos % 1_000_000_000;
            let both = self.0.get();
            let (mutex, cond) = (&raw mut (*both).0, &raw mut (*both).1);
            assert_eq!(libc::pthread_mutex_lock(mutex), 0);
            let answer = loop {
                let answer = libc::pthread_cond_timedwait(cond, mutex, &raw const until);
                // It may wake for nothing, but not end before its time.
                if answer != 0 {
                    break answer;
                }
            };
            assert_eq!(libc::pthread_mutex_unlock(mutex), 0);
            answer
        };
        (answer, begun.elapsed())
    }
}

#[test]
fn a_timed_wait_of_c_lasts_as_long_as_its_own_clock_says() {
    const LIMIT: Duration = Duration::from_millis(100);
    for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
        let timed = Timed::new(clock);
        let app = Does(move |_: &[u8], response: &mut Response| {
            // The second time with others that wait: they are counted beside the clock.
            let (answer, took) = timed.wait(clock, LIMIT);
            assert_eq!(answer, libc::ETIMEDOUT);
            response.write(took.as_millis().to_string().as_bytes());
        });
        in_time(move || {
            serve(
                app,
                |server| server.workers(1),
                |client, _| {
                    let tickets: Vec<_> =
                        (0..3).map(|_| client.submit(b"wait".to_vec()).unwrap()).collect();
                    for ticket in tickets {
                        let took = String::from_utf8(ticket.wait().unwrap()).unwrap();
                        let took = Duration::from_millis(took.parse().unwrap());
                        assert!((LIMIT..LIMIT + common::STUCK / 4).contains(&took), "{took:?}");
                    }
                },
            )
        });
    }
}

/// `failed` takes a lock whose holder waits for a later request.
#[derive(Default)]
struct Locks {
    lock: sync::Mutex<u32>,
    changed: sync::Condvar,
    /// Held across a wait for `lock`'s turn.
    outer: std::sync::Mutex<()>,
    holding: AtomicU32,
}

/// `classify` does, too, at requests that begin with `ask`.
#[derive(Default)]
struct Asks(Arc<Locks>);

impl App for Asks {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn classify(&self, request: &[u8]) -> ClassId {
        if request.starts_with(b"ask") {
            drop(self.0.outer.lock().unwrap());
        }
        ClassId(0)
    }
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        match request {
            b"ask" => response.write(b"asked"),
            request => self.0.handle(&(), request, response),
        }
    }
}

/// The request that is asked about is served later, or refused; the others are served.
#[test]
fn a_classifier_that_waits_keeps_its_own_request_only() {
    in_time(|| {
        let app = Asks::default();
        let locks = app.0.clone();
        serve(
            app,
            |server| server.workers(1),
            move |client, _| {
                let hold = client.submit(b"hold".to_vec()).unwrap();
                while locks.holding.load(Ordering::SeqCst) == 0 {
                    thread::yield_now();
                }
                let ask = client.submit(b"ask".to_vec()).unwrap();
                assert_eq!(client.call(b"release".to_vec()).unwrap(), b"released");
                assert_eq!(hold.wait().unwrap(), b"held");
                let asked = ask.wait();
                assert!(matches!(asked.as_deref(), Ok(b"asked") | Err(NoResponse::Failed)));
            },
        )
    });
}

impl App for Locks {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        match request {
            b"hold" => {
                let _outer = self.outer.lock().unwrap();
                let mut turn = self.lock.lock().unwrap();
                self.holding.fetch_add(1, Ordering::SeqCst);
                while *turn == 0 {
                    turn = self.changed.wait(turn).unwrap();
                }
                *turn -= 1;
                response.write(b"held");
            }
            b"release" => {
                *self.lock.lock().unwrap() += 1;
                self.changed.notify_all();
                response.write(b"released");
            }
            _ => panic!("on purpose"),
        }
    }
    fn failed(&self, _: &[u8], response: &mut Response) {
        response.write(b"half");
        drop(self.outer.lock().unwrap());
        response.clear();
        response.write(b"failed");
    }
}

#[test]
fn what_answers_for_a_failure_may_wait_like_a_handler() {
    for name in ["tq", "ps", "concord", "fcfs", "jbsq"] {
        in_time(move || {
            let ((), report) = serve(
                Locks::default(),
                |server| server.policy(preset(name)).workers(1),
                move |client, _| {
                    for _ in 0..5 {
                        let hold = client.submit(b"hold".to_vec()).unwrap();
                        // More than one, so that a work-conserving dispatcher has one, too.
                        let bad: Vec<_> =
                            (0..6).map(|_| client.submit(b"panic".to_vec()).unwrap()).collect();
                        assert_eq!(
                            client.call(b"release".to_vec()).unwrap(),
                            b"released",
                            "{name}"
                        );
                        assert_eq!(hold.wait().unwrap(), b"held");
                        for ticket in bad {
                            assert_eq!(ticket.wait().unwrap(), b"failed", "{name}");
                        }
                    }
                },
            );
            let class = &report.classes[0];
            assert_eq!((class.completed, class.failed, report.abandoned), (10, 30, 0), "{name}");
        });
    }
}

/// A worker that has jobs all the time, in the order in which they came, sees what has woken up there.
#[test]
fn a_wait_ends_though_there_is_always_work() {
    /// As many are kept waiting, and so many come in all.
    const WAITING: usize = 500;
    const IN_ALL: usize = 5_000;
    for name in ["dfcfs", "tq"] {
        let (served, woken_after) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (count, after) = (served.clone(), woken_after.clone());
        let app = Does(move |request: &[u8], response: &mut Response| {
            if request == b"sleep" {
                curtail::time::sleep(Duration::from_micros(100));
                after.store(count.load(Ordering::SeqCst), Ordering::SeqCst);
            } else {
                spin(5_000);
                count.fetch_add(1, Ordering::SeqCst);
            }
            response.write(b"done");
        });
        serve(
            app,
            |server| server.policy(preset(name)).workers(1),
            move |client, _| {
                let sleeper = client.submit(b"sleep".to_vec()).unwrap();
                let mut tickets = std::collections::VecDeque::new();
                for _ in 0..IN_ALL {
                    tickets.push_back(client.submit(b"short".to_vec()).unwrap());
                    if tickets.len() > WAITING {
                        tickets.pop_front().map(|ticket| ticket.wait().unwrap());
                    }
                }
                tickets.into_iter().for_each(|ticket| drop(ticket.wait().unwrap()));
                sleeper.wait().unwrap();
            },
        );
        let (woken_after, served) =
            (woken_after.load(Ordering::SeqCst), served.load(Ordering::SeqCst));
        assert!(woken_after < served, "{name}: it was woken after all others had been served");
    }
}
