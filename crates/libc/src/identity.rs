//! What C's functions say of the calling thread where that is one of Curtail's, with thread-locals of its
//! own: interposed.
//!
//! * `pthread_getattr_np`: its stack's bounds, which libraries ask for that measure how much is left.
//! * `pthread_key_create`, `pthread_key_delete`: which keys there are, since their values' destructors run
//!   at a thread's end.

#![allow(unreachable_pub, reason = "C, and libraries, reach these by their names")]

use crate::real;
use curtail_fiber::image;
use libc::{c_int, c_void, pthread_attr_t, pthread_key_t, pthread_t};

type GetAttributes = unsafe extern "C" fn(pthread_t, *mut pthread_attr_t) -> c_int;
type Destructor = unsafe extern "C" fn(*mut c_void);
type CreateKey = unsafe extern "C" fn(*mut pthread_key_t, Option<Destructor>) -> c_int;
type DeleteKey = unsafe extern "C" fn(pthread_key_t) -> c_int;

/// # Safety
/// As the C library asks for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_getattr_np(
    thread: pthread_t,
    attributes: *mut pthread_attr_t,
) -> c_int {
    let stack = curtail_fiber::own_stack().filter(|(own, _)| *own == thread as usize);
    let Some((_, stack)) = stack else {
        return real!(c"pthread_getattr_np", new, GetAttributes; thread, attributes);
    };
    let low = std::ptr::with_exposed_provenance_mut(stack.start);
    // SAFETY: the caller's place for attributes, which these fill in.
    unsafe {
        match libc::pthread_attr_init(attributes) {
            0 => libc::pthread_attr_setstack(attributes, low, stack.len()),
            error => error,
        }
    }
}

/// The thread sanitizer calls it before it can run code that it instruments, so there it is libc's.
///
/// # Safety
/// As POSIX asks for.
#[cfg_attr(not(curtail_sanitize = "thread"), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_key_create(
    key: *mut pthread_key_t,
    destructor: Option<Destructor>,
) -> c_int {
    let answer = real!(c"pthread_key_create", new, CreateKey; key, destructor);
    if answer == 0 {
        // SAFETY: the caller's place, which has just been filled in.
        image::add_destructor(unsafe { *key }, destructor);
    }
    answer
}

/// # Safety
/// As POSIX asks for.
#[cfg_attr(not(curtail_sanitize = "thread"), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_key_delete(key: pthread_key_t) -> c_int {
    image::remove_destructor(key);
    real!(c"pthread_key_delete", new, DeleteKey; key)
}
