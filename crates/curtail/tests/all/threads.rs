//! Threads without a server: spawning, joining, panics, parking, scopes, locals, time.

use crate::common;

use common::in_kernel;
use curtail::{Builder, Runtime, current, park, scope, spawn, yield_now};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// On one kthread and on several: most defects show on one of them only.
fn on_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    for kthreads in [1, 2, 4] {
        let f = f.clone();
        Runtime::builder().kthreads(kthreads).run(f);
    }
}

#[test]
fn values_come_back() {
    on_each(|| {
        assert_eq!(spawn(|| 6 * 7).join().unwrap(), 42);
        let handles: Vec<_> = (0..1_000).map(|n: u64| spawn(move || n * n)).collect();
        let sum: u64 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sum, (0..1_000).map(|n| n * n).sum::<u64>());
        // Large closures and results lie on the heap.
        let large = [7_u8; 10_000];
        let back = spawn(move || large).join().unwrap();
        assert_eq!(back, large);
    });
    assert_eq!(curtail::run(|| "done".to_owned()), "done");
}

#[test]
fn panics_come_back() {
    on_each(|| {
        let payload = spawn(|| panic!("of {}", std::hint::black_box(1))).join().unwrap_err();
        assert_eq!(payload.downcast_ref::<String>().unwrap(), "of 1");
        assert_eq!(spawn(|| 5).join().unwrap(), 5, "others go on");
    });
    let panicked = catch_unwind(|| curtail::run(|| panic!("main")));
    assert_eq!(*panicked.unwrap_err().downcast_ref::<&str>().unwrap(), "main");
    assert_eq!(curtail::run(|| 1), 1, "another runtime on the same thread");
}

#[test]
fn a_dropped_handle_leaves_its_thread_to_itself() {
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    on_each(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        for round in 0..500 {
            let count = Count(dropped.clone());
            let handle = spawn(move || count);
            if round % 2 == 0 {
                yield_now(); // Some have ended by now, some not.
            }
            drop(handle);
        }
        while dropped.load(Ordering::Relaxed) < 500 {
            yield_now();
        }
    });
}

#[test]
fn parking_and_unparking() {
    on_each(|| {
        let turn = Arc::new(AtomicUsize::new(0));
        let main = current();
        let other = {
            let turn = turn.clone();
            Builder::new()
                .name("other")
                .spawn(move || {
                    assert_eq!(current().name(), Some("other"));
                    for round in 0..1_000 {
                        while turn.load(Ordering::Acquire) != 2 * round + 1 {
                            park();
                        }
                        turn.store(2 * round + 2, Ordering::Release);
                        main.unpark();
                    }
                })
                .unwrap()
        };
        for round in 0..1_000 {
            turn.store(2 * round + 1, Ordering::Release);
            other.thread().unpark();
            while turn.load(Ordering::Acquire) != 2 * round + 2 {
                park();
            }
        }
        other.join().unwrap();
        curtail::park_timeout(Duration::ZERO); // Takes a token that is left over.
        let before = Instant::now();
        curtail::park_timeout(Duration::from_millis(5));
        assert!(before.elapsed() >= Duration::from_millis(5));
    });
}

#[test]
fn scoped_threads_borrow() {
    on_each(|| {
        let mut counts = vec![0_u32; 100];
        let total = AtomicUsize::new(0);
        let first = scope(|s| {
            let handles: Vec<_> = counts
                .iter_mut()
                .enumerate()
                .map(|(index, count)| {
                    let total = &total;
                    s.spawn(move || {
                        yield_now();
                        *count = index as u32;
                        total.fetch_add(1, Ordering::Relaxed);
                        index
                    })
                })
                .collect();
            handles.into_iter().next().unwrap().join().unwrap()
        });
        assert_eq!((first, total.into_inner(), counts[99]), (0, 100, 99));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                s.spawn(|| panic!("in a scope"));
            });
        }));
        assert!(panicked.is_err());
    });
}

thread_local! {
    static NAME: RefCell<String> = RefCell::new(String::from("new"));
    static NUMBER: Cell<u32> = const { Cell::new(7) };
    static GUARD: Guard = const { Guard };
}

static GUARDS_DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        NUMBER.with(|number| assert_eq!(number.get(), 8, "made before, dropped after"));
        GUARDS_DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn each_thread_has_its_own_variables() {
    on_each(|| {
        let before = GUARDS_DROPPED.load(Ordering::Relaxed);
        let threads: Vec<_> = (0..50)
            .map(|n| {
                spawn(move || {
                    NAME.with_borrow_mut(|name| {
                        assert_eq!(name, "new");
                        *name = format!("thread {n}");
                    });
                    NUMBER.set(8);
                    GUARD.with(|_| {});
                    yield_now();
                    NAME.with_borrow(|name| assert_eq!(*name, format!("thread {n}")));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(GUARDS_DROPPED.load(Ordering::Relaxed) - before, 50);
        assert_eq!(NUMBER.get(), 7);
    });
    assert_eq!(NUMBER.get(), 7, "a plain thread has one, too");
}

thread_local! {
    static LAST_WORDS: LastWords = const { LastWords };
}

static LAST_WORDS_SAID: AtomicUsize = AtomicUsize::new(0);

/// Its end waits.
struct LastWords;

impl Drop for LastWords {
    fn drop(&mut self) {
        curtail::time::sleep(Duration::from_millis(1));
        spawn(yield_now).join().unwrap();
        LAST_WORDS_SAID.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the first thread leaves behind may wait: the runtime ends with that thread, not with its
/// closure.
#[test]
fn the_first_thread_leaves_the_processor_on_its_way_out() {
    for (index, kthreads) in [1, 2, 4].into_iter().enumerate() {
        let answer = Runtime::builder().kthreads(kthreads).run(|| LAST_WORDS.with(|_| 42));
        assert_eq!(answer, 42);
        assert_eq!(LAST_WORDS_SAID.load(Ordering::Relaxed), index + 1);
    }
}

#[test]
fn many_threads_block_at_once() {
    Runtime::builder().kthreads(2).stack_size(16 * 1024).run(|| {
        let released = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..20_000)
            .map(|_| {
                let released = released.clone();
                spawn(move || {
                    while released.load(Ordering::Acquire) == 0 {
                        park();
                    }
                })
            })
            .collect();
        yield_now();
        released.store(1, Ordering::Release);
        threads.iter().for_each(|thread| thread.thread().unpark());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn sleeping_and_timeouts() {
    use curtail::time::{sleep, timeout};
    on_each(|| {
        let begin = Instant::now();
        let sleepers: Vec<_> =
            (0..100).map(|n| spawn(move || sleep(Duration::from_millis(n % 7)))).collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        assert!(begin.elapsed() >= Duration::from_millis(6));

        let dropped = Arc::new(AtomicUsize::new(0));
        struct OnDrop(Arc<AtomicUsize>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let guard = OnDrop(dropped.clone());
        let ended = timeout(Duration::from_millis(2), move || {
            let _guard = guard;
            park();
        });
        assert!(ended.is_err() && dropped.load(Ordering::Relaxed) == 1);
        assert_eq!(timeout(Duration::from_secs(60), || 3), Ok(3));
        // The outer one ends both.
        let nested = timeout(Duration::from_millis(2), || {
            timeout(Duration::from_secs(60), || sleep(Duration::from_secs(60)))
        });
        assert!(nested.is_err());
        let inner = timeout(Duration::from_secs(60), || {
            timeout(Duration::from_millis(2), || sleep(Duration::from_secs(60)))
        });
        assert!(matches!(inner, Ok(Err(_))));
    });
}

#[test]
fn what_has_not_started_is_stolen() {
    // The first thread never lets go of its kthread: the other one has to run the rest.
    Runtime::builder().kthreads(2).run(|| {
        let count = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..1_000)
            .map(|_| {
                let count = count.clone();
                spawn(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(20);
        while count.load(Ordering::Relaxed) < 1_000 {
            assert!(Instant::now() < until, "only {} ran", count.load(Ordering::Relaxed));
            in_kernel(Duration::from_micros(50)); // `std::thread::yield_now` would let them run.
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn plain_threads_join_and_unpark() {
    curtail::run(|| {
        let (send, receive) = std::sync::mpsc::channel();
        let ours = spawn(move || {
            send.send(current()).unwrap();
            park();
            11
        });
        let plain = std::thread::spawn(move || {
            receive.recv().unwrap().unpark();
            ours.join().unwrap()
        });
        while !plain.is_finished() {
            yield_now();
        }
        assert_eq!(plain.join().unwrap(), 11);
    });
    let outside = catch_unwind(|| spawn(|| {}));
    let message = outside.unwrap_err();
    assert!(message.downcast_ref::<String>().unwrap().contains("curtail::run"));
}

#[test]
fn a_stuck_kthread_is_told_of_and_its_queue_goes_on() {
    #[inline(never)]
    fn stuck_here(release: &AtomicUsize) {
        let until = Instant::now() + Duration::from_secs(20);
        while release.load(Ordering::Acquire) == 0 && Instant::now() < until {
            in_kernel(Duration::from_millis(1));
        }
    }
    let stalls = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = stalls.clone();
    let builder = Runtime::builder().kthreads(1).watchdog(Some(Duration::from_millis(20)));
    let builder = builder.on_stall(move |stall| told.lock().unwrap().push(stall.clone()));
    builder.run(|| {
        let release = Arc::new(AtomicUsize::new(0));
        let releases = release.clone();
        // Only a spare kthread can run it.
        let other = spawn(move || releases.store(1, Ordering::Release));
        stuck_here(&release);
        assert_eq!(release.load(Ordering::Acquire), 1);
        other.join().unwrap();
    });
    let stalls = stalls.lock().unwrap();
    let first = &stalls[0];
    assert_eq!(first.kthread, 0);
    assert!(first.duration >= Duration::from_millis(20));
    assert!(first.stack.iter().any(|frame| frame.contains("stuck_here")), "{first}");
}
