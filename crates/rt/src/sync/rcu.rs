//! Read-copy-update: readers that write nothing that others read, and writers that wait for them.
//!
//! **Protocol.** Each kernel thread has a `Record` with a count, odd while its running code reads.
//!
//! A reader is not pre-empted and must not wait, so a kthread that runs something else, is parked
//! or has ended has an even count. [`synchronize`] looks at all counts after what it waits for was
//! made unreachable: a count that is even, or has changed since, is of a thread whose later reads
//! do not find it any more. Readers wake the threads that wait, if any do.
//!
//! **Order.** A reader raises its count and then loads; a writer changes and then looks at counts.
//! Each must see the other's, which takes a fence on both sides. The writer's is the system call
//! `membarrier`, which makes all running threads of the process execute one, so that readers need
//! none. Where the system refuses it, readers execute one, too.
//!
//! (Shenango §5 has RCU by scheduler epochs. A count of its own per kthread costs a reader the
//! same, since what may not be held across a wait has to be counted in any case; and a waiter does
//! not depend on when a kthread picks another thread.)

use crate::block::{self, Place, Queue, Wait};
use crate::fences;
use crate::thread::KThread;
use curtail_fiber::safepoint::{enter_critical, leave_critical};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A kernel thread's, whatever thread of ours runs there. Never freed; another thread takes it over.
struct Record {
    /// Odd: the thread reads.
    count: AtomicU64,
    /// How many guards there are. The thread's own.
    nesting: Cell<u32>,
    in_use: AtomicBool,
}

// SAFETY: `nesting` is touched by the one thread that has the record.
unsafe impl Sync for Record {}

static RECORDS: Mutex<Vec<&'static Record>> = Mutex::new(Vec::new());
/// Those who wait in [`synchronize`].
static WAITING: AtomicU32 = AtomicU32::new(0);
static QUEUE: Queue = Queue::new();

thread_local! {
    static RECORD: Cell<*const Record> = const { Cell::new(ptr::null()) };
    static GIVE_BACK: GiveBack = const { GiveBack };
}

/// At a thread's end its record is free for another.
struct GiveBack;

impl Drop for GiveBack {
    fn drop(&mut self) {
        give_back(RECORD.replace(ptr::null()));
    }
}

fn give_back(record: *const Record) {
    // SAFETY: records are never freed.
    if let Some(record) = unsafe { record.as_ref() }
        && record.nesting.get() == 0
    {
        record.in_use.store(false, Ordering::Release);
    }
}

/// A kthread's record: what reads is not pre-empted and does not wait, so all that runs there shares it.
pub(crate) struct OfKthread(Cell<*const Record>);

impl Default for OfKthread {
    fn default() -> Self {
        Self(Cell::new(ptr::null()))
    }
}

impl Drop for OfKthread {
    fn drop(&mut self) {
        give_back(self.0.get());
    }
}

/// The kernel thread's, if it has one.
#[inline]
fn known() -> Option<&'static Record> {
    let record = match KThread::try_here() {
        Some(here) => here.rcu.0.get(),
        None => RECORD.get(),
    };
    // SAFETY: records are never freed.
    unsafe { record.as_ref() }
}

/// The kernel thread's.
#[inline]
fn record() -> &'static Record {
    known().unwrap_or_else(register)
}

#[cold]
#[inline(never)]
fn register() -> &'static Record {
    fences::prepare();
    let mut records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    // A thread that waited for the lock may be on another kthread now.
    if let Some(known) = known() {
        return known;
    }
    let take = |record: &&&'static Record| !record.in_use.swap(true, Ordering::Acquire);
    let found = records.iter().find(take).copied();
    let record = found.unwrap_or_else(|| {
        let (count, nesting) = (AtomicU64::new(0), Cell::new(0));
        let made: &'static Record =
            Box::leak(Box::new(Record { count, nesting, in_use: AtomicBool::new(true) }));
        records.push(made);
        made
    });
    drop(records);
    match KThread::try_here() {
        Some(here) => here.rcu.0.set(record),
        None => {
            RECORD.set(record);
            // Where the thread is ending already, its record stays taken.
            let _ = GIVE_BACK.try_with(|_| {});
        }
    }
    record
}

/// Whether the running code reads: then it must not wait.
#[inline]
pub(crate) fn is_reading() -> bool {
    known().is_some_and(|record| record.nesting.get() != 0)
}

/// While it is there, nothing that [`synchronize`] waits for goes away. The thread is not pre-empted
/// meanwhile, and must not wait.
#[derive(Debug)]
struct Reading {
    /// Not `Send`.
    thread: PhantomData<*const ()>,
}

// SAFETY: by reference it does nothing.
unsafe impl Sync for Reading {}

impl Reading {
    #[inline]
    fn new() -> Self {
        enter_critical();
        let record = record();
        let nesting = record.nesting.get();
        record.nesting.set(nesting + 1);
        if nesting == 0 {
            // Only this thread writes it.
            let count = record.count.load(Ordering::Relaxed);
            record.count.store(count + 1, Ordering::Relaxed);
            fences::frequent();
        }
        Self { thread: PhantomData }
    }
}

impl Drop for Reading {
    #[inline]
    fn drop(&mut self) {
        let record = record();
        let nesting = record.nesting.get() - 1;
        record.nesting.set(nesting);
        if nesting == 0 {
            let count = record.count.load(Ordering::Relaxed);
            record.count.store(count + 1, Ordering::Release);
            fences::frequent();
            if WAITING.load(Ordering::Relaxed) != 0 {
                wake();
            }
        }
        leave_critical();
    }
}

#[cold]
#[inline(never)]
fn wake() {
    block::wake_all(&QUEUE);
}

/// Waits until every read that has begun has ended. What was made unreachable before is then no
/// longer in use.
///
/// # Panics
/// Inside of a read.
pub fn synchronize() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            WAITING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    assert!(!is_reading(), "rcu::synchronize inside of a read would wait for itself");
    WAITING.fetch_add(1, Ordering::SeqCst);
    let _waits = Waits;
    fences::rare();
    // From here on, a reader that does not see what changed before has an odd count that is seen
    // here, and a reader whose read ends now sees that there is a waiter.
    let records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut reading: Vec<_> = records
        .iter()
        .map(|&record| (record, record.count.load(Ordering::Acquire)))
        .filter(|(_, count)| count % 2 == 1)
        .collect();
    drop(records);
    while let Some(&(record, count)) = reading.last() {
        let still = || record.count.load(Ordering::Acquire) == count;
        if still() && block::wait_at(&QUEUE, Place::Last, 0, None, still, || {}) == Wait::Expired {
            block::end_by_limit();
        }
        if !still() {
            reading.pop();
        }
    }
}

/// A value that is read without waiting, and replaced as a whole. For threads, handlers and plain
/// threads.
pub struct Rcu<T> {
    value: AtomicPtr<T>,
    own: PhantomData<T>,
}

// SAFETY: readers on all threads share the value; `replace` may give it to any thread.
unsafe impl<T: Send + Sync> Sync for Rcu<T> {}
// SAFETY: it moves with its value.
unsafe impl<T: Send> Send for Rcu<T> {}

impl<T> Rcu<T> {
    /// With a value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self { value: AtomicPtr::new(Box::into_raw(Box::new(value))), own: PhantomData }
    }

    /// Reads the value that is there now. `f` is not pre-empted.
    ///
    /// # Panics
    /// If `f` waits for something, on a thread or request of Curtail's.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.guard())
    }

    /// The value that is there now, for as long as the guard is kept. Meanwhile the caller is not
    /// pre-empted, and must not wait: a wait on a thread or request of Curtail's panics.
    #[inline]
    pub fn guard(&self) -> Guard<'_, T> {
        let reading = Reading::new();
        // SAFETY: not freed before a `synchronize` that begins after it was replaced, which waits
        // for `reading`.
        let value = unsafe { &*self.value.load(Ordering::Acquire) };
        Guard { value, _reading: reading }
    }

    /// Replaces the value and waits until the old one is not read any more: the old one is
    /// returned.
    ///
    /// # Panics
    /// Inside of a read.
    pub fn replace(&self, value: T) -> T {
        assert!(!is_reading(), "Rcu::replace inside of a read would wait for itself");
        let old = self.value.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        // The limit of a timeout must not lose it.
        crate::thread::without_limit(synchronize);
        // SAFETY: made by `Box::into_raw`, taken out by the swap, and no longer read.
        *unsafe { Box::from_raw(old) }
    }

    /// The value: `&mut self` shows that no other reference is left.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: made by `Box::into_raw`, and ours alone.
        unsafe { &mut **self.value.get_mut() }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        let value = self.value.load(Ordering::Relaxed);
        std::mem::forget(self);
        // SAFETY: made by `Box::into_raw`, and ours alone.
        *unsafe { Box::from_raw(value) }
    }
}

impl<T> Drop for Rcu<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, and ours alone.
        drop(unsafe { Box::from_raw(*self.value.get_mut()) });
    }
}

impl<T: Default> Default for Rcu<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Rcu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rcu").field(&*self.guard()).finish()
    }
}

/// A value of an [`Rcu`] that is being read.
#[derive(Debug)]
pub struct Guard<'a, T> {
    value: &'a T,
    _reading: Reading,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}
