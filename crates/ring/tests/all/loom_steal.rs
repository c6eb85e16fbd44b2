//! Stealing, in every interleaving within small bounds.
//! `RUSTFLAGS="--cfg loom" cargo test -p curtail-ring --release --test all loom_steal::`.
#![cfg(loom)]

use curtail_ring::StealRing;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;

/// Items of which each is taken by one taker: a bit each.
struct Taken(loom::sync::atomic::AtomicUsize);

impl Taken {
    fn new() -> Arc<Self> {
        Arc::new(Self(loom::sync::atomic::AtomicUsize::new(0)))
    }

    fn take(&self, item: *mut u32) {
        let bit = 1 << item as usize;
        assert_eq!(self.0.fetch_add(bit, Relaxed) & bit, 0, "taken twice");
    }

    fn all(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// A pointer that says its number, and points nowhere.
fn item(number: usize) -> *mut u32 {
    std::ptr::without_provenance_mut(number)
}

#[test]
fn stolen_or_taken_once() {
    loom::model(|| {
        let (ring, taken) = (Arc::new(StealRing::<u32>::default()), Taken::new());
        assert!(ring.push(item(1)) && ring.push(item(2)) && !ring.push(item(3)));
        let thief = {
            let (ring, taken) = (ring.clone(), taken.clone());
            thread::spawn(move || ring.steal(1, |item| taken.take(item)))
        };
        let first = ring.pop();
        if !first.is_null() {
            taken.take(first);
        }
        // A slot is used again, while the thief may look at it.
        let pushed = ring.push(item(3));
        thief.join().unwrap();
        while let one = ring.pop()
            && !one.is_null()
        {
            taken.take(one);
        }
        assert_eq!(taken.all(), if pushed { 0b1110 } else { 0b0110 });
        assert!(ring.is_empty());
    });
}

/// A stack of a thread, and where it goes on: 0 while it runs.
struct Stack {
    sp: AtomicU32,
    frames: UnsafeCell<u32>,
}

impl Stack {
    /// Runs on it, as its kthread alone may, and leaves it.
    fn run_and_leave(&self) {
        // SAFETY: that it is the only one is what is tried: loom tells where it is not.
        self.frames.with_mut(|frames| unsafe { *frames += 1 });
        self.sp.store(1, Release);
    }
}

/// A thread that yields is in the ring before it has left its stack. Who takes it goes on with it only if
/// it has left, and puts it back otherwise.
#[test]
fn a_thread_moves_when_it_has_left() {
    loom::model(|| {
        let ring = Arc::new(StealRing::<u32>::default());
        let stack = Arc::new(Stack { sp: AtomicU32::new(0), frames: UnsafeCell::new(0) });
        let thief = {
            let (ring, stack) = (ring.clone(), stack.clone());
            thread::spawn(move || {
                let own = StealRing::<u32>::default();
                let mut moved = false;
                ring.steal(1, |item| {
                    if stack.sp.load(Acquire) == 0 {
                        assert!(own.push(item));
                    } else {
                        stack.sp.store(0, Relaxed);
                        stack.run_and_leave();
                        moved = true;
                    }
                });
                (moved, !own.pop().is_null())
            })
        };
        assert!(ring.push(item(1)));
        if ring.pop().is_null() {
            // Somebody has it, who waits until the switch has stored the stack pointer.
            stack.run_and_leave();
            let (moved, put_back) = thief.join().unwrap();
            assert!(moved != put_back);
        } else {
            // It goes on where it was, and has not left.
            stack.run_and_leave();
            assert_eq!(thief.join().unwrap(), (false, false));
        }
    });
}

#[test]
fn two_thieves_and_who_takes_a_certain_one() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (ring, taken) = (Arc::new(StealRing::<u32>::default()), Taken::new());
        assert!(ring.push(item(1)) && ring.push(item(2)));
        let thieves = [(); 2].map(|()| {
            let (ring, taken) = (ring.clone(), taken.clone());
            thread::spawn(move || _ = ring.steal(1, |item| taken.take(item)))
        });
        if ring.pop_if(item(1)) {
            taken.take(item(1));
        }
        thieves.into_iter().for_each(|thief| thief.join().unwrap());
        while let one = ring.pop()
            && !one.is_null()
        {
            taken.take(one);
        }
        assert_eq!(taken.all(), 0b110);
    });
}
