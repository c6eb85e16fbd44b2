//! System calls that block, on ordinary threads: [`blocking`].
//!
//! A job lies on the stack of the thread that waits for it, and in a list under the pool's lock.
//! The pool's threads are plain ones: they come when a job finds none idle, up to [`MOST`], and go
//! when they have been idle for [`KEEP`].

use crate::block::{self, Deadline, Queue, Spin, Wait};
use crate::thread::KThread;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Threads of the pool.
const MOST: usize = 256;
const KEEP: Duration = Duration::from_secs(1);

/// Runs `f` on an ordinary thread, and waits for it: for system calls that block, such as those on
/// files, and for libraries that block by themselves. The calling thread waits; its kthread goes on
/// with others. On a plain thread `f` is simply called.
///
/// At most 256 run at once; more wait for their turn. Threads are made as they are needed, and go
/// after a second without work. Where the system gives none, `f` is called in place.
///
/// A [`crate::time::timeout`] around it does not end it, since `f` may borrow from the caller: its
/// time is looked at in the next wait after it.
///
/// # Panics
/// If `f` panics; where the caller must not wait (it reads what [RCU](crate::sync::rcu) protects).
pub fn blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    if KThread::current_tcb().is_none() {
        return crate::user::call(f);
    }
    // Not later: a job in the pool must not be unwound from.
    block::assert_may_wait();
    let job = Job::<F, T> {
        head: Head::new(run_job::<F, T>),
        content: UnsafeCell::new(Content::Closure(f)),
    };
    // SAFETY: `carry_out` returns when the job has run, or has left it to us.
    unsafe { carry_out(&raw const job.head) };
    match job.content.into_inner() {
        Content::Result(Ok(value)) => value,
        Content::Result(Err(panic)) => resume_unwind(panic),
        Content::Closure(f) => crate::user::call(f),
        Content::Taken => unreachable!("its thread has put a result there"),
    }
}

/// What the pool sees of a job.
struct Head {
    next: Cell<*const Head>,
    run: unsafe fn(*const Head),
    /// Changes under the lock of `waiter`.
    done: AtomicBool,
    waiter: Queue,
}

impl Head {
    fn new(run: unsafe fn(*const Head)) -> Self {
        let next = Cell::new(ptr::null());
        Self { next, run, done: AtomicBool::new(false), waiter: Queue::new() }
    }
}

enum Content<F, T> {
    Closure(F),
    Taken,
    Result(std::thread::Result<T>),
}

#[repr(C)]
struct Job<F, T> {
    head: Head,
    content: UnsafeCell<Content<F, T>>,
}

/// # Safety
/// `head` is that of a `Job<F, T>` which the caller alone touches.
unsafe fn run_job<F: FnOnce() -> T, T>(head: *const Head) {
    // SAFETY: by contract; the head is its first field.
    let content = unsafe { &mut *(*head.cast::<Job<F, T>>()).content.get() };
    if let Content::Closure(f) = std::mem::replace(content, Content::Taken) {
        *content = Content::Result(catch_unwind(AssertUnwindSafe(|| crate::user::call(f))));
    }
}

struct Pool {
    first: *const Head,
    last: *const Head,
    /// How many jobs are in the list.
    jobs: usize,
    /// How many threads are in [`rest`]. Each counts itself, in and out.
    idle: usize,
    threads: usize,
}

// SAFETY: jobs are alive and wait as long as they are in the list, and run on any thread.
unsafe impl Send for Pool {}

static POOL: Spin<Pool> = Spin::new(Pool::new());
/// Idle threads of the pool.
static IDLE: Queue = Queue::new();

/// In a fork's child there are none of its parent's threads, nor of their jobs; one of them may have
/// held a lock.
///
/// # Safety
/// The process has one thread, which is in none of these locks.
pub(crate) unsafe fn begin_anew() {
    // SAFETY: by contract. What the list and the queue held lay on the stacks of threads that are gone.
    unsafe {
        POOL.renew(Pool::new());
        IDLE.renew();
    }
}

enum Hands {
    /// One that is idle takes it, or one that is at work will.
    There,
    /// One more thread is to be made. It has been counted.
    New,
}

impl Pool {
    const fn new() -> Self {
        Self { first: ptr::null(), last: ptr::null(), jobs: 0, idle: 0, threads: 0 }
    }

    fn push(&mut self, job: *const Head) -> Hands {
        // SAFETY: the last job waits, so it is alive.
        match unsafe { self.last.as_ref() } {
            Some(last) => last.next.set(job),
            None => self.first = job,
        }
        self.last = job;
        self.jobs += 1;
        // An idle thread leaves only when the list is empty, so as many jobs find one.
        if self.idle >= self.jobs || self.threads == MOST {
            return Hands::There;
        }
        self.threads += 1;
        Hands::New
    }

    fn pop(&mut self) -> *const Head {
        let first = self.first;
        // SAFETY: as in `push`.
        if let Some(job) = unsafe { first.as_ref() } {
            self.first = job.next.get();
            self.jobs -= 1;
            if self.first.is_null() {
                self.last = ptr::null();
            }
        }
        first
    }

    /// Takes a job out of the list; false: a thread has it.
    fn remove(&mut self, job: *const Head) -> bool {
        let (mut at, mut before) = (self.first, ptr::null::<Head>());
        // SAFETY: jobs in the list are alive.
        while let Some(found) = unsafe { at.as_ref() } {
            if ptr::eq(at, job) {
                // SAFETY: as above.
                match unsafe { before.as_ref() } {
                    Some(before) => before.next.set(found.next.get()),
                    None => self.first = found.next.get(),
                }
                if ptr::eq(self.last, job) {
                    self.last = before;
                }
                self.jobs -= 1;
                return true;
            }
            (before, at) = (at, found.next.get());
        }
        false
    }
}

/// Has a thread of the pool run the job, and waits until it has; or leaves it as it is, where no
/// thread could be made and none is there.
///
/// # Safety
/// The job is alive until this returns.
unsafe fn carry_out(job: *const Head) {
    match POOL.with(|pool| pool.push(job)) {
        Hands::There => _ = block::with_queue(&IDLE, |locked| locked.pop()),
        Hands::New => {
            if !start_one() {
                let ours = POOL.with(|pool| {
                    pool.threads -= 1;
                    pool.threads == 0 && pool.remove(job)
                });
                if ours {
                    return;
                }
            }
        }
    }
    // SAFETY: by contract.
    let head = unsafe { &*job };
    let still = || !head.done.load(Ordering::Relaxed);
    // The limit of a timeout ends the wait early, each time again.
    crate::thread::without_limit(|| {
        while block::wait_in(&head.waiter, 0, None, still, || {}) == Wait::Expired {}
    });
}

/// Starts a thread of the pool: one of the kernel's, also where `pthread_create` makes the program's threads
/// Curtail's.
fn start_one() -> bool {
    let mut started = false;
    crate::thread::as_plain_thread(|| {
        let thread = std::thread::Builder::new().name("curtail-blocking".into());
        match NO_SIGNALS.load(Ordering::Relaxed) {
            true => without_signals(|| started = thread.spawn(serve).is_ok()),
            false => started = thread.spawn(serve).is_ok(),
        }
    });
    started
}

/// Calls `f` with all signals blocked: a thread that it starts has that from its beginning.
fn without_signals(f: impl FnOnce()) {
    let set = |set: u64| {
        let (mut old, how) = (0_u64, libc::SIG_SETMASK.into());
        let places = [(&raw const set).addr() as i64, (&raw mut old).addr() as i64];
        let arguments = [how, places[0], places[1], size_of::<u64>() as i64, 0, 0];
        // SAFETY: the kernel's sets have so many bytes, and these are ours.
        unsafe { crate::kernel::kernel(libc::SYS_rt_sigprocmask, arguments) };
        old
    };
    // glibc's own two (numbers 32 and 33) no thread may block.
    let before = set(!(0b11 << 31));
    f();
    set(before);
}

/// Whether signals are kept away from the pool's threads.
static NO_SIGNALS: AtomicBool = AtomicBool::new(false);

/// From now on the pool's new threads block all signals, for a program whose handlers are for its own
/// threads.
pub fn keep_signals_out() {
    NO_SIGNALS.store(true, Ordering::Relaxed);
}

/// The life of a thread of the pool.
fn serve() {
    crate::topology::unpin();
    loop {
        let job = POOL.with(Pool::pop);
        // SAFETY: out of the list, so it is ours until `finish`.
        if let Some(head) = unsafe { job.as_ref() } {
            // SAFETY: its own function.
            unsafe { (head.run)(job) };
            finish(head);
        } else if !rest() {
            return;
        }
    }
}

/// Tells the waiter that the job is done. The job is gone then.
fn finish(head: &Head) {
    block::with_queue(&head.waiter, |locked| {
        head.done.store(true, Ordering::Relaxed);
        locked.pop()
    });
}

/// Waits for work; false: there was none for so long that the thread is to go.
fn rest() -> bool {
    let none = POOL.with(|pool| {
        let none = pool.first.is_null();
        pool.idle += usize::from(none);
        none
    });
    if !none {
        return true;
    }
    let still = || POOL.with(|pool| pool.first.is_null());
    let ended = block::wait_in(&IDLE, 0, Deadline::after(KEEP), still, || {});
    POOL.with(|pool| {
        pool.idle -= 1;
        let go = ended == Wait::Expired && pool.first.is_null();
        pool.threads -= usize::from(go);
        !go
    })
}
