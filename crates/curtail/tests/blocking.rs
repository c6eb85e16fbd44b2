//! `blocking`, `block_on`, and what `time` has beside sleeping.

use curtail::time::{interval, sleep, sleep_until, timeout};
use curtail::{Runtime, block_on, blocking, spawn, yield_now};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

fn on_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    for kthreads in [1, 2, 4] {
        let f = f.clone();
        Runtime::builder().kthreads(kthreads).run(f);
    }
}

fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let named = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.trim() == "curtail-blockin" // The kernel keeps fifteen bytes.
    };
    tasks.filter_map(Result::ok).filter(named).count()
}

/// The pool is the process's: tests that count its threads have it for themselves.
static POOL: Mutex<()> = Mutex::new(());

#[test]
fn blocked_calls_run_beside_each_other_and_beside_threads() {
    let _alone = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    on_each(|| {
        // Each waits for all others, in the kernel: so they run at once, and not on the kthreads.
        let barrier = Arc::new(Barrier::new(32));
        let others = Arc::new(AtomicUsize::new(0));
        let waiting: Vec<_> = (0..32)
            .map(|n| {
                let (barrier, others) = (barrier.clone(), others.clone());
                spawn(move || {
                    others.fetch_add(1, Ordering::Relaxed);
                    blocking(|| {
                        barrier.wait();
                        n
                    })
                })
            })
            .collect();
        let sum: i32 = waiting.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, (0..32).sum());
        assert_eq!(others.load(Ordering::Relaxed), 32);
    });
    // Of 96 calls. One that is on its way back from its call is not used again yet.
    assert!(threads() <= 64, "{} threads", threads());
    let until = Instant::now() + Duration::from_secs(20);
    while threads() > 0 {
        assert!(Instant::now() < until, "{} threads stay", threads());
        std::thread::yield_now();
    }
}

#[test]
fn many_more_calls_than_threads_all_run() {
    let _alone = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    Runtime::builder().kthreads(2).stack_size(32 * 1024).run(|| {
        let calls: Vec<_> = (0..2_000_u64)
            .map(|n| {
                spawn(move || {
                    blocking(move || {
                        std::thread::sleep(Duration::from_micros(n % 300));
                        n
                    })
                })
            })
            .collect();
        let sum: u64 = calls.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, (0..2_000).sum());
        assert!(threads() <= 256, "{} threads", threads());
    });
}

#[test]
fn blocked_calls_borrow_and_panic() {
    on_each(|| {
        let text = String::from("borrowed");
        assert_eq!(blocking(|| text.len()), 8);
        let panicked = catch_unwind(AssertUnwindSafe(|| blocking(|| panic!("of {}", text.len()))));
        let payload = panicked.unwrap_err();
        assert_eq!(payload.downcast_ref::<String>().unwrap(), "of 8");
        // The time of a timeout does not end it; what it returns is not lost.
        let late = timeout(Duration::from_millis(1), || {
            blocking(|| std::thread::sleep(Duration::from_millis(5)));
            "done"
        });
        assert_eq!(late, Ok("done"));
        let ended = timeout(Duration::from_millis(1), || {
            blocking(|| std::thread::sleep(Duration::from_millis(5)));
            sleep(Duration::from_secs(60));
        });
        assert!(ended.is_err());
        // Code that must not wait is told before anything runs, and names are looked up all the
        // same.
        let rcu = curtail::sync::rcu::Rcu::new(1);
        let reading = catch_unwind(AssertUnwindSafe(|| rcu.read(|_| blocking(|| unreachable!()))));
        let payload = reading.unwrap_err();
        assert!(payload.downcast_ref::<&str>().unwrap().contains("RCU"));
        rcu.read(|_| drop(std::net::ToSocketAddrs::to_socket_addrs("localhost:1").unwrap()));
    });
    assert_eq!(blocking(|| std::thread::current().id()), std::thread::current().id());
}

/// Pending `left` times, and wakes itself each time as `how` says.
struct Wakes {
    left: u32,
    how: fn(&Waker),
}

impl Future for Wakes {
    type Output = u32;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        if self.left == 0 {
            return Poll::Ready(7);
        }
        self.left -= 1;
        (self.how)(context.waker());
        Poll::Pending
    }
}

fn each_way() -> [fn(&Waker); 4] {
    [
        Waker::wake_by_ref,
        |waker| {
            // Twice, and by clones, of which one is never used.
            let clones = [waker.clone(), waker.clone()];
            waker.wake_by_ref();
            clones.into_iter().next().unwrap().wake();
        },
        |waker| {
            let waker = waker.clone();
            drop(std::thread::spawn(move || waker.wake()));
        },
        |waker| {
            let waker = waker.clone();
            // A thread of Curtail's where there is one.
            match catch_unwind(AssertUnwindSafe(|| spawn(move || waker.wake()))) {
                Ok(thread) => drop(thread),
                Err(_) => panic!("no runtime"),
            }
        },
    ]
}

#[test]
fn futures_run_to_their_end() {
    on_each(|| {
        for how in each_way() {
            assert_eq!(block_on(Wakes { left: 200, how }), 7);
        }
        assert_eq!(block_on(async { block_on(async { 1 }) + 1 }), 2);
        let panicked = catch_unwind(|| block_on(async { panic!("inside") }));
        assert_eq!(*panicked.unwrap_err().downcast_ref::<&str>().unwrap(), "inside");
        let ended = timeout(Duration::from_millis(2), || block_on(std::future::pending::<()>()));
        assert!(ended.is_err());
    });
    for how in &each_way()[..3] {
        assert_eq!(block_on(Wakes { left: 200, how: *how }), 7, "on a plain thread");
    }
}

#[test]
fn parking_and_futures_do_not_take_each_others_wakeups() {
    on_each(|| {
        let me = curtail::current();
        // Parks inside of the future: the future's wake-up stays, and so does the thread's token.
        let mut polls = 0;
        block_on(poll_fn(|context| {
            polls += 1;
            if polls == 3 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            me.unpark();
            curtail::park();
            Poll::Pending
        }));
        let begin = Instant::now();
        curtail::park_timeout(Duration::from_millis(3));
        assert!(begin.elapsed() >= Duration::from_millis(3), "no token was left behind");
    });
}

#[test]
fn no_wakeup_of_a_future_is_lost() {
    Runtime::builder().kthreads(2).run(|| {
        let (send, receive) = mpsc::channel::<Waker>();
        let stop = Arc::new(AtomicBool::new(false));
        // Wakes at any moment: before the thread waits, while it goes to wait, and after.
        let waking = std::thread::spawn({
            let stop = stop.clone();
            move || {
                while !stop.load(Ordering::Acquire) {
                    if let Ok(waker) = receive.try_recv() {
                        waker.wake();
                    }
                }
            }
        });
        for _ in 0..20_000 {
            let mut asked = false;
            block_on(poll_fn(|context| {
                if asked {
                    return Poll::Ready(());
                }
                asked = true;
                send.send(context.waker().clone()).unwrap();
                Poll::Pending
            }));
        }
        stop.store(true, Ordering::Release);
        blocking(|| waking.join().unwrap());
    });
}

#[test]
fn ticks_come_in_time_and_missed_ones_are_counted() {
    on_each(|| {
        let period = Duration::from_millis(2);
        let begin = Instant::now();
        let mut ticks = interval(period);
        assert_eq!(ticks.period(), period);
        let mut due = 0;
        for _ in 0..5 {
            due += ticks.tick() as u32 + 1;
            assert!(begin.elapsed() >= period * due, "tick {due} came early");
        }
        sleep(period * 5);
        let missed = ticks.tick() as u32;
        assert!(missed >= 4, "{missed} missed");
        due += missed + 1;
        assert!(begin.elapsed() >= period * due);
        // It does not drift: the next tick is where it would have been.
        due += ticks.tick() as u32 + 1;
        assert!(begin.elapsed() >= period * due);
        ticks.reset();
        let reset = Instant::now();
        ticks.tick();
        assert!(reset.elapsed() >= period - Duration::from_micros(100));

        let instant = Instant::now() + Duration::from_millis(3);
        sleep_until(instant);
        assert!(Instant::now() >= instant);
        sleep_until(instant);
        yield_now();
    });
    assert!(catch_unwind(|| interval(Duration::ZERO)).is_err());
}
