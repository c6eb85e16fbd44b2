//! Started threads go on on another kthread where theirs is stuck or busy; what is tied to its kthread
//! stays.

use crate::common;

use common::STUCK;
use curtail::net::TcpListener;
use curtail::sync::{Barrier, Mutex, mpsc};
use curtail::{Builder, Io, Runtime, spawn, yield_now};
use std::cell::Cell;
use std::collections::HashSet;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// The kernel's number of the kthread that runs the caller.
fn here() -> i32 {
    // SAFETY: no arguments, always succeeds.
    unsafe { libc::gettid() }
}

/// Keeps the kthread in the kernel, by a call that nothing of Curtail's sees.
fn stick(from: &PipeReader) {
    assert_eq!(rustix::io::read(from, &mut [0]).unwrap(), 1);
}

fn unstick(mut to: &PipeWriter) {
    to.write_all(b"x").unwrap();
}

fn two() -> curtail::RuntimeBuilder {
    Runtime::builder().kthreads(2).run_to_completion().watchdog(None)
}

/// The caller goes on with at least one of `count` threads at home on its own kthread, all of which
/// have started.
fn start_some_here(count: usize, body: impl Fn() + Send + Sync + 'static) {
    let (body, started) = (Arc::new(body), Arc::new(AtomicUsize::new(0)));
    for _ in 0..count {
        let (body, started) = (body.clone(), started.clone());
        drop(spawn(move || {
            started.fetch_add(1, Ordering::Relaxed);
            body();
        }));
    }
    while started.load(Ordering::Relaxed) < count {
        yield_now();
    }
}

#[test]
fn ready_threads_of_a_stuck_kthread_go_on_elsewhere() {
    let (from, to) = std::io::pipe().unwrap();
    two().run(move || {
        let left = Arc::new(AtomicUsize::new(16));
        start_some_here(16, move || {
            (0..10_000).for_each(|_| yield_now());
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                unstick(&to);
            }
        });
        stick(&from);
    });
}

#[test]
fn sockets_of_a_stuck_kthread_are_looked_at_elsewhere() {
    stuck_with_sockets(Io::Epoll);
    stuck_with_sockets(Io::Uring);
}

fn stuck_with_sockets(io: Io) {
    let (from, to) = std::io::pipe().unwrap();
    two().io(io).run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = (0..16).map(|_| {
            let client = std::net::TcpStream::connect(address).unwrap();
            (client, listener.accept().unwrap().0)
        });
        let (mut clients, servers): (Vec<_>, Vec<_>) = ends.unzip();
        let (servers, left) = (Mutex::new(servers), Arc::new(AtomicUsize::new(16)));
        start_some_here(16, move || {
            let mut server = servers.lock().unwrap().pop().unwrap();
            server.write_all(b"r").unwrap();
            server.read_exact(&mut [0]).unwrap();
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                unstick(&to);
            }
        });
        // What waits in the kernel meanwhile is a thread of the kernel's.
        let writer = std::thread::spawn(move || {
            for client in &mut clients {
                client.read_exact(&mut [0]).unwrap();
                client.write_all(b"x").unwrap();
            }
        });
        stick(&from);
        writer.join().unwrap();
    });
}

#[test]
fn threads_that_wait_at_a_stuck_kthread_are_woken_elsewhere() {
    let (from, to) = std::io::pipe().unwrap();
    two().run(move || {
        let (ready, waits) = (Arc::new(Barrier::new(16)), Arc::new(AtomicUsize::new(16)));
        let (counter, left) = (Arc::new(Mutex::new(0)), Arc::new(AtomicUsize::new(16)));
        let count = counter.clone();
        start_some_here(16, move || {
            ready.wait();
            waits.fetch_sub(1, Ordering::Relaxed);
            // All wait for each other, again and again.
            for _ in 0..500 {
                *count.lock().unwrap() += 1;
                ready.wait();
            }
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                unstick(&to);
            }
        });
        stick(&from);
        assert_eq!(*counter.lock().unwrap(), 16 * 500);
    });
}

#[test]
fn a_plain_thread_wakes_them_elsewhere() {
    let (from, to) = std::io::pipe().unwrap();
    let (sender, receiver) = mpsc::sync_channel(2);
    let plain = std::thread::spawn(move || {
        let sum = receiver.iter().sum::<u32>();
        unstick(&to);
        sum
    });
    two().run(move || {
        start_some_here(8, move || (0..500).for_each(|n| sender.send(n).unwrap()));
        stick(&from);
    });
    assert_eq!(plain.join().unwrap(), 8 * 124_750);
}

/// It has its own thread-locals, whichever kthread runs it, and both do.
#[test]
fn a_thread_takes_its_thread_locals_along() {
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(0) };
    }
    two().run(|| {
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let moved = Arc::new(AtomicBool::new(false));
        let since = Instant::now();
        let threads: Vec<_> = (1..9)
            .map(|number| {
                let (seen, moved) = (seen.clone(), moved.clone());
                spawn(move || {
                    MINE.set(number);
                    let first = here();
                    seen.lock().unwrap().insert(first);
                    while !moved.load(Ordering::Relaxed) {
                        assert!(since.elapsed() < STUCK, "none has moved");
                        (0..100).for_each(|_| yield_now());
                        assert_eq!(MINE.get(), number);
                        seen.lock().unwrap().insert(here());
                        moved.fetch_or(here() != first, Ordering::Relaxed);
                        // Both kthreads have something else to do now and then.
                        (0..5_000).for_each(|_| std::hint::spin_loop());
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(seen.lock().unwrap().len(), 2);
    });
}

#[test]
fn light_threads_stay() {
    two().run(|| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let body = || {
                    let first = here();
                    for _ in 0..2_000 {
                        yield_now();
                        assert_eq!(here(), first);
                    }
                };
                Builder::new().light().spawn(body).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A child that its joiner runs itself moves, and so the joiner is woken where it is.
#[test]
fn a_joiner_is_woken_whose_child_has_moved() {
    two().run(|| {
        let threads: Vec<_> = (0..8)
            .map(|number: u64| {
                spawn(move || {
                    (0..200).fold(0, |sum, _| {
                        let child = spawn(move || {
                            (0..20).for_each(|_| yield_now());
                            number
                        });
                        sum + child.join().unwrap()
                    })
                })
            })
            .collect();
        let sums: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(sums, (0..8).map(|number| 200 * number).collect::<Vec<_>>());
    });
}

/// The runtime ends with its first thread, wherever that ends.
#[test]
fn the_first_thread_moves_too() {
    for _ in 0..20 {
        let others = Arc::new(AtomicUsize::new(0));
        let count = others.clone();
        two().run(move || {
            for _ in 0..4 {
                let others = others.clone();
                drop(spawn(move || {
                    loop {
                        others.fetch_add(1, Ordering::Relaxed);
                        yield_now();
                    }
                }));
            }
            (0..500).for_each(|_| yield_now());
        });
        assert!(count.load(Ordering::Relaxed) > 0);
    }
}
