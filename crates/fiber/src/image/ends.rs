//! The end of a thread: destructors of thread-locals, and of pthread's keys.
//!
//! The C library's own list of keys is not to be had, so whoever defines `pthread_key_create` instead of
//! it says which keys there are ([`add_destructor`]). Keys of which it does not learn are the C library's
//! own.

use super::maker;
use libc::{c_void, pthread_key_t};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// As many as glibc has.
const MOST_KEYS: usize = 1_024;
/// How often destructors are called anew where they set values again.
const ROUNDS: usize = 4;

/// The destructor of a key without one, so that its values are forgotten.
unsafe extern "C" fn nothing(_: *mut c_void) {}

static DESTRUCTORS: [AtomicPtr<c_void>; MOST_KEYS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_KEYS];
/// One more than the highest key that there was.
static KEYS: AtomicU32 = AtomicU32::new(0);

/// A key of pthread's was made, with that destructor.
pub fn add_destructor(key: pthread_key_t, destructor: Option<unsafe extern "C" fn(*mut c_void)>) {
    if let Some(place) = DESTRUCTORS.get(key as usize) {
        let destructor = destructor.unwrap_or(nothing);
        place.store(destructor as *mut c_void, Ordering::Release);
        KEYS.fetch_max(key + 1, Ordering::Release);
    }
}

/// A key of pthread's is deleted.
pub fn remove_destructor(key: pthread_key_t) {
    if let Some(place) = DESTRUCTORS.get(key as usize) {
        place.store(ptr::null_mut(), Ordering::Release);
    }
}

/// The thread that calls is about to end, on a stack with thread-locals of its own: calls the destructors
/// of its thread-locals and of its keys' values, in pthread's order.
pub fn end_thread_locals() {
    let Ok(maker) = maker() else { return };
    // SAFETY: glibc's own end of a thread's C++ and Rust thread-locals, on that thread.
    unsafe { (maker.parts.call_destructors)() };
    for _ in 0..ROUNDS {
        if !call_key_destructors() {
            break;
        }
    }
    // C's `LC_GLOBAL_LOCALE`: the process's, which a new thread has.
    let global: libc::locale_t = ptr::without_provenance_mut(usize::MAX);
    // SAFETY: asks, and sets the calling thread's own.
    unsafe {
        if libc::uselocale(ptr::null_mut()) != global {
            libc::uselocale(global);
        }
    }
}

/// Whether there was one to call.
fn call_key_destructors() -> bool {
    let mut any = false;
    for key in 0..KEYS.load(Ordering::Acquire) {
        let destructor = DESTRUCTORS[key as usize].load(Ordering::Acquire);
        if destructor.is_null() {
            continue;
        }
        // SAFETY: the key was made and not deleted (a program that deletes it meanwhile has undefined
        // behaviour under POSIX, too); the destructor has this type.
        unsafe {
            let value = libc::pthread_getspecific(key);
            if value.is_null() {
                continue;
            }
            any = true;
            libc::pthread_setspecific(key, ptr::null());
            let destructor: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(destructor);
            destructor(value);
        }
    }
    any
}
