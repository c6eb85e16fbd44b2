//! `pthread_once` on fibers, interposed, and so C++'s `call_once`.
//!
//! libc lets its thread wait until the routine has run. If the fiber that runs it blocks meanwhile,
//! and has its turn on that very thread, the wait has no end.
//!
//! So a fiber enters libc only with a claim, of which a control has one at most; the others wait
//! for it in the table of `wait`. Claims lie on the stacks of those that have them, in a list under
//! a lock: from any thread. Plain threads take none and wait in libc.
//!
//! The routine runs without pre-emption, and may block.

#![allow(unreachable_pub, reason = "C and C++ reach these by their names")]

use crate::real;
use curtail_fiber::on_fiber;
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use curtail_rt::block::{Place, Spin};
use curtail_rt::wait;
use libc::{c_int, c_void};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

type Routine = unsafe extern "C-unwind" fn();
type Once = unsafe extern "C-unwind" fn(*mut c_void, Routine) -> c_int;

/// glibc's mark, in a control, of a routine that has run.
const DONE: u32 = 2;

/// A thread or fiber that runs a routine, or is about to.
struct Claim {
    control: usize,
    next: *const Claim,
}

/// The first of the list.
struct Claims(*const Claim);

// SAFETY: the list is touched under the lock, and a claim stays where it is until it is taken out.
unsafe impl Send for Claims {}

static CLAIMS: Spin<Claims> = Spin::new(Claims(ptr::null()));

impl Claims {
    fn has(&self, control: usize) -> bool {
        let mut next = self.0;
        // SAFETY: what is in the list lives until it is taken out, which needs the lock.
        while let Some(claim) = unsafe { next.as_ref() } {
            if claim.control == control {
                return true;
            }
            next = claim.next;
        }
        false
    }

    /// Puts `claim` into the list, unless its control is claimed.
    fn enter(&mut self, claim: &mut Claim) -> bool {
        if self.has(claim.control) {
            return false;
        }
        claim.next = self.0;
        self.0 = claim;
        true
    }

    fn leave(&mut self, control: usize) {
        let mut link = &raw mut self.0;
        // SAFETY: as in `has`; the links are changed under the lock only.
        unsafe {
            while let Some(claim) = (*link).as_ref() {
                if claim.control == control {
                    *link = claim.next;
                    return;
                }
                link = (&raw const claim.next).cast_mut();
            }
        }
    }
}

/// A claim that is held, by its control. Its end wakes those who wait for it.
struct Held(usize);

impl Drop for Held {
    fn drop(&mut self) {
        leave_critical();
        CLAIMS.with(|claims| claims.leave(self.0));
        wait::wake_all(self.0);
    }
}

/// # Safety
/// As POSIX asks for. The routine may unwind: it has not run then, and the next caller runs its own.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_once(control: *mut c_void, routine: Routine) -> c_int {
    // SAFETY: the caller's control, of four bytes. libc changes it atomically.
    let is_done = || unsafe { (*control.cast::<AtomicU32>()).load(Ordering::Acquire) } & DONE != 0;
    if !on_fiber() || (cfg!(target_env = "gnu") && is_done()) {
        return real!(c"pthread_once", new, Once; control, routine);
    }
    let address = control as usize;
    let mut claim = Claim { control: address, next: ptr::null() };
    while !CLAIMS.with(|claims| claims.enter(&mut claim)) {
        let callable = Callable::take();
        let is_claimed = || CLAIMS.with(|claims| claims.has(address));
        wait::wait(address, Place::Last, None, is_claimed, || {});
        callable.put_back();
    }
    let _held = Held(address);
    enter_critical();
    real!(c"pthread_once", new, Once; control, routine)
}

/// What libstdc++'s `call_once` hands to its routine: two words of the thread's, which others of the
/// thread overwrite while the caller waits. All zero where there is no such library.
struct Callable([usize; 2]);

const CALLABLE: [&CStr; 2] = [c"_ZSt15__once_callable", c"_ZSt11__once_call"];

/// The calling thread's words.
fn words() -> [*mut usize; 2] {
    // SAFETY: valid C strings; the call only looks names up.
    CALLABLE.map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast())
}

impl Callable {
    fn take() -> Self {
        // SAFETY: where there is one, it is a pointer of this thread's.
        Self(words().map(|word| if word.is_null() { 0 } else { unsafe { word.read() } }))
    }

    fn put_back(self) {
        for (word, value) in words().into_iter().zip(self.0).filter(|(word, _)| !word.is_null()) {
            // SAFETY: as above.
            unsafe { word.write(value) };
        }
    }
}
