//! Which threads there are, by what `pthread_self` says in them: the thread pointer of their
//! thread-locals.
//!
//! From any thread. Entries are linked through themselves, so that no memory is asked for or given back
//! under a lock: the program's allocator may wait.

use curtail_rt::JoinHandle;
use curtail_rt::block::Spin;
use curtail_rt::socket::Source;
use libc::c_void;
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What is to become of a thread's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Joinable,
    /// Another thread waits for its end.
    Joining,
    Detached,
}

/// What changes together.
pub(crate) struct State {
    pub fate: Fate,
    /// Its routine has returned.
    pub done: bool,
    /// From its start on, until it is joined or detached. The first thread has none.
    pub handle: Option<JoinHandle<()>>,
}

/// What others know of a thread.
pub(crate) struct Control {
    pub id: AtomicUsize,
    pub state: Spin<State>,
    /// 1: its routine has returned. Waited for by its address.
    pub ended: AtomicU32,
    pub value: AtomicPtr<c_void>,
    /// For people: up to 15 bytes, and a zero.
    pub name: Spin<[u8; 16]>,
    /// Signals that it blocks; those that were sent to it and wait for it.
    pub mask: AtomicU64,
    pub pending: AtomicU64,
    /// How many calls it is in whose wait a signal's handler ends; 1: one has.
    pub interruptible: AtomicU32,
    pub interrupted: AtomicU32,
    /// What it waits for in there.
    pub source: Spin<Option<Source>>,
    next: UnsafeCell<Option<Arc<Control>>>,
}

// SAFETY: `next` is touched under the lock of its shard alone; the rest is atomic, or under locks.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    pub(crate) fn new(detached: bool) -> Arc<Self> {
        let fate = if detached { Fate::Detached } else { Fate::Joinable };
        Arc::new(Self {
            id: AtomicUsize::new(0),
            state: Spin::new(State { fate, done: false, handle: None }),
            ended: AtomicU32::new(0),
            value: AtomicPtr::new(ptr::null_mut()),
            name: Spin::new([0; 16]),
            mask: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            interruptible: AtomicU32::new(0),
            interrupted: AtomicU32::new(0),
            source: Spin::new(None),
            next: UnsafeCell::new(None),
        })
    }
}

thread_local! {
    /// The calling thread's; null: it is none of the program's, or at its end.
    static OWN: Cell<*const Control> = const { Cell::new(ptr::null()) };
}

/// The calling thread's. What it returns is the caller's for as long as its thread runs.
pub(crate) fn own<'a>() -> Option<&'a Control> {
    // SAFETY: set by the thread itself, which keeps it alive until it is unset.
    unsafe { OWN.get().as_ref() }
}

pub(crate) fn set_own(control: Option<&Arc<Control>>) {
    OWN.set(control.map_or(ptr::null(), Arc::as_ptr));
}

struct Shard(Option<Arc<Control>>);

const SHARDS: usize = 64;
static TABLE: [Spin<Shard>; SHARDS] = [const { Spin::new(Shard(None)) }; SHARDS];

fn shard(id: usize) -> &'static Spin<Shard> {
    &TABLE[(id >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - SHARDS.ilog2())]
}

/// A thread is about to start.
pub(crate) fn insert(control: Arc<Control>) {
    let id = control.id.load(Ordering::Relaxed);
    shard(id).with(|shard| {
        // SAFETY: under the lock; in no list yet.
        unsafe { *control.next.get() = shard.0.take() };
        shard.0 = Some(control);
    });
}

/// The thread of that number.
pub(crate) fn find(id: usize) -> Option<Arc<Control>> {
    shard(id).with(|shard| {
        let mut at = shard.0.as_ref();
        while let Some(control) = at {
            if control.id.load(Ordering::Relaxed) == id {
                return Some(control.clone());
            }
            // SAFETY: under the lock.
            at = unsafe { (*control.next.get()).as_ref() };
        }
        None
    })
}

/// Some thread of which that is so.
pub(crate) fn find_where(mut is_it: impl FnMut(&Control) -> bool) -> Option<Arc<Control>> {
    TABLE.iter().find_map(|shard| {
        shard.with(|shard| {
            let mut at = shard.0.as_ref();
            while let Some(control) = at {
                if is_it(control) {
                    return Some(control.clone());
                }
                // SAFETY: under the lock.
                at = unsafe { (*control.next.get()).as_ref() };
            }
            None
        })
    })
}

/// The thread is gone, or about to be: its number may be another's next.
pub(crate) fn remove(control: &Control) {
    // It is dropped after the lock, with what it holds.
    let _taken = shard(control.id.load(Ordering::Relaxed)).with(|shard| {
        let mut link: *mut Option<Arc<Control>> = &raw mut shard.0;
        // SAFETY: under the lock; links are of live entries.
        unsafe {
            while let Some(at) = (*link).as_ref() {
                if ptr::eq(Arc::as_ptr(at), control) {
                    let rest = (*at.next.get()).take();
                    return std::mem::replace(&mut *link, rest);
                }
                link = at.next.get();
            }
        }
        None
    });
}
