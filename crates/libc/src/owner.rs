//! Whether a lock's owner is the caller that wants it: then `pthread_mutex_lock` and its kin say
//! `EDEADLK`, where `pthread_mutex_trylock` says `EBUSY`.
//!
//! glibc keeps the owner's number in the lock, at places that are part of its binary interface (static
//! initialisers are compiled into programs).

use libc::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a lock is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    ReadWrite,
    /// It knows no owner.
    Spin,
}

/// Words of a mutex: its owner's number, and its type.
const OWNER: usize = 2;
const TYPE: usize = 4;
/// Of the type: which of the four that POSIX and glibc have.
const MASK: u32 = 3;
/// Of a read–write lock: the writer's number.
const WRITER: usize = 6;

/// # Safety
/// A lock of that kind.
pub(crate) unsafe fn is_caller(lock: *mut c_void, kind: Kind) -> bool {
    // SAFETY: by contract; libc changes these words atomically.
    let word = |at: usize| unsafe { (*lock.cast::<AtomicU32>().add(at)).load(Ordering::Relaxed) };
    let owner = match kind {
        Kind::Mutex if word(TYPE) & MASK == libc::PTHREAD_MUTEX_ERRORCHECK as u32 => word(OWNER),
        Kind::ReadWrite => word(WRITER),
        Kind::Mutex | Kind::Spin => return false,
    };
    owner != 0 && curtail_fiber::image::own_number() == Some(owner)
}
