//! What other kthreads may touch of one: its inbox, what could be stolen, how it is woken.

use super::batch::BatchShared;
use super::progress::Progress;
use crate::clock;
use crate::socket::{Epoll, Poller};
use crate::thread::common::Common;
use crate::thread::overflow::Overflow;
use crate::thread::parker::Parker;
use crate::thread::tcb::Tcb;
use crate::timeline::{self, EventKind};
use curtail_fiber::peek;
use curtail_ring::{CachePadded, Inbox, StealRing};
use curtail_shm::PageLine;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// What other kthreads may touch.
pub struct Shared {
    /// Threads and requests of this kthread that were made ready elsewhere.
    pub(super) inbox: CachePadded<Inbox<Tcb>>,
    /// Threads that others may take, and those that have not started for which the ring had no room.
    pub(super) fresh: StealRing<Tcb>,
    pub(super) overflow: CachePadded<Overflow>,
    /// Batch threads: see `batch`.
    pub(super) batch: BatchShared,
    pub parker: Arc<CachePadded<Parker>>,
    pub(in crate::thread) progress: CachePadded<Progress>,
    pub(super) counts: CachePadded<Counts>,
    /// Threads that had started here and went on elsewhere. By their new homes.
    pub(super) moved: AtomicUsize,
    /// The kthreads of its runtime, itself among them.
    common: OnceLock<Weak<Common>>,
    /// The kernel's number of it; 0: it does not live.
    tid: AtomicI32,
    pub(super) ended: AtomicBool,
    /// What a core allocator sees of it.
    pub(in crate::thread) line: Option<PageLine>,
    /// It has given its core back and sleeps until it gets one again.
    parked: AtomicBool,
    /// When it last gave its core back, or got one (TSC); 0: never.
    moved_tsc: AtomicU64,
    /// It was stuck, and its core has been returned: when it goes on, it parks.
    disowned: AtomicBool,
    /// A sibling saw a packet for it, and counted that as mail.
    packets: AtomicBool,
    /// Whether there is mail for it of another kind: for the watchdog.
    mail: OnceLock<Box<Mail>>,
    /// Where its threads' sockets are watched.
    sockets: OnceLock<Arc<Epoll>>,
    /// What stands in the inbox for a notice, and whether it does.
    notice: Notice,
    noticed: AtomicBool,
}

type Mail = dyn Fn() -> bool + Send + Sync;

/// Others touch its link alone, which is an atomic.
struct Notice(Tcb);

// SAFETY: see the type.
unsafe impl Send for Notice {}
// SAFETY: see the type.
unsafe impl Sync for Notice {}

/// What a kthread counts, for others to look at.
#[derive(Default)]
pub(super) struct Counts {
    /// Threads that have started here and have not ended.
    pub alive: AtomicUsize,
    /// Threads that were made to yield, their quantum being over.
    pub cuts: AtomicU64,
    /// Threads that were left where they were, for ever.
    pub abandoned: AtomicUsize,
}

impl Shared {
    pub fn new(parker: Arc<CachePadded<Parker>>, line: Option<PageLine>) -> Arc<Self> {
        Arc::new(Self {
            inbox: CachePadded::new(Inbox::default()),
            fresh: StealRing::default(),
            overflow: CachePadded::new(Overflow::new()),
            batch: BatchShared::new(),
            parker,
            progress: CachePadded::default(),
            counts: CachePadded::default(),
            moved: AtomicUsize::new(0),
            common: OnceLock::new(),
            tid: AtomicI32::new(0),
            ended: AtomicBool::new(false),
            line,
            parked: AtomicBool::new(false),
            moved_tsc: AtomicU64::new(0),
            disowned: AtomicBool::new(false),
            packets: AtomicBool::new(false),
            mail: OnceLock::new(),
            sockets: OnceLock::new(),
            notice: Notice(Tcb::new()),
            noticed: AtomicBool::new(false),
        })
    }

    /// The calling kernel thread is it, from now on (or no more).
    pub(in crate::thread) fn set_lives(&self, lives: bool) {
        // SAFETY: no arguments, always succeeds.
        let tid = if lives { unsafe { libc::gettid() } } else { 0 };
        self.tid.store(tid, Ordering::Release);
        self.ended.store(!lives, Ordering::Release);
    }

    /// The kernel's number of it; `None`: it does not live.
    pub fn tid(&self) -> Option<libc::pid_t> {
        Some(self.tid.load(Ordering::Acquire)).filter(|&tid| tid != 0)
    }

    /// Whether that is the address of one that lives, read as bytes: it may be of anything.
    pub(in crate::thread) fn is_alive_at(address: usize) -> bool {
        let mut tid = [0; size_of::<AtomicI32>()];
        peek(address.wrapping_add(offset_of!(Self, tid)), &mut tid) && tid != [0; 4]
    }

    /// It gives its core back, or has one again. By the kthread.
    pub fn set_parked(&self, parked: bool) {
        let kind = if parked { EventKind::Parked } else { EventKind::Granted };
        let now = clock::now();
        self.moved_tsc.store(now, Ordering::Release);
        if self.parked.swap(parked, Ordering::AcqRel) != parked && timeline::is_on() {
            timeline::note(kind, (now, 0), 0, 0);
        }
    }

    /// When it last gave its core back, or got one (TSC); 0: never, that is without a core allocator.
    pub(in crate::thread) fn moved_tsc(&self) -> u64 {
        self.moved_tsc.load(Ordering::Acquire)
    }

    /// Something has come for it while it has no core, a packet, say: mail, which the core allocator
    /// sees. By a sibling that runs.
    pub fn announce_packets(&self) {
        if let Some(line) = &self.line
            && !self.packets.swap(true, Ordering::AcqRel)
        {
            line.add_to_inbox();
        }
    }

    /// It is going to look for its packets itself. By the kthread.
    pub(in crate::thread) fn take_announcement(&self) {
        if let Some(line) = &self.line
            && self.packets.load(Ordering::Relaxed)
            && self.packets.swap(false, Ordering::AcqRel)
        {
            line.count_taken_in(1);
        }
    }

    /// It is stuck in the kernel: under a core allocator, others have more use for its core. By
    /// the watchdog.
    pub(in crate::thread) fn give_core_back(&self) {
        if let Some(line) = &self.line
            && !self.is_parked()
        {
            // Before others can be granted its core.
            self.disowned.store(true, Ordering::SeqCst);
            line.give_core_back();
        }
    }

    /// Whether its core may be another's, though it was not asked for it.
    #[inline]
    pub(in crate::thread) fn is_disowned(&self) -> bool {
        self.disowned.load(Ordering::Acquire)
    }

    /// It has parked since, or has a core again. By the kthread.
    pub(in crate::thread) fn own_again(&self) {
        self.disowned.store(false, Ordering::Release);
    }

    /// Whether it sleeps until the core allocator has a core for it.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Acquire)
    }

    /// How to ask whether there is mail for it of another kind than the inbox's. Once.
    pub fn set_mail(&self, mail: Box<Mail>) {
        let _ = self.mail.set(mail);
    }

    /// Threads wait for sockets there. Once, by the kthread.
    pub(super) fn set_sockets(&self, poller: &Poller) {
        let _ = self.sockets.set(poller.epoll().clone());
    }

    /// Whether a socket has become ready that it has not looked at. A system call.
    fn has_events(&self) -> bool {
        self.sockets.get().is_some_and(|epoll| epoll.has_events())
    }

    /// Whether threads wait for sockets there.
    pub(in crate::thread) fn has_sockets(&self) -> bool {
        self.sockets.get().is_some()
    }

    /// Whether it has not looked at its sockets for long, though it does not sleep.
    #[inline]
    pub(in crate::thread) fn leaves_sockets(&self, now: u64) -> bool {
        self.sockets.get().is_some_and(|epoll| epoll.is_overdue(now)) && !self.has_ended()
    }

    /// Looks at its sockets in its place; whether any was ready. By another kthread.
    pub(in crate::thread) fn look_at_sockets(&self, now: u64) -> bool {
        self.sockets.get().is_some_and(|epoll| epoll.look_for_owner(now) > 0)
    }

    /// Whether something lies in its inbox while it is at something else. A core allocator's program
    /// keeps its mail: that counts who took it.
    #[inline]
    pub(super) fn has_mail_to_take(&self) -> bool {
        !self.inbox.is_empty() && self.line.is_none() && self.runs_something()
    }

    /// How often it has picked something: as long as that stays, it has been at one thing.
    pub fn picks(&self) -> u32 {
        self.progress.picks.load(Ordering::Relaxed)
    }

    /// Whether something waits for it to pick, and it is its own affair that it does not.
    pub(in crate::thread) fn keeps_waiting(&self) -> bool {
        if self.is_parked() {
            return false;
        }
        let timer = self.progress.timer.load(Ordering::Relaxed);
        !self.inbox.is_empty()
            || self.mail.get().is_some_and(|mail| mail())
            || self.stealable() > 0
            || self.progress.ready.load(Ordering::Relaxed) > 1
            || (timer != 0 && timer <= clock::now())
            || self.has_events()
    }

    /// Whether it runs a thread or a request.
    pub fn runs_something(&self) -> bool {
        self.progress.ready.load(Ordering::Relaxed) > 0
    }

    /// Threads that are at home here: that have started and have not ended.
    pub(in crate::thread) fn alive(&self) -> usize {
        let moved = self.moved.load(Ordering::Relaxed);
        self.counts.alive.load(Ordering::Relaxed).wrapping_sub(moved)
    }

    /// Says of which runtime it is. Once.
    pub(in crate::thread) fn set_common(&self, common: Weak<Common>) {
        let _ = self.common.set(common);
    }

    /// Has another kthread come for what lies in its queue.
    pub(super) fn call_another(&self) {
        if let Some(common) = self.common.get().and_then(Weak::upgrade) {
            common.call_one();
        }
    }

    /// How often threads were made to yield here.
    pub(in crate::thread) fn cuts(&self) -> u64 {
        self.counts.cuts.load(Ordering::Relaxed)
    }

    /// A thread that has started here is ready again. From any thread; the caller holds the kthread.
    ///
    /// # Safety
    /// It is in no queue, and alive until it has run.
    pub(super) unsafe fn take_back(&self, tcb: &Tcb) {
        if tcb.is_batch() {
            // SAFETY: by contract.
            unsafe { self.push_batch_mail(tcb) };
        } else {
            if let Some(line) = &self.line {
                line.add_to_inbox();
            }
            // SAFETY: by contract.
            unsafe { self.inbox.push(tcb.as_ptr()) };
            self.batch.notify();
        }
        self.parker.unpark();
    }

    /// Has the kthread look which of its requests are cancelled. From any thread, after what says
    /// which.
    pub fn notify(&self) {
        if self.noticed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(line) = &self.line {
            line.add_to_inbox();
        }
        // SAFETY: it is in no queue, as the flag was down; it lives as long as the inbox.
        unsafe { self.inbox.push(self.notice.0.as_ptr()) };
        self.batch.notify();
        self.parker.unpark();
    }

    /// Whether what was in the inbox is the notice. By the kthread, which attends to it after that: a
    /// canceller that comes later sends another one.
    #[inline]
    pub(super) fn take_notice(&self, tcb: &Tcb) -> bool {
        let is_one = std::ptr::eq(tcb, &raw const self.notice.0);
        if is_one {
            self.noticed.store(false, Ordering::SeqCst);
        }
        is_one
    }

    /// Threads that have started here and were left where they are, for ever.
    pub(in crate::thread) fn abandoned(&self) -> usize {
        self.counts.abandoned.load(Ordering::Relaxed)
    }

    /// A thread that has started here is left where it is. By the kthread only.
    pub(super) fn count_abandoned(&self) {
        let abandoned = self.counts.abandoned.load(Ordering::Relaxed);
        self.counts.abandoned.store(abandoned + 1, Ordering::Relaxed);
    }

    /// One more, or one less. By the kthread only.
    #[inline]
    pub(super) fn count_alive(&self, change: isize) {
        let alive = self.counts.alive.load(Ordering::Relaxed);
        self.counts.alive.store(alive.wrapping_add_signed(change), Ordering::Relaxed);
    }

    /// A thread is made to yield. By the kthread only.
    pub(super) fn count_cut(&self) {
        let cuts = self.counts.cuts.load(Ordering::Relaxed);
        self.counts.cuts.store(cuts + 1, Ordering::Relaxed);
    }

    /// The kthread is given up, though it runs: what waits there is never woken.
    pub(in crate::thread) fn give_up(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// A thread that any kthread may run, from a caller that is none.
    pub(in crate::thread) fn submit(&self, tcb: &Tcb) {
        if let Some(line) = &self.line {
            line.count_put_by_other();
        }
        self.overflow.push(tcb);
        self.batch.notify();
        self.parker.announce();
    }

    /// Takes out all that have not started.
    pub(in crate::thread) fn clear_out(&self, mut take: impl FnMut(*mut Tcb)) {
        while self.fresh.steal(StealRing::<Tcb>::MOST, &mut take) > 0 {}
        self.overflow.take(usize::MAX, |tcb| {
            take(tcb.as_ptr());
            true
        });
    }

    /// It runs no thread any more, ever.
    pub(in crate::thread) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// How many threads could be stolen.
    #[inline]
    pub(in crate::thread) fn stealable(&self) -> usize {
        self.fresh.len() + self.overflow.len()
    }

    /// A thread that has started, for the kthread or whoever takes it; false: there is no room. By the
    /// kthread.
    #[inline]
    pub(super) fn push_ready(&self, tcb: &Tcb) -> bool {
        let is_in = self.fresh.push(tcb.as_ptr());
        if is_in && let Some(line) = &self.line {
            line.count_put(1);
        }
        is_in
    }

    /// By the kthread.
    #[inline]
    pub(super) fn push_fresh(&self, tcb: &Tcb) {
        if let Some(line) = &self.line {
            line.count_put(1);
        }
        if self.overflow.len() > 0 || !self.fresh.push(tcb.as_ptr()) {
            self.overflow.push(tcb);
        }
    }
}
