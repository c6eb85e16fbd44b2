//! Locks and condition variables on fibers: ours, and those of C and C++.

use crate::common;

use common::{preset, presets, serve, spin};
use curtail::{App, ClassId, Nanos, Response, WorkerId, sync};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Handlers that use locks and condition variables of both kinds.
struct Locking {
    ours: sync::Mutex<u64>,
    turn: sync::Mutex<u64>,
    turned: sync::Condvar,
    c_mutex: Box<CMutex>,
    concurrent: AtomicU32,
}

struct CMutex(std::cell::UnsafeCell<(libc::pthread_mutex_t, libc::pthread_cond_t, u64)>);
// SAFETY: a pthread mutex is made to be shared; the counter is touched by its holder only.
unsafe impl Sync for CMutex {}
// SAFETY: it is boxed and does not move while in use.
unsafe impl Send for CMutex {}

impl Locking {
    fn new() -> Self {
        Self {
            ours: sync::Mutex::new(0),
            turn: sync::Mutex::new(0),
            turned: sync::Condvar::new(),
            c_mutex: Box::new(CMutex(std::cell::UnsafeCell::new((
                libc::PTHREAD_MUTEX_INITIALIZER,
                libc::PTHREAD_COND_INITIALIZER,
                0,
            )))),
            concurrent: AtomicU32::new(0),
        }
    }

    /// Between taking and giving back a lock: no other thread may be here, although the quantum
    /// ends.
    fn alone(&self) {
        assert_eq!(self.concurrent.fetch_add(1, Ordering::SeqCst), 0);
        spin(20_000);
        assert_eq!(self.concurrent.fetch_sub(1, Ordering::SeqCst), 1);
    }
}

impl App for Locking {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let raw = self.c_mutex.0.get();
        match request {
            b"ours" => {
                let mut guard = self.ours.lock().unwrap();
                self.alone();
                *guard += 1;
            }
            // SAFETY: an initialised mutex, taken and released by this fiber.
            b"pthread" => unsafe {
                assert_eq!(libc::pthread_mutex_lock(&raw mut (*raw).0), 0);
                self.alone();
                (*raw).2 += 1;
                assert_eq!(libc::pthread_mutex_unlock(&raw mut (*raw).0), 0);
            },
            b"await" => {
                let mut turn = self.turn.lock().unwrap();
                while *turn == 0 {
                    turn = self.turned.wait(turn).unwrap();
                }
                *turn -= 1;
            }
            // SAFETY: as above. The deadline is far: only the signal ends the wait in time.
            b"ptimed" => unsafe {
                let mut until = std::mem::zeroed::<libc::timespec>();
                libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until);
                until.tv_sec += 60;
                libc::pthread_mutex_lock(&raw mut (*raw).0);
                while (*raw).2 == 0 {
                    let (cond, mutex) = (&raw mut (*raw).1, &raw mut (*raw).0);
                    assert_eq!(libc::pthread_cond_timedwait(cond, mutex, &raw const until), 0);
                }
                (*raw).2 -= 1;
                libc::pthread_mutex_unlock(&raw mut (*raw).0);
            },
            // SAFETY: as above. The deadline has passed.
            b"plate" => unsafe {
                let until = std::mem::zeroed::<libc::timespec>();
                libc::pthread_mutex_lock(&raw mut (*raw).0);
                let (cond, mutex) = (&raw mut (*raw).1, &raw mut (*raw).0);
                let answer = libc::pthread_cond_timedwait(cond, mutex, &raw const until);
                assert_eq!(answer, libc::ETIMEDOUT);
                libc::pthread_mutex_unlock(&raw mut (*raw).0);
            },
            b"advance" => {
                *self.turn.lock().unwrap() += 1;
                self.turned.notify_one();
            }
            // SAFETY: as above.
            b"pawait" => unsafe {
                libc::pthread_mutex_lock(&raw mut (*raw).0);
                while (*raw).2 == 0 {
                    libc::pthread_cond_wait(&raw mut (*raw).1, &raw mut (*raw).0);
                }
                (*raw).2 -= 1;
                libc::pthread_mutex_unlock(&raw mut (*raw).0);
            },
            // SAFETY: as above.
            b"padvance" => unsafe {
                libc::pthread_mutex_lock(&raw mut (*raw).0);
                (*raw).2 += 1;
                libc::pthread_mutex_unlock(&raw mut (*raw).0);
                libc::pthread_cond_signal(&raw mut (*raw).1);
            },
            other => panic!("{other:?}"),
        }
        response.write(b"done");
    }
}

#[test]
fn whoever_holds_a_lock_is_not_preempted() {
    for name in ["tq", "concord", "shenango-ps"] {
        for lock in ["ours", "pthread"] {
            let quantum = preset(name).with_quantum(Nanos(1_000)).unwrap();
            let ((), report) = serve(
                Locking::new(),
                |server| server.policy(quantum).workers(2),
                move |client, _| {
                    let tickets: Vec<_> = (0..200)
                        .map(|_| client.submit(lock.as_bytes().to_vec()).unwrap())
                        .collect();
                    for ticket in tickets {
                        assert_eq!(ticket.wait().unwrap(), b"done");
                    }
                },
            );
            assert_eq!(report.classes[0].completed, 200, "{name} {lock}");
            assert!(report.preemptions > 0, "{name} {lock}: quanta end inside, yields come after");
        }
    }
}

#[test]
fn a_waiting_request_lets_the_one_it_waits_for_run_on_the_same_worker() {
    for name in presets() {
        for (wait, signal) in [
            ("await", "advance"),
            ("pawait", "padvance"),
            ("ptimed", "padvance"),
            ("plate", "plate"),
        ] {
            let ((), report) = serve(
                Locking::new(),
                |server| server.policy(preset(name)).workers(1),
                move |client, _| {
                    let submit = |text: &str| client.submit(text.as_bytes().to_vec()).unwrap();
                    let waiting: Vec<_> = (0..20).map(|_| submit(wait)).collect();
                    let signals: Vec<_> = (0..20).map(|_| submit(signal)).collect();
                    for ticket in signals.into_iter().chain(waiting) {
                        assert_eq!(ticket.wait().unwrap(), b"done");
                    }
                },
            );
            assert_eq!(report.classes[0].completed, 40, "{name} {wait}");
        }
    }
}

#[test]
fn a_thread_outside_wakes_a_waiting_request() {
    let app = Arc::new(Locking::new());
    struct Shared(Arc<Locking>);
    impl App for Shared {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
            self.0.handle(&(), request, response);
        }
    }
    let outside = app.clone();
    serve(
        Shared(app),
        |server| server.workers(1),
        move |client, _| {
            let waiting = client.submit(b"await".to_vec()).unwrap();
            client.call(b"ours".to_vec()).unwrap(); // The waiting one has had its turn.
            *outside.turn.lock().unwrap() += 1;
            outside.turned.notify_all();
            assert_eq!(waiting.wait().unwrap(), b"done");
        },
    );
}
