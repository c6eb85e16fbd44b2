//! A quantum that ends while a lock of Rust is held: others run meanwhile, and the lock excludes all the
//! same.
//!
//! Built plainly no request is pre-empted, and the rest must hold all the same.

use crate::common;

use common::{LONG, is_preempting, serve, work};
use curtail::{App, ClassId, Response, WorkerId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

const ROUNDS: u64 = 10;

/// One value under each kind of lock.
#[derive(Default)]
struct Locks {
    mutex: Mutex<u64>,
    lock: RwLock<u64>,
    parked_mutex: parking_lot::Mutex<u64>,
    parked_lock: parking_lot::RwLock<u64>,
}

/// Tries until it has it; others run in between.
fn again<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        match attempt() {
            Some(guard) => return guard,
            None => curtail::yield_now(),
        }
    }
}

const KINDS: u8 = 8;
const BYSTANDER: u8 = KINDS;

impl Locks {
    /// Takes the lock of this kind and works on what is under it; the time before and after the
    /// work, both under the lock.
    fn hold(&self, kind: u8, clock: &AtomicU64) -> (u64, u64) {
        // The odd number can only be told from zero by doing the work.
        let long = |value: u64| value + 1 + u64::from(work(LONG, value) == 0);
        let now = || clock.load(Ordering::Relaxed);
        macro_rules! write {
            ($guard:expr) => {{
                let (mut guard, before) = ($guard, now());
                *guard = long(*guard);
                (before, now())
            }};
        }
        macro_rules! read {
            ($guard:expr) => {{
                let (guard, before) = ($guard, now());
                long(*guard);
                (before, now())
            }};
        }
        match kind {
            0 => write!(self.mutex.lock().unwrap()),
            1 => write!(again(|| self.mutex.try_lock().ok())),
            2 => write!(self.lock.write().unwrap()),
            3 => read!(self.lock.read().unwrap()),
            4 => write!(self.parked_mutex.lock()),
            5 => write!(again(|| self.parked_mutex.try_lock())),
            6 => write!(self.parked_lock.write()),
            _ => read!(self.parked_lock.read()),
        }
    }
}

/// Holders take a lock again and again; bystanders work without it. All move the clock of their
/// worker on.
struct Holders(Arc<Locks>);

impl App for Holders {
    type Worker = AtomicU64;

    fn setup_worker(&self, _: WorkerId) -> AtomicU64 {
        AtomicU64::new(0)
    }

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, clock: &AtomicU64, request: &[u8], response: &mut Response) {
        let (mut inside, mut after) = (0_u64, 0_u64);
        for _ in 0..ROUNDS {
            clock.fetch_add(1, Ordering::Relaxed);
            if request[0] == BYSTANDER {
                work(LONG / 10, 1);
            } else {
                let (before, end) = self.0.hold(request[0], clock);
                inside += end - before;
                after += u64::from(clock.load(Ordering::Relaxed) > end);
            }
        }
        response.write(&inside.to_le_bytes());
        response.write(&after.to_le_bytes());
    }
}

#[test]
fn the_holder_of_a_lock_may_be_preempted() {
    for kind in 0..KINDS {
        let locks = Arc::new(Locks::default());
        let requests: Vec<u8> = [kind, BYSTANDER].into_iter().cycle().take(40).collect();
        let (report, answers) = serve(Holders(locks.clone()), 1, &requests);
        let (mut inside, mut after) = (0, 0);
        for answer in &answers {
            inside += u64::from_le_bytes(answer[..8].try_into().unwrap());
            after += u64::from_le_bytes(answer[8..].try_into().unwrap());
        }
        let taken = *locks.mutex.lock().unwrap()
            + *locks.lock.read().unwrap()
            + *locks.parked_mutex.lock()
            + *locks.parked_lock.read();
        let writes = if matches!(kind, 3 | 7) { 0 } else { 20 * ROUNDS };
        assert_eq!(taken, writes, "kind {kind}: the lock excludes");
        if is_preempting(&report) {
            // Every critical section lasts for many quanta, and a bystander waits.
            assert!(inside > ROUNDS, "kind {kind}: {inside} ran while it was held");
        } else if report.preemptions == 0 {
            assert_eq!((inside, after), (0, 0));
        }
    }
}
