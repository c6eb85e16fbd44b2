//! A program's page: what its kthreads tell the daemon.
//!
//! ```text
//!    0  header (128 bytes)
//!  128  a line of 128 bytes for each kthread: its own half, and the half that others write
//! ```

mod line;

pub use line::PageLine;

use crate::Class;
use crate::heading::{Heading, Kind};
use crate::memory::{MapError, Memory};
use crate::state::State;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const KIND: Kind = Kind {
    name: "page",
    magic: u64::from_le_bytes(*b"CURTPAGE"),
    version: 1,
    header_bytes: size_of::<Header>() as u32,
    line_bytes: LINE as u32,
};
const LINE: usize = 128;
/// Kthreads of one program.
const MOST_KTHREADS: u32 = 1024;

/// What a program wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What it is.
    pub class: Class,
    /// How many kthreads it has: 1 to 1,024.
    pub kthreads: u32,
    /// Cores that it gets whenever it needs them.
    pub guaranteed: u32,
    /// Cores that it may have besides, as long as no other program is guaranteed them.
    pub burstable: u32,
}

#[repr(C, align(128))]
struct Header {
    /// With the number of kthreads.
    heading: Heading,
    guaranteed: AtomicU32,
    burstable: AtomicU32,
    class: AtomicU32,
}

/// One kthread's.
#[repr(C, align(128))]
struct Line {
    /// Written by the kthread.
    own: Own,
    /// Written by all kthreads of the program.
    common: Common,
}

#[repr(C, align(64))]
struct Own {
    state: State,
    run_head: AtomicU32,
    run_tail: AtomicU32,
    inbox_head: AtomicU32,
    tid: AtomicU32,
    oldest_ready_ns: AtomicU64,
    next_timer_ns: AtomicU64,
    stranded: AtomicU32,
}

#[repr(C, align(64))]
struct Common {
    inbox_tail: AtomicU32,
    /// What others put into its run queues, and took out: these count beside its own counters, so
    /// that its own need no locked operation.
    run_put: AtomicU32,
    run_taken: AtomicU32,
}

const _: () = {
    assert!(size_of::<Header>() == 128 && size_of::<Line>() == LINE);
    assert!(std::mem::offset_of!(Line, common) == 64);
};

const fn bytes_for(kthreads: u32) -> usize {
    size_of::<Header>() + kthreads as usize * LINE
}

/// The program's side: it alone writes.
pub struct Page {
    memory: Memory,
    kthreads: u32,
}

impl Page {
    /// A new page. All kthreads are parked, with nothing to do.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// With no kthread, or more than 1,024.
    pub fn create(spec: &Spec) -> io::Result<Self> {
        assert!((1..=MOST_KTHREADS).contains(&spec.kthreads));
        let memory = Memory::create("curtail-page", bytes_for(spec.kthreads))?;
        let page = Self { memory, kthreads: spec.kthreads };
        for index in 0..spec.kthreads {
            page.line(index).own.state.begin();
        }
        let header = page.header();
        header.guaranteed.store(spec.guaranteed, Ordering::Relaxed);
        header.burstable.store(spec.burstable, Ordering::Relaxed);
        let class = match spec.class {
            Class::LatencyCritical => 0,
            Class::Batch { looks: false } => 1,
            Class::Batch { looks: true } => 2,
        };
        header.class.store(class, Ordering::Relaxed);
        header.heading.write(&KIND, spec.kthreads);
        Ok(page)
    }

    fn header(&self) -> &Header {
        // SAFETY: atomics.
        unsafe { self.memory.at(0) }
    }

    #[inline]
    fn line(&self, index: u32) -> &Line {
        assert!(index < self.kthreads, "no such kthread");
        // SAFETY: atomics.
        unsafe { self.memory.at(size_of::<Header>() + index as usize * LINE) }
    }

    /// To be passed to the daemon.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// How many kthreads it has.
    #[must_use]
    pub fn kthreads(&self) -> u32 {
        self.kthreads
    }

    /// The kernel's number of the kthread. By the kthread, once: it gets no core before.
    pub fn set_tid(&self, index: u32, tid: u32) {
        self.line(index).own.tid.store(tid, Ordering::Release);
    }

    /// The kthread runs, as the word of that generation says. By the kthread.
    pub fn set_running(&self, index: u32, generation: u32) {
        self.line(index).own.state.set_running(generation);
    }

    /// The kthread gives its core back and sleeps; it has seen the word of that generation. By the
    /// kthread, which runs nothing more until its word changes. What it published before is seen
    /// with it.
    pub fn set_parked(&self, index: u32, generation: u32) {
        self.line(index).own.state.set_parked(generation);
    }

    /// How many threads ever went into and out of its run queues. By the kthread.
    #[inline]
    pub fn set_run_queue(&self, index: u32, head: u32, tail: u32) {
        let own = &self.line(index).own;
        own.run_head.store(head, Ordering::Relaxed);
        own.run_tail.store(tail, Ordering::Release);
    }

    /// One more thread was put into its inbox. By any kthread or plain thread.
    #[inline]
    pub fn add_to_inbox(&self, index: u32) {
        self.line(index).common.inbox_tail.fetch_add(1, Ordering::Release);
    }

    /// How many were put there so far.
    #[inline]
    #[must_use]
    pub fn inbox_tail(&self, index: u32) -> u32 {
        self.line(index).common.inbox_tail.load(Ordering::Acquire)
    }

    /// How many it has taken out so far. By the kthread.
    #[inline]
    pub fn set_inbox_head(&self, index: u32, head: u32) {
        self.line(index).own.inbox_head.store(head, Ordering::Release);
    }

    /// Since when the thread that is ready for longest is ready; 0: none is. By the kthread.
    #[inline]
    pub fn set_oldest_ready_ns(&self, index: u32, time_ns: u64) {
        self.line(index).own.oldest_ready_ns.store(time_ns, Ordering::Release);
    }

    /// When its first timer is due; 0: none is set. By the kthread.
    #[inline]
    pub fn set_next_timer_ns(&self, index: u32, time_ns: u64) {
        self.line(index).own.next_timer_ns.store(time_ns, Ordering::Release);
    }

    /// Threads that have started here and are ready: no other kthread can run them. By the kthread.
    #[inline]
    pub fn set_stranded(&self, index: u32, threads: u32) {
        self.line(index).own.stranded.store(threads, Ordering::Release);
    }
}

/// How many were taken out of the run queue so far, and put in. The tail first, so that the queue
/// looks shorter than it is, and never longer than it was.
fn run_queue(own: &Own, common: &Common) -> (u32, u32) {
    let tail = own.run_tail.load(Ordering::Acquire);
    let tail = tail.wrapping_add(common.run_put.load(Ordering::Acquire));
    let head = own.run_head.load(Ordering::Relaxed);
    (head.wrapping_add(common.run_taken.load(Ordering::Relaxed)), tail)
}

/// What a kthread said of itself: a copy. Counters wrap; the difference of tail and head is what is
/// in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// It has given its core back.
    pub is_parked: bool,
    /// The generation of the word that it has seen.
    pub generation: u32,
    /// The kernel's number of it; 0: it has not said it yet. It may lie: to be checked against the
    /// process that it is of.
    pub tid: u32,
    /// Threads that were taken out of its run queues so far, and put in.
    pub run: (u32, u32),
    /// Threads that were taken out of its inbox so far, and put in.
    pub inbox: (u32, u32),
    /// Since when the oldest ready thread is ready.
    pub oldest_ready_ns: Option<u64>,
    /// When its first timer is due.
    pub next_timer_ns: Option<u64>,
    /// Ready threads that only this kthread can run.
    pub stranded: u32,
}

/// A program wrote what can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kthread {kthread} wrote a state that does not exist: {state:#x}")]
pub struct Lie {
    /// Whose line.
    pub kthread: u32,
    /// What it says.
    pub state: u32,
}

/// The daemon's side: it can't write.
pub struct PageView {
    memory: Memory,
    spec: Spec,
}

impl PageView {
    /// The page that a program passed.
    ///
    /// # Errors
    /// Where it is none, or not one of this version, or asks for what can't be.
    pub fn map(fd: OwnedFd) -> Result<Self, MapError> {
        let most = bytes_for(MOST_KTHREADS) + rustix::param::page_size();
        let memory = Memory::view(fd, size_of::<Header>(), most)?;
        // SAFETY: atomics.
        let header: &Header = unsafe { memory.at(0) };
        let kthreads = header.heading.check(&KIND)?;
        let spec = Spec {
            class: match header.class.load(Ordering::Relaxed) {
                0 => Class::LatencyCritical,
                1 => Class::Batch { looks: false },
                2 => Class::Batch { looks: true },
                _ => return Err(MapError::Header("its class")),
            },
            kthreads,
            guaranteed: header.guaranteed.load(Ordering::Relaxed),
            burstable: header.burstable.load(Ordering::Relaxed),
        };
        if !(1..=MOST_KTHREADS).contains(&spec.kthreads) {
            return Err(MapError::Header("how many kthreads it has"));
        }
        if spec.guaranteed > MOST_KTHREADS || spec.burstable > MOST_KTHREADS {
            return Err(MapError::Header("how many cores it wants"));
        }
        if bytes_for(spec.kthreads) > memory.bytes() {
            return Err(MapError::Header("it is larger than the memory"));
        }
        Ok(Self { memory, spec })
    }

    /// What the program wants: as it was when the page was mapped.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What a kthread says of itself.
    ///
    /// # Errors
    /// Where its state is none.
    ///
    /// # Panics
    /// Where the program has no such kthread.
    pub fn look(&self, index: u32) -> Result<Look, Lie> {
        assert!(index < self.spec.kthreads, "no such kthread");
        // SAFETY: atomics.
        let line: &Line = unsafe { self.memory.at(size_of::<Header>() + index as usize * LINE) };
        let (own, common) = (&line.own, &line.common);
        // The state first: what it published before is seen with it. A tail is read before its head.
        let state = own.state.look();
        let (is_parked, generation) = state.map_err(|state| Lie { kthread: index, state })?;
        let some = |time_ns: u64| Some(time_ns).filter(|&time_ns| time_ns != 0);
        let run = run_queue(own, common);
        let inbox_tail = common.inbox_tail.load(Ordering::Acquire);
        Ok(Look {
            is_parked,
            generation,
            tid: own.tid.load(Ordering::Relaxed),
            run,
            inbox: (own.inbox_head.load(Ordering::Relaxed), inbox_tail),
            oldest_ready_ns: some(own.oldest_ready_ns.load(Ordering::Relaxed)),
            next_timer_ns: some(own.next_timer_ns.load(Ordering::Relaxed)),
            stranded: own.stranded.load(Ordering::Relaxed),
        })
    }
}
