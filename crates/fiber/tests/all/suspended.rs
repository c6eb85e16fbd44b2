//! Looks from outside at what is suspended.

use crate::support::{Fiber, Suspend, Task, suspend};
use curtail_fiber::{ContextKind, Label, Locals, StackPool, Suspended, peek, suspended};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

/// What [`Kept`] begins with: no copy of it lies elsewhere on the stack.
const MAGIC: [usize; 3] = [0x5eed_0f00_d15c_0a57, 0x0dd1, 0x0e4d];
const WORDS: usize = 8_192;

/// What a task of these tests keeps on its stack.
#[repr(C)]
struct Kept {
    magic: [usize; 3],
    values: [usize; 256],
}

impl Kept {
    #[inline(never)]
    fn fill(&mut self, value: usize) {
        self.magic.iter_mut().zip(MAGIC).for_each(|(place, magic)| *place = magic);
        self.values.fill(value);
    }
}

fn start<F: FnMut()>(fiber: &mut Fiber, body: &mut F, job: u64) -> Suspend {
    unsafe fn call<F: FnMut()>(argument: *mut ()) {
        // SAFETY: the closure that `start` was given: each test drives its fibers to the end before
        // the closure goes.
        unsafe { (*argument.cast::<F>())() }
    }
    let task = Task { run: call::<F>, argument: (&raw mut *body).cast() };
    // SAFETY: as above; everything stays on this thread.
    unsafe { fiber.start(task, Label { job, class: 3, worker: 2, stack_bytes: 0 }) }
}

fn of(job: u64) -> Vec<Suspended> {
    suspended().filter(|found| found.label.job == job).collect()
}

/// What the copy has of [`Kept`].
fn kept(found: &Suspended) -> Option<Vec<usize>> {
    let words = found.copy(WORDS)?.words;
    let at = words.windows(3).position(|three| three == MAGIC).expect("it is on the stack");
    Some(words[at + 3..][..256].to_vec())
}

#[test]
fn what_is_suspended_is_seen_and_what_runs_or_has_ended_is_not() {
    const JOB: u64 = 77_001;
    let mut pool = StackPool::new(128 * 1024, Locals::Own).unwrap();
    let mut fiber = Fiber::new(&mut pool).unwrap();
    let mut body = || {
        let mut kept = Kept { magic: [0; 3], values: [0; 256] };
        kept.fill(5);
        assert!(of(JOB).is_empty(), "it runs");
        suspend(Suspend::Blocked);
        assert!(of(JOB).is_empty(), "it runs again");
        black_box(&kept);
    };
    assert!(matches!(start(&mut fiber, &mut body, JOB), Suspend::Blocked));
    let found = of(JOB);
    let [one] = &found[..] else { panic!("{found:?}") };
    assert_eq!((one.kind, one.label.class, one.label.worker), (ContextKind::Request, 3, 2));
    // Tops of stacks are spread over a few KiB, and thread-locals take less than is set aside for them.
    assert!(one.label.stack_bytes.abs_diff(128 * 1024) < 8_192, "{one:?}");
    assert_eq!(kept(one), Some(vec![5; 256]));
    let few = one.copy(10).unwrap();
    assert_eq!((few.words.len(), few.words), (10, one.copy(WORDS).unwrap().words[..10].to_vec()));
    // SAFETY: the same thread as before.
    assert!(matches!(unsafe { fiber.resume() }, Suspend::Done));
    assert!(of(JOB).is_empty() && one.copy(WORDS).is_none(), "it has ended");
    fiber.retire(&mut pool);
    assert!(of(JOB).is_empty());
}

/// The other thread goes on with the task again and again, which changes what it keeps each time.
#[test]
fn a_copy_is_of_one_moment() {
    const JOB: u64 = 77_002;
    let stop = AtomicBool::new(false);
    let turns = || {
        let mut fiber = Fiber::new(&mut StackPool::new(128 * 1024, Locals::Own).unwrap()).unwrap();
        let mut body = || {
            let mut kept = Kept { magic: [0; 3], values: [0; 256] };
            kept.fill(0);
            while !stop.load(Ordering::Relaxed) {
                suspend(Suspend::Yielded);
                black_box(&mut kept).values.iter_mut().for_each(|value| *value += 1);
            }
        };
        let mut turn = 0_u32;
        let mut end = start(&mut fiber, &mut body, JOB);
        while !matches!(end, Suspend::Done) {
            // Longer and shorter than a copy takes.
            turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (0..turn >> 18).for_each(|_| std::hint::spin_loop());
            // SAFETY: the same thread as before.
            end = unsafe { fiber.resume() };
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(turns);
        let _end = Stop(&stop);
        let begun = Instant::now();
        let (mut copies, mut values) = (0, std::collections::BTreeSet::new());
        while copies < 500 || values.len() < 20 {
            assert!(begun.elapsed() < STUCK, "{copies} copies, {} values", values.len());
            for copy in of(JOB).iter().filter_map(kept) {
                assert!(copy.iter().all(|&value| value == copy[0]), "{copy:?}");
                copies += 1;
                values.insert(copy[0]);
            }
        }
    });
}

/// Ends the other thread's loop, also where an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_is_not_mapped_cannot_be_read() {
    let words = [1_u8, 2, 3];
    let mut into = [0; 3];
    assert!(peek(words.as_ptr().addr(), &mut into));
    assert_eq!(into, words);
    assert!(!peek(8, &mut into));
    assert!(!peek(usize::MAX - 1, &mut into));
}
