//! Pools: values, panics, refusals, what is given up, the end; without an executor.

use crate::common;

use common::{STUCK, in_kernel, in_time};
use curtail::pool::{Class, Error, Job, Pool, Why};
use curtail::{ClassId, Preempt, StartError, policy};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const A: ClassId = ClassId(0);
const B: ClassId = ClassId(1);

fn two_classes(workers: usize) -> curtail::pool::Builder {
    Pool::builder().workers(workers).class(Class::named("a").limit(8)).class(Class::named("b"))
}

/// A job that holds a worker until it is let go.
struct Held {
    job: Job<()>,
    go: Sender<()>,
}

impl Held {
    fn new(pool: &Pool, class: ClassId) -> Self {
        let (go, goes): (_, Receiver<()>) = channel();
        let (begins, began) = channel();
        let job = pool.run(class, move || {
            begins.send(()).unwrap();
            hold(&goes);
        });
        began.recv_timeout(STUCK).expect("it begins");
        Self { job, go }
    }

    fn release(self) {
        self.go.send(()).unwrap();
        self.job.wait().unwrap();
    }
}

/// Keeps the worker, until there is a word or its sender has gone.
fn hold(goes: &Receiver<()>) {
    while let Err(TryRecvError::Empty) = goes.try_recv() {
        in_kernel(Duration::from_micros(100));
    }
}

/// Until `is` holds; a deadlock is a failure.
fn until(is: impl Fn() -> bool) {
    let end = Instant::now() + STUCK;
    while !is() {
        assert!(Instant::now() < end, "it does not come");
        thread::sleep(Duration::from_micros(200));
    }
}

fn why<T: std::fmt::Debug>(result: Result<T, Error>) -> Why {
    match result {
        Err(Error::Refused(refused)) => refused.why,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn values_come_back_by_wait_and_as_futures() {
    let pool = two_classes(2).build().unwrap();
    let jobs: Vec<_> = (0..500_u64)
        .map(|n| {
            let class = if n % 2 == 0 { pool.class("b").unwrap() } else { B };
            pool.run(class, move || (n, vec![n; 3]))
        })
        .collect();
    for (n, job) in (0..).zip(jobs) {
        assert_eq!(job.wait().unwrap(), (n, vec![n; 3]));
    }
    let pair = curtail::block_on(async {
        let (x, y) = (pool.run(A, || "x".to_owned()), pool.run(A, || 7));
        (x.await.unwrap(), y.await.unwrap())
    });
    assert_eq!(pair, ("x".to_owned(), 7));
    let stats = pool.stats();
    assert_eq!((stats[0].completed, stats[1].completed), (2, 500));
    assert_eq!((stats[1].submitted, stats[1].under_way, stats[1].in_progress), (500, 0, 0));
    assert_eq!(stats[1].sojourn_ns.len(), 500);
    assert!(stats[1].queueing_ns.max() <= stats[1].sojourn_ns.max());
    assert_eq!((pool.workers(), pool.class("c")), (2, None));
}

#[test]
fn panics_come_back_and_the_worker_lives() {
    let pool = two_classes(1).build().unwrap();
    for n in 0..20 {
        let error = pool.run(A, move || assert!(n > 100, "job {n}")).wait().unwrap_err();
        assert_eq!(error.to_string(), format!("class a: the job panicked: job {n}"));
        let Error::Panicked(panic) = error else { panic!("{error}") };
        assert_eq!(panic.into_payload().downcast_ref::<String>().unwrap(), &format!("job {n}"));
        assert_eq!(pool.run(A, move || n).wait().unwrap(), n);
    }
    assert_eq!((pool.stats()[0].panicked, pool.stats()[0].completed), (20, 20));
}

#[test]
fn a_full_class_refuses_and_others_do_not() {
    let pool = two_classes(1).build().unwrap();
    let held = Held::new(&pool, B);
    let waiting: Vec<_> = (0..8).map(|n| pool.run(A, move || n)).collect();
    let refused = pool.run(A, || 8).wait().unwrap_err();
    let text = "class a: it has 8 jobs under way already, which is its limit";
    assert_eq!(refused.to_string(), text);
    let kept = Arc::new(());
    let mine = kept.clone();
    let refused = pool.try_run(A, move || mine).unwrap_err();
    assert_eq!((refused.refused.why, &*refused.refused.class), (Why::Full { limit: 8 }, "a"));
    assert_eq!(Arc::strong_count(&kept), 2, "the closure comes back");
    let other = pool.try_run(B, || 9).unwrap();
    assert_eq!(pool.stats()[0].refused_full, 2);
    held.release();
    assert_eq!(other.wait().unwrap(), 9);
    assert!((0..).zip(waiting).all(|(n, job)| job.wait().unwrap() == n));
    assert_eq!(
        pool.try_run(A, refused.f).unwrap().wait().map(|same| Arc::ptr_eq(&same, &kept)).ok(),
        Some(true)
    );
    let unknown = pool.run(ClassId(2), || ()).wait().unwrap_err();
    assert_eq!(unknown.to_string(), "class 2: the pool has only 2 classes");
}

#[test]
fn what_waits_too_long_is_refused_while_the_workers_are_held() {
    let limit = Duration::from_millis(5);
    let old = Class::named("a").max_age(limit);
    let pool = Pool::builder().workers(1).class(old).class(Class::named("b")).build().unwrap();
    let held = Held::new(&pool, B);
    let ran = Arc::new(AtomicBool::new(false));
    let runs = ran.clone();
    let begun = Instant::now();
    let job = pool.run(A, move || runs.store(true, Ordering::SeqCst));
    let patient = pool.run(B, || 1);
    assert_eq!(why(job.wait()), Why::TooOld { limit });
    assert!(begun.elapsed() >= limit, "not before its time");
    held.release();
    assert_eq!(patient.wait().unwrap(), 1);
    assert!(!ran.load(Ordering::SeqCst));
    let stats = pool.stats();
    assert_eq!((stats[0].refused_too_old, stats[0].under_way, stats[0].completed), (1, 0, 0));
}

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn what_is_given_up_before_it_begins_is_not_run() {
    let pool = two_classes(1).build().unwrap();
    let held = Held::new(&pool, B);
    let (drops, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // More than the class may have: those that were given up do not count.
    for n in 0..100 {
        let (mine, runs) = (Counted(drops.clone()), runs.clone());
        let job = pool.run(B, move || {
            runs.fetch_add(1, Ordering::SeqCst);
            drop(mine);
        });
        drop(job);
        assert_eq!(drops.load(Ordering::SeqCst), n + 1, "dropped at once, by who gave it up");
    }
    let stats = pool.stats();
    assert_eq!((stats[1].given_up, stats[1].under_way), (100, 1));
    held.release();
    pool.run(B, || ()).wait().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[test]
fn what_is_given_up_later_ends_and_its_value_is_dropped() {
    let pool = two_classes(1).build().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let (go, goes) = channel();
    let (begins, began) = channel();
    let value = Counted(drops.clone());
    let job = pool.run(A, move || {
        begins.send(()).unwrap();
        hold(&goes);
        value
    });
    began.recv_timeout(STUCK).unwrap();
    drop(job);
    assert_eq!(drops.load(Ordering::SeqCst), 0);
    go.send(()).unwrap();
    until(|| drops.load(Ordering::SeqCst) == 1);
    until(|| pool.stats()[0].under_way == 0);
    assert_eq!((pool.stats()[0].completed, pool.stats()[0].given_up), (1, 0));
}

#[test]
fn a_destructor_that_panics_harms_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("dropped");
            }
        }
    }
    let pool = two_classes(1).build().unwrap();
    let (begins, began) = channel();
    let (go, goes) = channel();
    let job = pool.run(A, move || {
        begins.send(()).unwrap();
        hold(&goes);
        Bomb
    });
    began.recv_timeout(STUCK).unwrap();
    drop(job);
    go.send(()).unwrap();
    assert_eq!(pool.run(B, || 3).wait().unwrap(), 3);
    until(|| pool.stats()[0].under_way == 0);
}

#[test]
fn jobs_of_one_pool_wait_for_jobs_of_another_and_of_their_own() {
    let (one, other) = (two_classes(1).build().unwrap(), two_classes(1).build().unwrap());
    let (inner, own) = (other.clone(), one.clone());
    let sum = one.run(A, move || {
        let mut sum = 0;
        for n in 0..50 {
            sum += inner.run(B, move || n).wait().unwrap();
            // It waits, so its only worker is free for this one.
            sum += own.run(B, move || n).wait().unwrap();
        }
        sum
    });
    assert_eq!(sum.wait().unwrap(), 2 * (0..50).sum::<i32>());
    assert_eq!((one.stats()[1].completed, other.stats()[1].completed), (50, 50));
    assert_eq!(one.shutdown(STUCK), 0);
    assert_eq!(other.run(A, || 5).wait().unwrap(), 5, "the other one lives");
}

#[test]
fn a_shutdown_waits_for_what_there_is_and_takes_no_more() {
    in_time(|| {
        let pool = two_classes(2).build().unwrap();
        let jobs: Vec<_> = (0..200).map(|n| pool.run(B, move || n)).collect();
        assert_eq!(pool.shutdown(STUCK), 0);
        assert!((0..).zip(jobs).all(|(n, job)| job.wait().unwrap() == n));
        assert_eq!(why(pool.run(B, || 0).wait()), Why::ShutDown);
        assert_eq!(pool.try_run(B, || 0).unwrap_err().refused.why, Why::ShutDown);
        assert_eq!((pool.stats()[1].refused_shut_down, pool.shutdown(STUCK)), (2, 0));
    });
}

#[test]
fn a_shutdown_with_a_limit_leaves_the_rest() {
    let pool = two_classes(1).build().unwrap();
    let (begins, began) = channel();
    let job = pool.run(A, move || {
        begins.send(()).unwrap();
        // For ever, but as a thread that waits: its worker can end.
        loop {
            curtail::park();
        }
    });
    began.recv_timeout(STUCK).unwrap();
    let _: &Job<()> = &job;
    assert_eq!(pool.shutdown(Duration::from_millis(10)), 1);
    let error = job.wait().unwrap_err();
    assert!(matches!(&error, Error::LeftBehind { class } if &**class == "a"), "{error}");
}

#[test]
fn a_dropped_pool_does_what_it_has() {
    let pool = two_classes(1).build().unwrap();
    let clone = pool.clone();
    let jobs: Vec<_> = (0..300).map(|n| clone.run(B, move || n)).collect();
    drop(pool);
    drop(clone);
    assert!((0..).zip(jobs).all(|(n, job)| job.wait().unwrap() == n));
}

#[test]
fn a_long_job_is_preempted_for_a_short_one() {
    for policy in ["shenango-ps", "tq", "ps"] {
        let pool = two_classes(1)
            .policy(policy::Spec::preset(policy).unwrap())
            .preempt(Preempt::Clock)
            .quantum(Duration::from_micros(50))
            .safepoints_by_hand()
            .build()
            .unwrap();
        assert_eq!(pool.preempt().0, Preempt::Clock);
        let done = Arc::new(AtomicBool::new(false));
        let (looks, begun) = (done.clone(), channel());
        // On one worker it ends only if the short one gets in between.
        let long = pool.run(A, move || {
            begun.0.send(()).unwrap();
            while !looks.load(Ordering::Relaxed) {
                curtail::safepoint();
            }
        });
        begun.1.recv_timeout(STUCK).unwrap();
        assert_eq!(pool.run(B, || 1).wait().unwrap(), 1, "{policy}");
        done.store(true, Ordering::Relaxed);
        long.wait().unwrap();
    }
}

#[test]
fn every_policy_brings_all_values() {
    let names = policy::catalogue().iter().map(|entry| entry.name);
    for name in names {
        let Ok(spec) = policy::Spec::preset(name) else { continue };
        let pool = match two_classes(2).policy(spec).build() {
            Ok(pool) => pool,
            Err(error) => panic!("{name}: {error}"),
        };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let jobs: Vec<_> = (0..100)
            .map(|n| {
                let seen = seen.clone();
                pool.run(B, move || {
                    seen.lock().unwrap().push(n);
                    n
                })
            })
            .collect();
        assert!((0..).zip(jobs).all(|(n, job)| job.wait().unwrap() == n), "{name}");
        seen.lock().unwrap().sort_unstable();
        assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<_>>(), "{name}");
        assert_eq!(pool.shutdown(STUCK), 0, "{name}");
    }
}

#[test]
fn settings_that_make_no_sense_are_told() {
    let text = |builder: curtail::pool::Builder| match builder.build() {
        Err(StartError::Setting(text)) => text,
        other => panic!("{other:?}"),
    };
    let class = |name: &str| Class::named(name);
    assert_eq!(text(Pool::builder().workers(0)), "a pool of 0 workers");
    assert_eq!(text(Pool::builder().class(class("x").limit(0))), "class x would take no job");
    let twice = Pool::builder().class(class("x")).class(class("x"));
    assert_eq!(text(twice), "two classes are called x");
    let many = Pool::builder().class(class("x").limit(usize::MAX));
    assert_eq!(text(many), "524288 jobs under way at most");
    assert_eq!(text(Pool::builder().cores([9_999])), "the process may not use core 9999");
    let own = curtail::allowed_cores()[0];
    let twice = text(Pool::builder().cores([own, own]));
    assert_eq!(twice, format!("core {own} is named twice"));
}
