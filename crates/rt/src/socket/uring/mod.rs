//! A kthread's io_uring: operations that the kernel carries out while their threads wait.
//!
//! **Who touches it.** Threads of its kthread push operations. The kthread hands them to the kernel, all
//! with one system call, and takes completions, each time that it looks around. The descriptor lies in
//! the kthread's epoll ([`super::poller`]), so a completion ends its sleep; and where it has not
//! looked for long, others find it there, and do both in its place. All is under one lock.
//!
//! **What the kernel may write to.** An operation is on the stack of the thread that waits for it, and
//! that thread does not return, nor unwind, before the completion was taken: what ends the wait early
//! cancels the operation, and waits for that. A thread that is left behind keeps its stack for ever.
//!
//! **No completion is lost.** The kernel keeps what the ring has no room for. Work that it puts off
//! until the kthread enters it (`IORING_SETUP_COOP_TASKRUN`) ends a sleep, and is flagged: others make the
//! kthread's core do it by an interrupt ([`crate::fences::rare`]).

mod choice;
mod op;

use crate::block::Spin;
pub use choice::Io;
pub(crate) use choice::{Asks, IoPlan};
use io_uring::squeue::Entry;
use io_uring::{IoUring, Probe, opcode};
use op::Op;
pub(crate) use op::{Outcome, interruptible, uninterruptible};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Operations that one system call begins.
const ENTRIES: u32 = 64;
/// Completions that the ring has room for.
const ROOM: u32 = 1024;
/// Completions that are taken at once. They lie on the stack, which may be a thread's.
const TAKEN: usize = 32;
/// How often it takes as many.
const MOST_TAKES: usize = 16;
/// What is asked of the kernel. Accepts are the oldest of these.
const NEEDED: [u8; 8] = [
    opcode::Read::CODE,
    opcode::Write::CODE,
    opcode::Fsync::CODE,
    opcode::OpenAt::CODE,
    opcode::Recv::CODE,
    opcode::Send::CODE,
    opcode::Accept::CODE,
    opcode::AsyncCancel2::CODE,
];

/// A kthread's io_uring.
pub(crate) struct Uring {
    ring: Spin<IoUring>,
    fd: RawFd,
    /// Operations were pushed and not handed over. Changes under the lock.
    queued: AtomicBool,
}

impl Uring {
    pub(crate) fn new(plan: IoPlan) -> io::Result<Self> {
        if let Some(errno) = plan.refusal {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let mut builder = IoUring::builder();
        builder.setup_coop_taskrun().setup_taskrun_flag().setup_cqsize(ROOM);
        let ring: IoUring = builder.build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let has_all = NEEDED.iter().all(|&code| probe.is_supported(code));
        match has_all && ring.params().is_feature_nodrop() {
            true => Ok(Self {
                fd: ring.as_raw_fd(),
                ring: Spin::new(ring),
                queued: AtomicBool::new(false),
            }),
            false => Err(Errno::NOSYS.into()),
        }
    }

    /// False: there is no room, and the kernel takes nothing now.
    ///
    /// # Safety
    /// What the entry names is the operation's until its completion was taken.
    unsafe fn push(&self, entry: &Entry) -> bool {
        self.ring.with(|ring| {
            self.queued.store(true, Ordering::Relaxed);
            // SAFETY: by contract.
            let push = |ring: &mut IoUring| unsafe { ring.submission().push(entry).is_ok() };
            push(ring) || {
                // What fails now is tried again at the next turn.
                let _ = ring.submit();
                push(ring)
            }
        })
    }

    /// Whether there is something that is handed over with the next that is pushed.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed)
    }

    /// Hands over what was pushed, and makes those ready whose operations have ended; how many.
    pub(crate) fn turn(&self) -> usize {
        self.turn_by(|take| self.ring.with(take))
    }

    fn turn_by(&self, mut with: impl FnMut(&mut dyn FnMut(&mut IoUring))) -> usize {
        let mut total = 0;
        for _ in 0..MOST_TAKES {
            let (mut taken, mut count) = ([(0, 0); TAKEN], 0);
            with(&mut |ring| count = self.take(ring, &mut taken));
            for &(number, result) in &taken[..count] {
                // SAFETY: its completion was taken just now.
                unsafe { Op::finish(number, result) };
            }
            total += count;
            if count < TAKEN {
                break;
            }
        }
        total
    }

    /// Takes a turn in its kthread's place, which runs something else.
    pub(crate) fn turn_for_owner(&self) -> usize {
        let is_put_off = |ring: &mut IoUring| {
            self.submit(ring);
            ring.submission().taskrun()
        };
        // Whoever has the lock does this, too.
        if self.ring.try_with(is_put_off) == Some(true) {
            crate::fences::rare();
        }
        self.turn_by(|take| {
            let _ = self.ring.try_with(take);
        })
    }

    /// Whether its kthread has something to do here. From any thread.
    pub(crate) fn has_work(&self) -> bool {
        let look = |ring: &mut IoUring| is_due(ring) || !ring.completion().is_empty();
        self.ring.try_with(look) == Some(true)
    }

    fn submit(&self, ring: &mut IoUring) {
        if is_due(ring) {
            // What fails now is tried again at the next turn.
            let _ = ring.submit();
            self.queued.store(!ring.submission().is_empty(), Ordering::Relaxed);
        }
    }

    /// How many completions there were.
    fn take(&self, ring: &mut IoUring, taken: &mut [(u64, i32); TAKEN]) -> usize {
        self.submit(ring);
        let mut count = 0;
        for (place, entry) in taken.iter_mut().zip(ring.completion()) {
            *place = (entry.user_data(), entry.result());
            count += 1;
        }
        count
    }

    /// Its kthread ends: what is in flight ends early.
    pub(crate) fn end(&self) {
        op::cancel_all(self);
    }
}

impl AsFd for Uring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the ring.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

/// Whether the kernel is to be entered.
fn is_due(ring: &mut IoUring) -> bool {
    let queue = ring.submission();
    !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
}
