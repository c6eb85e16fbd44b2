//! What is lent in its owner's absence, in every interleaving within small bounds.
//! `RUSTFLAGS="--cfg loom" cargo test -p curtail-ring --release --test all loom_biased_lock::`.
#![cfg(loom)]

use curtail_ring::BiasedLock;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// What belongs to one thread is used by another while that is away, and never by both.
#[test]
fn who_is_away_lends_and_who_is_back_has_it_alone() {
    loom::model(|| {
        struct Shared(BiasedLock, UnsafeCell<u32>);
        // SAFETY: what is tested here; loom finds two that touch the cell at once, and one that does
        // not see what the other did.
        unsafe impl Sync for Shared {}
        fn fence() {
            loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        }
        // SAFETY: as above.
        let add = |cell: &UnsafeCell<u32>| cell.with_mut(|it| unsafe { *it += 1 });
        let shared = Arc::new(Shared(BiasedLock::default(), UnsafeCell::new(0)));
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                let used = || shared.0.meanwhile(fence, || add(&shared.1)).is_some();
                u32::from(used()) + u32::from(used())
            })
        };
        let mut own = 0;
        for _ in 0..2 {
            add(&shared.1);
            own += 1;
            shared.0.begin();
            shared.0.end(fence);
        }
        add(&shared.1);
        own += 1;
        shared.0.begin();
        let used = other.join().unwrap();
        shared.0.end(fence);
        // SAFETY: as above.
        assert_eq!(shared.1.with(|it| unsafe { *it }), own + used);
    });
}
