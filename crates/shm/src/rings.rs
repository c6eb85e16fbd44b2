//! Rings between the daemon and a program's kthreads, for a program whose packets the daemon receives
//! (Shenango §4.3 and §6: its IOKernel's ingress and egress queues).
//!
//! ```text
//!   for each kthread   a ring of arrivals: the daemon puts in, the kthread takes out
//!                      a ring of answers:  the kthread puts in, the daemon takes out
//! ```
//!
//! The program makes the memory; both sides write it, and neither trusts what it finds there: see
//! [`curtail_ring::shm`]. Where a ring contradicts itself, the side that sees it gives that ring up.

use crate::memory::{MapError, Memory};
use crate::parcel::{Answer, Arrival};
use curtail_ring::shm::{self, Consumer, Producer};
use curtail_ring::{AttachError, Layout, Pod};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;

/// Packets in one ring, at most. A full ring drops what comes.
pub const RING_CAPACITY: usize = 256;

fn ring_bytes<T: Pod>() -> usize {
    Layout::bytes_for::<T>(RING_CAPACITY).expect("a small ring").next_multiple_of(Layout::ALIGN)
}

/// Where the rings of a kthread are.
fn places(kthread: u32) -> (usize, usize) {
    let (arrivals, answers) = (ring_bytes::<Arrival>(), ring_bytes::<Answer>());
    let start = kthread as usize * (arrivals + answers);
    (start, start + arrivals)
}

/// The program's side, before its kthreads take their ends.
pub struct Rings {
    memory: Arc<Memory>,
    taken: Vec<bool>,
}

/// A kthread's end. It belongs to that kthread.
pub struct KthreadEnd {
    /// What has come.
    pub arrivals: Consumer<Arrival>,
    /// What is answered.
    pub answers: Producer<Answer>,
    _memory: Arc<Memory>,
}

/// The daemon's end of one kthread's rings.
pub struct DaemonEnd {
    /// What has come.
    pub arrivals: Producer<Arrival>,
    /// What is answered.
    pub answers: Consumer<Answer>,
    _memory: Arc<Memory>,
}

impl Rings {
    /// Empty rings for so many kthreads, of about 790 KB each.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// With no kthread.
    pub fn create(kthreads: u32) -> io::Result<Self> {
        assert!(kthreads > 0, "no kthreads");
        let memory = Memory::create_for_both("curtail-rings", places(kthreads).0)?;
        for kthread in 0..kthreads {
            let (arrivals, answers) = places(kthread);
            init::<Arrival>(&memory, arrivals).map_err(io::Error::other)?;
            init::<Answer>(&memory, answers).map_err(io::Error::other)?;
        }
        Ok(Self { memory: Arc::new(memory), taken: vec![false; kthreads as usize] })
    }

    /// To be passed to the daemon.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// The end of a kthread, once; `None`: it was taken, or there is no such kthread.
    pub fn take(&mut self, kthread: u32) -> Option<KthreadEnd> {
        let taken = self.taken.get_mut(kthread as usize)?;
        if std::mem::replace(taken, true) {
            return None;
        }
        let (arrivals, answers) = places(kthread);
        // SAFETY: the region of this ring, which is mapped as long as the end holds the memory; each
        // end is taken once, and this process uses it in no other way.
        let ends = unsafe {
            (consumer(&self.memory, arrivals).ok()?, producer(&self.memory, answers).ok()?)
        };
        Some(KthreadEnd { arrivals: ends.0, answers: ends.1, _memory: self.memory.clone() })
    }
}

impl DaemonEnd {
    /// The ends of the rings that a program with so many kthreads passed.
    ///
    /// # Errors
    /// Where they are none, or too small for that many.
    pub fn map(fd: OwnedFd, kthreads: u32) -> Result<Vec<Self>, MapError> {
        let bytes = places(kthreads).0;
        let memory = Memory::share(fd, bytes, bytes + rustix::param::page_size())?;
        let memory = Arc::new(memory);
        let mut ends = Vec::new();
        for kthread in 0..kthreads {
            let (arrivals, answers) = places(kthread);
            // SAFETY: as in `Rings::take`; the memory was mapped for these ends alone.
            let attached = unsafe { (producer(&memory, arrivals), consumer(&memory, answers)) };
            let (Ok(arrivals), Ok(answers)) = attached else {
                return Err(MapError::Header("there is no ring"));
            };
            if arrivals.capacity() != RING_CAPACITY || answers.capacity() != RING_CAPACITY {
                return Err(MapError::Header("the rings' capacity"));
            }
            ends.push(Self { arrivals, answers, _memory: memory.clone() });
        }
        Ok(ends)
    }
}

fn init<T: Pod>(memory: &Memory, at: usize) -> Result<(), AttachError> {
    let bytes = ring_bytes::<T>();
    // SAFETY: memory that was just made, of which nothing else knows.
    unsafe { shm::init_in::<T>(memory.region(at, bytes), bytes, RING_CAPACITY) }
}

/// # Safety
/// As for [`shm::attach_producer`], as long as `memory` is mapped.
unsafe fn producer<T: Pod>(memory: &Memory, at: usize) -> Result<Producer<T>, AttachError> {
    let bytes = ring_bytes::<T>();
    // SAFETY: by contract.
    unsafe { shm::attach_producer(memory.region(at, bytes), bytes) }
}

/// # Safety
/// As for [`shm::attach_consumer`], as long as `memory` is mapped.
unsafe fn consumer<T: Pod>(memory: &Memory, at: usize) -> Result<Consumer<T>, AttachError> {
    let bytes = ring_bytes::<T>();
    // SAFETY: by contract.
    unsafe { shm::attach_consumer(memory.region(at, bytes), bytes) }
}
