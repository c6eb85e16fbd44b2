//! Names of hosts: `getaddrinfo`, interposed.
//!
//! std's `ToSocketAddrs`, and libraries in C, look names up by libc's `getaddrinfo`, which reads
//! files and waits for servers. The definition here wins over libc's for the whole program: a thread
//! of Curtail's has libc's called on an ordinary thread, so that its kthread goes on; other callers
//! call libc's.

#![allow(unreachable_pub, reason = "std and C reach this by its name")]

use curtail_rt::block;
use curtail_rt::thread::KThread;
use libc::{addrinfo, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type GetAddrInfo = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const addrinfo,
    *mut *mut addrinfo,
) -> c_int;

static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

fn real() -> GetAddrInfo {
    let mut found = REAL.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: a valid C string; the call only looks a name up.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"getaddrinfo".as_ptr()) };
        assert!(!found.is_null(), "the C library has no getaddrinfo");
        REAL.store(found, Ordering::Relaxed);
    }
    // SAFETY: libc's function of this name has this type (POSIX).
    unsafe { std::mem::transmute::<*mut c_void, GetAddrInfo>(found) }
}

/// What the caller gave, on its way to another thread.
struct Arguments(*const c_char, *const c_char, *const addrinfo, *mut *mut addrinfo);

// SAFETY: the caller waits until the call is over, and touches none of it meanwhile.
unsafe impl Send for Arguments {}

impl Arguments {
    /// libc's answer, and `errno`.
    ///
    /// # Safety
    /// As libc's function.
    unsafe fn call(self) -> (c_int, c_int) {
        // SAFETY: the caller's own call, passed on; the calling thread's own `errno`.
        unsafe { (real()(self.0, self.1, self.2, self.3), *libc::__errno_location()) }
    }
}

/// As libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
) -> c_int {
    let arguments = Arguments(node, service, hints, result);
    // Nothing can unwind from here, so one that must not wait holds its kthread up instead.
    if KThread::current_tcb().is_none() || !block::may_wait() {
        // SAFETY: by contract.
        return unsafe { arguments.call() }.0;
    }
    // SAFETY: by contract.
    let (answer, errno) = curtail_rt::blocking(move || unsafe { arguments.call() });
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
    answer
}
