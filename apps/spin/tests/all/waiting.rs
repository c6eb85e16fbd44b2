//! Requests that wait for each other by the means of `std` and parking_lot, on few workers, while
//! quanta end everywhere: no request is stuck, and every result is right.

use crate::common;

use common::{LONG, STUCK, is_preempting, serve, work};
use curtail::{App, ClassId, Response, SafepointKind, WorkerId, safepoint_kind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::Instant;

/// Request *n* runs task *n* and says what it returned.
struct Tasks(Vec<Box<dyn Fn() -> u64 + Send + Sync>>);

impl App for Tasks {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        response.write(&self.0[usize::from(request[0])]().to_le_bytes());
    }
}

fn task(body: impl Fn() -> u64 + Send + Sync + 'static) -> Box<dyn Fn() -> u64 + Send + Sync> {
    Box::new(body)
}

fn run(workers: usize, tasks: Vec<Box<dyn Fn() -> u64 + Send + Sync>>) -> (bool, Vec<u64>) {
    let requests: Vec<u8> = (0..u8::try_from(tasks.len()).unwrap()).collect();
    let (report, answers) = serve(Tasks(tasks), workers, &requests);
    let numbers = answers.iter().map(|answer| u64::from_le_bytes(answer[..].try_into().unwrap()));
    (is_preempting(&report), numbers.collect())
}

/// Everything that one may lock, with invariants that hold whenever it is not locked.
#[derive(Default)]
struct World {
    pair: Mutex<(u64, u64)>,
    map: RwLock<BTreeMap<u64, u64>>,
    parked_pair: parking_lot::Mutex<(u64, u64)>,
    parked_map: parking_lot::RwLock<BTreeMap<u64, u64>>,
}

const ROUNDS: u64 = 60;
const KEYS: u64 = 16;

impl World {
    /// The successes of `try_lock`.
    fn turn(&self, seed: u64) -> u64 {
        let mut tried = 0;
        for round in 0..ROUNDS {
            let key = work(200, seed + round) % KEYS;
            {
                let mut pair = self.pair.lock().unwrap();
                pair.0 += 1;
                work(2_000, pair.0);
                pair.1 += 1;
                assert_eq!(pair.0, pair.1);
            }
            {
                let mut pair = self.parked_pair.lock();
                pair.0 += 1;
                work(2_000, pair.0);
                pair.1 += 1;
                assert_eq!(pair.0, pair.1);
            }
            if let Ok(mut pair) = self.pair.try_lock() {
                *pair = (pair.0 + 1, pair.1 + 1);
                tried += 1;
            }
            if round % 4 == 0 {
                *self.map.write().unwrap().entry(key).or_default() += 1;
                *self.parked_map.write().entry(key).or_default() += 1;
            } else {
                let sum: u64 = self.map.read().unwrap().values().sum();
                assert!(self.map.read().unwrap().values().sum::<u64>() >= sum);
                let sum: u64 = self.parked_map.read().values().sum();
                assert!(self.parked_map.read().values().sum::<u64>() >= sum);
            }
        }
        tried
    }
}

#[test]
fn every_kind_of_lock_at_once() {
    const REQUESTS: u64 = 24;
    for workers in [1, 2] {
        let world = Arc::new(World::default());
        let tasks = (0..REQUESTS).map(|seed| {
            let world = world.clone();
            task(move || world.turn(seed))
        });
        let (_, tried) = run(workers, tasks.collect());
        let turns = REQUESTS * ROUNDS;
        let expected = turns + tried.iter().sum::<u64>();
        assert_eq!(*world.pair.lock().unwrap(), (expected, expected));
        assert_eq!(*world.parked_pair.lock(), (turns, turns));
        assert_eq!(world.map.read().unwrap().values().sum::<u64>(), turns / 4);
        assert_eq!(*world.parked_map.read(), *world.map.read().unwrap());
    }
}

#[test]
fn turns_by_condition_variables() {
    for parked in [false, true] {
        let std = Arc::new((Mutex::new(0), Condvar::new()));
        let other = Arc::new((parking_lot::Mutex::new(0), parking_lot::Condvar::new()));
        // Without the compiler pass, parking_lot stops a waiter's worker.
        let count = if parked && safepoint_kind() == SafepointKind::None { 1 } else { 12 };
        let tasks = (0..count).map(|index| {
            let (std, other) = (std.clone(), other.clone());
            // The last to come has the first turn.
            let mine = count - 1 - index;
            task(move || {
                if parked {
                    let mut turn = other.0.lock();
                    other.1.wait_while(&mut turn, |turn| *turn != mine);
                    work(LONG, mine);
                    *turn += 1;
                    other.1.notify_all();
                } else {
                    let mut turn =
                        std.1.wait_while(std.0.lock().unwrap(), |turn| *turn != mine).unwrap();
                    work(LONG, mine);
                    *turn += 1;
                    std.1.notify_all();
                }
                // Without the lock, whose grace a turn may fit in.
                work(LONG, mine);
                mine
            })
        });
        let (_, mut order) = run(1, tasks.collect());
        order.reverse();
        assert_eq!(order, (0..count).collect::<Vec<_>>());
    }
}

/// The requests of one worker wait for a lock that a thread outside holds: all of them, where
/// waiting does not stop the worker.
#[test]
fn a_thread_outside_holds_the_lock() {
    const REQUESTS: u32 = 6;
    for parked in [false, true] {
        let locks = Arc::new((Mutex::new(0_u64), parking_lot::Mutex::new(0_u64)));
        let came = Arc::new(AtomicU32::new(0));
        let held = Arc::new(Barrier::new(2));
        let expected = match safepoint_kind() {
            SafepointKind::None if parked => 1,
            _ => REQUESTS,
        };
        let holder = {
            let (locks, came, held) = (locks.clone(), came.clone(), held.clone());
            thread::spawn(move || {
                let guards = (locks.0.lock().unwrap(), locks.1.lock());
                held.wait();
                let end = Instant::now() + STUCK;
                while came.load(Ordering::SeqCst) < expected {
                    assert!(Instant::now() < end, "{came:?} of {expected} came");
                    thread::yield_now();
                }
                drop(guards);
            })
        };
        held.wait();
        let tasks = (0..REQUESTS).map(|_| {
            let (locks, came) = (locks.clone(), came.clone());
            task(move || {
                came.fetch_add(1, Ordering::SeqCst);
                for _ in 0..20 {
                    if parked {
                        *locks.1.lock() += 1;
                    } else {
                        *locks.0.lock().unwrap() += 1;
                    }
                    work(1_000, 1);
                }
                0
            })
        });
        run(1, tasks.collect());
        holder.join().unwrap();
        let (std, parked_value) = (*locks.0.lock().unwrap(), *locks.1.lock());
        assert_eq!(std + parked_value, u64::from(20 * REQUESTS));
    }
}

#[test]
fn channels_between_requests_of_one_worker() {
    if safepoint_kind() == SafepointKind::None {
        return; // A channel of std does not wake a waiter on its own thread.
    }
    const VALUES: u64 = 500;
    for bound in [None, Some(3), Some(0)] {
        let (sender, receiver) = mpsc::channel();
        let (bounded, arrivals) = mpsc::sync_channel(bound.unwrap_or(0));
        let ends = Mutex::new(Some((receiver, arrivals)));
        let receive = task(move || {
            let (receiver, arrivals) = ends.lock().unwrap().take().unwrap();
            let next = || if bound.is_some() { arrivals.recv() } else { receiver.recv() };
            (0..2 * VALUES).map(|_| next().unwrap()).sum()
        });
        let send = || {
            let (sender, bounded) = (Mutex::new(sender.clone()), bounded.clone());
            task(move || {
                for value in 0..VALUES {
                    if bound.is_some() {
                        bounded.send(value).unwrap();
                    } else {
                        sender.lock().unwrap().send(value).unwrap();
                    }
                    work(500, value);
                }
                0
            })
        };
        let (_, sums) = run(1, vec![receive, send(), send()]);
        assert_eq!(sums[0], VALUES * (VALUES - 1), "bound {bound:?}");
    }
}

#[test]
fn what_is_made_once_is_made_once() {
    static MADE: AtomicU32 = AtomicU32::new(0);
    static LAZY: LazyLock<u64> = LazyLock::new(|| {
        MADE.fetch_add(1, Ordering::Relaxed);
        work(LONG, 1)
    });
    let cell = Arc::new(OnceLock::new());
    let tasks = (0..20).map(|_| {
        let cell = cell.clone();
        task(move || {
            work(LONG, 2);
            let made = || {
                MADE.fetch_add(1, Ordering::Relaxed);
                work(LONG, 1)
            };
            u64::from(*LAZY == *cell.get_or_init(made))
        })
    });
    let (_, same) = run(2, tasks.collect());
    assert_eq!(same, [1; 20]);
    assert_eq!(MADE.load(Ordering::Relaxed), 2);
}

#[test]
fn parking_and_barriers() {
    let gone = Arc::new(AtomicU32::new(0));
    let barrier = Arc::new(Barrier::new(7));
    let threads = Arc::new(Mutex::new(Vec::new()));
    let mut tasks: Vec<_> = (0..6)
        .map(|_| {
            let (gone, barrier, threads) = (gone.clone(), barrier.clone(), threads.clone());
            task(move || {
                threads.lock().unwrap().push(thread::current());
                barrier.wait();
                while gone.load(Ordering::Acquire) == 0 {
                    thread::park();
                }
                0
            })
        })
        .collect();
    tasks.push(task(move || {
        barrier.wait();
        work(LONG, 1);
        gone.store(1, Ordering::Release);
        threads.lock().unwrap().drain(..).for_each(|thread| thread.unpark());
        0
    }));
    run(1, tasks);
}
