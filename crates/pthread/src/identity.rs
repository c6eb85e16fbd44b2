//! Who the process is (`setuid` and its kin): glibc has each thread that it knows make the call, by a
//! signal. It knows kthreads, by their own thread-locals; so these are what its part runs with.

#![allow(unreachable_pub, reason = "C reaches these by their names")]

use crate::call::{errno, set_errno, word};
use curtail_fiber::image::with_kthreads_locals;
use curtail_libc::real;
use curtail_rt::kernel::kernel;
use libc::{c_char, c_int, c_void, gid_t, siginfo_t, size_t, uid_t};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// glibc's own signal for it.
const SIGNAL: i64 = 33;

/// The kernel's idea of an action.
#[repr(C)]
#[derive(Clone, Copy)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

type Handler = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

static GLIBCS: OnceLock<Handler> = OnceLock::new();

/// Has glibc's handler find the kthread's thread-locals, also where it interrupts a thread of Curtail's.
/// Once there are kthreads: glibc has set it then.
pub(crate) fn follow_fibers() {
    let mut action = MaybeUninit::<Action>::zeroed();
    // SAFETY: our own places; the action that was there is put back with another handler of its kind,
    // which calls that.
    unsafe {
        let old = word(action.as_mut_ptr());
        if kernel(libc::SYS_rt_sigaction, [SIGNAL, 0, old, 8, 0, 0]) != 0 {
            return;
        }
        let mut action = action.assume_init();
        if action.handler <= libc::SIG_IGN {
            return;
        }
        let _ = GLIBCS.set(std::mem::transmute::<usize, Handler>(action.handler));
        action.handler = handle as *const () as usize;
        let new = word(&raw const action);
        kernel(libc::SYS_rt_sigaction, [SIGNAL, new, 0, 8, 0, 0]);
    }
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if let Some(glibcs) = GLIBCS.get() {
        // SAFETY: glibc's handler, which looks at its thread's descriptor and makes a system call.
        unsafe { with_kthreads_locals(|| glibcs(signal, info, context)) };
    }
}

/// Calls libc's function as a thread that it knows.
fn as_kthread(call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: such a call makes system calls, and waits for other threads' in the kernel.
    let (answer, error) = unsafe { with_kthreads_locals(|| (call(), errno())) };
    if answer != 0 {
        set_errno(error);
    }
    answer
}

macro_rules! as_kthread {
    ($($name:ident $c:literal ($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As POSIX, or Linux, asks for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            type Call = unsafe extern "C" fn($($type),*) -> c_int;
            as_kthread(|| real!($c, new, Call; $($argument),*))
        }
    )*};
}

as_kthread! {
    setuid c"setuid" (user: uid_t);
    setgid c"setgid" (group: gid_t);
    seteuid c"seteuid" (user: uid_t);
    setegid c"setegid" (group: gid_t);
    setreuid c"setreuid" (real: uid_t, effective: uid_t);
    setregid c"setregid" (real: gid_t, effective: gid_t);
    setresuid c"setresuid" (real: uid_t, effective: uid_t, saved: uid_t);
    setresgid c"setresgid" (real: gid_t, effective: gid_t, saved: gid_t);
    setgroups c"setgroups" (count: size_t, groups: *const gid_t);
    initgroups c"initgroups" (user: *const c_char, group: gid_t);
}
