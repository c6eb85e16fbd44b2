//! Batch threads: they run where nothing else is ready, and are cut when something is. The program is
//! not instrumented, so their safepoints are placed by hand.

use crate::common;

use common::{Does, preset, serve};
use curtail::sync::{Mutex, oneshot};
use curtail::{Builder, JoinHandle, Response, Runtime, safepoint, spawn, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

fn batch<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().batch().spawn(f).unwrap()
}

fn runtime(kthreads: usize) -> curtail::RuntimeBuilder {
    Runtime::builder().kthreads(kthreads).watchdog(None)
}

/// Computes with safepoints until it is told to end.
fn compute_until(told: &AtomicBool) {
    let begun = Instant::now();
    while !told.load(Ordering::SeqCst) {
        assert!(begun.elapsed() < STUCK, "nothing else runs");
        safepoint();
    }
}

#[derive(Clone, Default)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// By a plain thread.
    fn wait(&self) {
        let begun = Instant::now();
        while !self.is_up() {
            assert!(begun.elapsed() < STUCK);
            std::thread::yield_now();
        }
    }
}

#[test]
fn it_runs_when_nothing_else_is_ready() {
    let log = runtime(1).run(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let log = log.clone();
            move || log.lock().unwrap().push(what)
        };
        let (child, after) = (note("child"), note("after"));
        let last = batch({
            let begin = note("batch");
            move || {
                begin();
                // What it starts is batch, too: it does not come before the others.
                let child = spawn(child);
                yield_now();
                child.join().unwrap();
                after();
            }
        });
        let others: Vec<_> = (0..3)
            .map(|_| {
                let end = note("other");
                spawn(move || {
                    (0..100).for_each(|_| yield_now());
                    end();
                })
            })
            .collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(*log.lock().unwrap(), ["other"; 3]);
        last.join().unwrap();
        let log = log.lock().unwrap();
        log.clone()
    });
    assert_eq!(log[3..], ["batch", "child", "after"]);
}

#[test]
fn children_of_batch_threads_wait_for_all_others() {
    runtime(1).run(|| {
        let order = Flag::default();
        let seen = order.clone();
        let (send, receive) = oneshot::channel();
        let parent = batch(move || {
            let child = spawn(move || {
                assert!(seen.is_up(), "the child of a batch thread came before the others");
            });
            // The first thread is ready from here on.
            send.send(()).unwrap();
            yield_now();
            child.join().unwrap();
        });
        receive.recv().unwrap();
        (0..100).for_each(|_| yield_now());
        order.raise();
        parent.join().unwrap();
    });
}

#[test]
fn a_wake_up_from_elsewhere_cuts_it() {
    runtime(1).run(|| {
        let (begun, told) = (Flag::default(), Flag::default());
        let (send, receive) = oneshot::channel::<u32>();
        let waits = begun.clone();
        let plain = std::thread::spawn(move || {
            waits.wait();
            send.send(7).unwrap();
        });
        let ends = told.clone();
        let other = spawn(move || {
            let number = receive.recv().unwrap();
            ends.raise();
            number
        });
        let computes = batch(move || {
            begun.raise();
            compute_until(&told.0);
        });
        assert_eq!(other.join().unwrap(), 7);
        computes.join().unwrap();
        plain.join().unwrap();
    });
}

/// What it makes ready itself comes before it, too.
#[test]
fn its_own_wake_up_cuts_it() {
    runtime(1).run(|| {
        let told = Flag::default();
        let (send, receive) = oneshot::channel::<u32>();
        let ends = told.clone();
        let other = spawn(move || {
            let number = receive.recv().unwrap();
            ends.raise();
            number
        });
        batch(move || {
            send.send(7).unwrap();
            compute_until(&told.0);
        })
        .join()
        .unwrap();
        assert_eq!(other.join().unwrap(), 7);
    });
}

#[test]
fn a_timer_and_a_socket_cut_it() {
    runtime(1).run(|| {
        let told = Flag::default();
        let ends = told.clone();
        let sleeper = spawn(move || {
            curtail::time::sleep(Duration::from_millis(1));
            ends.raise();
        });
        batch(move || compute_until(&told.0)).join().unwrap();
        sleeper.join().unwrap();

        let socket = curtail::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (begun, told) = (Flag::default(), Flag::default());
        let (waits, ends) = (begun.clone(), told.clone());
        let plain = std::thread::spawn(move || {
            waits.wait();
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.send_to(b"x", address).unwrap();
        });
        let reader = spawn(move || {
            socket.recv_from(&mut [0; 4]).unwrap();
            ends.raise();
        });
        batch(move || {
            begun.raise();
            compute_until(&told.0);
        })
        .join()
        .unwrap();
        reader.join().unwrap();
        plain.join().unwrap();
    });
}

#[test]
fn it_makes_room_for_what_another_kthread_has_to_spare() {
    runtime(2).run(|| {
        let (begun, told) = (Flag::default(), Flag::default());
        let (begins, ends) = (begun.clone(), told.clone());
        let computes = batch(move || {
            begins.raise();
            compute_until(&ends.0);
        });
        // It neither blocks nor yields: the other kthread, which sleeps, takes the batch thread,
        begun.wait();
        let (ran, runs) = (Flag::default(), Flag::default());
        for flag in [ran.clone(), runs.clone()] {
            drop(spawn(move || flag.raise()));
        }
        // and comes for these while it runs that.
        ran.wait();
        runs.wait();
        told.raise();
        computes.join().unwrap();
    });
}

#[test]
fn what_was_cut_goes_on_and_waits_like_any_other() {
    const ROUNDS: u64 = 20_000;
    let (sum, ticks) = runtime(2).run(|| {
        let done = Flag::default();
        let ends = done.clone();
        let ticker = spawn(move || {
            let mut ticks = 0_u64;
            while !ends.is_up() {
                curtail::time::sleep(Duration::from_micros(20));
                ticks += 1;
            }
            ticks
        });
        let (sender, receiver) = curtail::sync::mpsc::channel();
        let adds = batch(move || receiver.into_iter().sum::<u64>());
        let sends: Vec<_> = (0..4)
            .map(|_| {
                let sender = sender.clone();
                batch(move || {
                    (0..ROUNDS).for_each(|number| {
                        safepoint();
                        sender.send(number).unwrap();
                    });
                })
            })
            .collect();
        drop(sender);
        sends.into_iter().for_each(|send| send.join().unwrap());
        let sum = adds.join().unwrap();
        done.raise();
        (sum, ticker.join().unwrap())
    });
    assert_eq!(sum, 4 * (ROUNDS * (ROUNDS - 1) / 2));
    assert!(ticks > 0);
}

#[test]
fn panics_and_scopes_are_as_in_any_thread() {
    runtime(2).run(|| {
        let panics = batch(|| panic!("on purpose"));
        assert!(panics.join().is_err());
        let numbers = [1, 2, 3];
        let sum = curtail::scope(|scope| {
            let sum = || numbers.iter().sum::<i32>();
            Builder::new().batch().spawn_scoped(scope, sum).unwrap().join().unwrap()
        });
        assert_eq!(sum, 6);
        // Dropped, and left behind by the end.
        drop(batch(|| ()));
    });
}

#[test]
fn a_handler_starts_it_and_requests_come_before_it() {
    for kthreads in [1, 2] {
        let (told, ended) = (Flag::default(), Arc::new(AtomicUsize::new(0)));
        let (ends, ending) = (told.clone(), ended.clone());
        let app = Does(move |request: &[u8], response: &mut Response| {
            if request == b"batch" {
                for _ in 0..3 {
                    let (told, ended) = (ends.clone(), ending.clone());
                    drop(batch(move || {
                        compute_until(&told.0);
                        ended.fetch_add(1, Ordering::SeqCst);
                    }));
                }
            }
            response.write(request);
        });
        serve(
            app,
            |server| server.policy(preset("shenango")).workers(kthreads),
            move |client, _| {
                let ask = |what: &[u8]| client.submit(what.to_vec()).unwrap().wait().unwrap();
                assert_eq!(ask(b"batch"), b"batch");
                (0..50).for_each(|_| assert_eq!(ask(b"x"), b"x"));
                told.raise();
            },
        );
        assert_eq!(ended.load(Ordering::SeqCst), 3, "the server waits for them");
    }
}
