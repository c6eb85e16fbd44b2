//! A thread of Curtail's is a thread: thread-locals, their destructors, keys, borrows, stack bounds,
//! identities; light threads share their kthread's.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

thread_local! {
    static VALUE: Cell<u32> = const { Cell::new(0) };
    static LIST: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static DROPS: Drops = const { Drops };
}
static DROPPED: AtomicUsize = AtomicUsize::new(0);
static KEY_DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Drops;

impl Drop for Drops {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

const NAP: Duration = Duration::from_millis(1);

fn on_one<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    curtail::Runtime::builder().kthreads(1).run_to_completion().run(f)
}

#[test]
fn a_borrow_may_last_over_a_wait() {
    for kthreads in [1, 2] {
        let sums: Vec<u32> = curtail::Runtime::builder().kthreads(kthreads).run(|| {
            let one = |number| {
                move || {
                    LIST.with_borrow_mut(|list| {
                        list.push(number);
                        curtail::time::sleep(NAP);
                        list.push(number);
                    });
                    LIST.with_borrow(|list| list.iter().sum())
                }
            };
            let threads: Vec<_> = (1..=20).map(|number| curtail::spawn(one(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(sums.into_iter().eq((1..=20).map(|number| 2 * number)));
    }
}

#[test]
fn a_thread_begins_with_new_values_and_ends_with_their_destructors() {
    let rounds = 100;
    on_one(move || {
        for _ in 0..rounds {
            let thread = curtail::spawn(|| {
                DROPS.with(|_| {});
                VALUE.replace(7)
            });
            assert_eq!(thread.join().unwrap(), 0);
        }
    });
    assert_eq!(DROPPED.load(Ordering::Relaxed), rounds);
}

#[test]
fn destructors_of_keys_run_at_a_threads_end() {
    unsafe extern "C" fn drops(_: *mut libc::c_void) {
        KEY_DROPPED.fetch_add(1, Ordering::Relaxed);
    }
    let mut key = 0;
    // SAFETY: a place for the key, and a function for its values.
    assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(drops)) }, 0);
    on_one(move || {
        for _ in 0..10 {
            let thread = curtail::spawn(move || {
                let value = std::ptr::without_provenance(8);
                // SAFETY: a key of ours, and a value that is not looked at.
                unsafe {
                    let before = libc::pthread_getspecific(key);
                    (before.is_null(), libc::pthread_setspecific(key, value))
                }
            });
            assert_eq!(thread.join().unwrap(), (true, 0));
        }
    });
    assert_eq!(KEY_DROPPED.load(Ordering::Relaxed), 10);
}

#[test]
fn std_tells_threads_apart() {
    let (one, other, unparked) = on_one(|| {
        let first = curtail::spawn(|| {
            let me = std::thread::current();
            let other = curtail::spawn(move || {
                me.unpark();
                std::thread::current().id()
            });
            std::thread::park();
            (std::thread::current().id(), other.join().unwrap())
        });
        let (one, other) = first.join().unwrap();
        (one, other, true)
    });
    assert!(unparked && one != other);
}

#[test]
fn a_threads_stack_has_its_own_bounds() {
    let bounds = on_one(|| {
        let thread = curtail::Builder::new().stack_size(128 * 1024).spawn(|| {
            let here = 0_u8;
            let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::zeroed();
            let (mut low, mut size) = (std::ptr::null_mut(), 0);
            // SAFETY: places of ours, which these calls fill in.
            unsafe {
                let me = libc::pthread_self();
                assert_eq!(libc::pthread_getattr_np(me, attributes.as_mut_ptr()), 0);
                libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
            ((&raw const here).addr().wrapping_sub(low.addr()), size)
        });
        thread.unwrap().join().unwrap()
    });
    assert!(bounds.0 < bounds.1 && (120 * 1024..200 * 1024).contains(&bounds.1), "{bounds:?}");
}

#[test]
fn light_threads_share_their_kthreads() {
    let (light, own) = on_one(|| {
        let set = || VALUE.set(VALUE.get() + 1);
        for _ in 0..3 {
            curtail::Builder::new().light().spawn(set).unwrap().join().unwrap();
        }
        let light = curtail::Builder::new().light().spawn(|| VALUE.get()).unwrap();
        (light.join().unwrap(), curtail::spawn(|| VALUE.get()).join().unwrap())
    });
    assert_eq!((light, own), (3, 0));
}

/// Whatever is ready at once again and again keeps its kthread from no other.
#[test]
fn what_is_always_ready_lets_others_run() {
    use std::io::{Read, Write};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    on_one(|| {
        let (mut one, mut other) = curtail::net::UnixStream::pair().unwrap();
        let slept = Arc::new(AtomicBool::new(false));
        let seen = slept.clone();
        let flood = curtail::spawn(move || {
            let mut byte = [0];
            let mut rounds = 0_u64;
            while !seen.load(Ordering::Relaxed) {
                one.write_all(&[1]).unwrap();
                other.read_exact(&mut byte).unwrap();
                rounds += 1;
                assert!(rounds < 10_000_000, "the one that sleeps is never woken");
            }
        });
        curtail::time::sleep(NAP);
        slept.store(true, Ordering::Relaxed);
        flood.join().unwrap();
    });
}

#[test]
fn no_sleep_ends_early() {
    on_one(|| {
        for micros in [0, 1, 50, 999, 1_000, 5_000, 20_000] {
            for _ in 0..10 {
                let (time, begun) = (Duration::from_micros(micros), std::time::Instant::now());
                curtail::time::sleep(time);
                assert!(begun.elapsed() >= time, "{:?} of {time:?}", begun.elapsed());
                let begun = std::time::Instant::now();
                curtail::park_timeout(time);
                assert!(begun.elapsed() >= time, "{:?} of {time:?}", begun.elapsed());
            }
        }
    });
}
