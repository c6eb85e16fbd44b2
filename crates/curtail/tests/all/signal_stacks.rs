//! Signal handlers run on a stack of their own, whatever other threads on the kthread do with theirs.

use curtail::{Runtime, spawn, yield_now};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

static ON_ITS_OWN: AtomicBool = AtomicBool::new(false);

fn current() -> libc::stack_t {
    let mut now = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: a query into a place of ours; a stack_t of zeroes is one.
    unsafe {
        assert_eq!(libc::sigaltstack(ptr::null(), now.as_mut_ptr()), 0);
        now.assume_init()
    }
}

/// Asks for `bytes` at `at`; the error that comes of it, or 0.
fn set(at: *mut libc::c_void, bytes: usize, flags: i32) -> i32 {
    let wanted = libc::stack_t { ss_sp: at, ss_flags: flags, ss_size: bytes };
    // SAFETY: the callers' memory lasts for as long as they run.
    match unsafe { libc::sigaltstack(&raw const wanted, ptr::null_mut()) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
    }
}

extern "C" fn note(_: i32) {
    ON_ITS_OWN.store(current().ss_flags & libc::SS_ONSTACK != 0, Ordering::Relaxed);
}

fn handle_usr2() {
    // SAFETY: all zeroes is a sigaction; the handler makes a system call and stores a flag.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()), 0);
    }
}

/// The calling thread, which may be on any kthread, has a handler run; where.
fn raise_usr2() -> bool {
    // SAFETY: a signal to the calling kernel thread, which is handled.
    unsafe { libc::raise(libc::SIGUSR2) };
    ON_ITS_OWN.load(Ordering::Relaxed)
}

#[test]
fn a_thread_takes_no_signal_stack_from_the_others() {
    handle_usr2();
    Runtime::builder().kthreads(1).run(|| {
        let first = spawn(|| {
            let mut memory = vec![0_u8; 64 << 10];
            assert_eq!(set(memory.as_mut_ptr().cast(), memory.len(), 0), 0);
            yield_now();
            assert!(raise_usr2(), "the other one has disabled it");
            assert_eq!(set(ptr::null_mut(), 0, libc::SS_DISABLE), 0);
            memory.fill(7);
            assert!(raise_usr2());
            assert!(memory.iter().all(|&byte| byte == 7), "a handler ran on freed memory");
        });
        let second = spawn(|| {
            let mut memory = vec![0_u8; 32 << 10];
            assert_eq!(set(memory.as_mut_ptr().cast(), memory.len(), 0), 0);
            assert_eq!(set(ptr::null_mut(), 0, libc::SS_DISABLE), 0);
            memory.fill(7);
            yield_now();
            assert!(memory.iter().all(|&byte| byte == 7), "a handler ran on freed memory");
        });
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn what_is_asked_for_wrongly_is_refused() {
    Runtime::builder().kthreads(1).run(|| {
        let now = current();
        assert_eq!(now.ss_flags & libc::SS_DISABLE, 0);
        let mut memory = vec![0_u8; 4096];
        let at = memory.as_mut_ptr().cast();
        assert_eq!(set(at, 100, 0), libc::ENOMEM);
        assert_eq!(set(at, usize::MAX, 0), libc::ENOMEM);
        assert_eq!(set(at, 4096, 99), libc::EINVAL);
        assert_eq!(current().ss_sp, now.ss_sp);
    });
}
