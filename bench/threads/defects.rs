//! Defects on purpose, on threads: `threads-defects race|freed|stack`. A sanitizer must report each;
//! `ci/sanitize.sh` sees to it that they do, or what they do not report would mean nothing.

use curtail::{Runtime, spawn, yield_now};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Arc;

struct Unguarded(UnsafeCell<u64>);

// SAFETY: it is not: two threads write to it at once. That is the defect.
unsafe impl Sync for Unguarded {}

fn add(to: &Unguarded) {
    for _ in 0..1_000 {
        // SAFETY: none, see above.
        unsafe { *to.0.get() += 1 };
        yield_now();
    }
}

/// Two kthreads add to one number.
fn race() {
    let number = Arc::new(Unguarded(UnsafeCell::new(0)));
    let same = number.clone();
    // A plain thread is sure to run beside the other, one of Curtail's might not.
    let plain = std::thread::spawn(move || add(&same));
    add(&number);
    plain.join().expect("it returns");
    // SAFETY: the other one has ended.
    println!("{}", unsafe { *number.0.get() });
}

/// A thread reads what another one freed while it did not run.
fn freed() {
    let owner = Box::new(7_u64);
    let address = (&raw const *owner).expose_provenance();
    let reader = spawn(move || {
        yield_now();
        // SAFETY: none: it is freed.
        unsafe { std::ptr::with_exposed_provenance::<u64>(address).read_volatile() }
    });
    yield_now();
    drop(owner);
    println!("{}", reader.join().expect("it returns"));
}

/// A thread writes behind an array on its stack, after it did not run for a while.
fn stack() {
    let writer = spawn(|| {
        let mut array = [0_u8; 40];
        yield_now();
        let behind = black_box(40);
        // SAFETY: none: it is not in the array.
        unsafe { black_box(array.as_mut_ptr()).add(behind).write_volatile(1) };
        black_box(&array);
    });
    writer.join().expect("it returns");
}

fn main() {
    let defect = match std::env::args().nth(1).as_deref() {
        Some("race") => race,
        Some("freed") => freed,
        Some("stack") => stack,
        _ => panic!("threads-defects race|freed|stack"),
    };
    Runtime::builder().kthreads(1).run(defect);
}
