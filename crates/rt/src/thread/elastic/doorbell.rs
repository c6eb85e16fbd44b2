//! How the core allocator, which may sleep, learns of work that comes from outside while no kthread has
//! a core.
//!
//! Any thread rings; the kthreads count how many of them are parked, and the first that has a core
//! again silences the bell. The bell is one of the descriptors that the daemon watches while all are
//! parked.
//!
//! **No work is left behind.** A thread that brings some makes it visible first, and looks at the
//! count and at `rung` then. A ring that is left out because one has been seen already (`rung`) is
//! answered by a kthread that silences the bell after that, and looks at the queues after that.
//!
//! One that is left out because a kthread runs is seen by the daemon, which looks at all pages for
//! a while after the last has parked.

use curtail_shm::Page;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// A descriptor by which the core allocator learns of work from outside.
pub(crate) struct Doorbell {
    fd: OwnedFd,
    /// The descriptor is readable, and no kthread has come since.
    rung: AtomicBool,
    /// Kthreads without a core.
    parked: AtomicU32,
    kthreads: u32,
}

impl Doorbell {
    pub(super) fn new(page: &Page) -> std::io::Result<Self> {
        Ok(Self {
            fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            rung: AtomicBool::new(false),
            parked: AtomicU32::new(0),
            kthreads: page.kthreads(),
        })
    }

    /// Something was made ready, and that can be seen.
    #[inline]
    pub(in crate::thread) fn ring_if_idle(&self) {
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed) == self.kthreads
            && !self.rung.load(Ordering::Relaxed)
        {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // It fails where it was rung 2⁶⁴ times, and is readable then.
        let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        // After that: a kthread that sees it finds the descriptor readable.
        self.rung.store(true, Ordering::SeqCst);
    }

    /// The calling kthread has no core from now on.
    pub(super) fn park(&self) {
        self.parked.fetch_add(1, Ordering::SeqCst);
    }

    /// The calling kthread has a core again, and looks at its queues after this.
    pub(super) fn unpark(&self) {
        self.parked.fetch_sub(1, Ordering::SeqCst);
        if self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::SeqCst) {
            fence(Ordering::SeqCst);
            // Silent already where another has been quicker.
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
