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
use curtail_ring::shm::{self, Consumer, Producer, PushError};
use curtail_ring::{AttachError, Corrupt, Layout, Pod};
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

/// A kthread's end.
pub struct KthreadEnd {
    /// What has come.
    pub arrivals: Receiver<Arrival>,
    /// What is answered.
    pub answers: Sender<Answer>,
    /// Whether something has come.
    pub waiting: Gauge<Arrival>,
}

/// The daemon's end of one kthread's rings.
pub struct DaemonEnd {
    /// What has come.
    pub arrivals: Sender<Arrival>,
    /// What is answered.
    pub answers: Receiver<Answer>,
}

/// Takes packets out of a ring.
pub struct Receiver<T> {
    consumer: Consumer<T>,
    /// Goes after the consumer, which points into it.
    _memory: Arc<Memory>,
}

impl<T: Pod> Receiver<T> {
    /// The next packet.
    ///
    /// # Errors
    /// Where the other side's index can't be right.
    pub fn pop(&mut self) -> Result<Option<T>, Corrupt> {
        self.consumer.pop()
    }

    /// Copies at most `most` packets to the end of `into`; how many.
    ///
    /// # Errors
    /// Where the other side's index can't be right.
    pub fn pop_batch(&mut self, into: &mut Vec<T>, most: usize) -> Result<usize, Corrupt> {
        self.consumer.pop_batch(into, most)
    }
}

/// Puts packets into a ring.
pub struct Sender<T> {
    producer: Producer<T>,
    /// Goes after the producer, which points into it.
    _memory: Arc<Memory>,
}

impl<T: Pod> Sender<T> {
    /// Puts one in.
    ///
    /// # Errors
    /// [`PushError`]; nothing was put in.
    pub fn push(&mut self, packet: T) -> Result<(), PushError> {
        self.producer.push(packet)
    }

    /// How many there is room for now.
    ///
    /// # Errors
    /// Where the other side's index can't be right.
    pub fn free(&mut self) -> Result<usize, Corrupt> {
        self.producer.free()
    }
}

/// Whether there are packets in a ring, for code that has neither of its ends: a hint.
pub struct Gauge<T> {
    gauge: shm::Gauge<T>,
    /// Goes after the gauge, which points into it.
    _memory: Arc<Memory>,
}

impl<T> Gauge<T> {
    /// Whether there is none. A ring that contradicts itself is not empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gauge.is_empty()
    }
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
        // SAFETY: each end is taken once, and this process uses the rings in no other way.
        let ends = unsafe {
            let waiting = gauge(&self.memory, arrivals).ok()?;
            (receiver(&self.memory, arrivals).ok()?, sender(&self.memory, answers).ok()?, waiting)
        };
        Some(KthreadEnd { arrivals: ends.0, answers: ends.1, waiting: ends.2 })
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
            let attached = unsafe { (sender(&memory, arrivals), receiver(&memory, answers)) };
            let (Ok(arrivals), Ok(answers)) = attached else {
                return Err(MapError::Header("there is no ring"));
            };
            let capacities = [arrivals.producer.capacity(), answers.consumer.capacity()];
            if capacities != [RING_CAPACITY; 2] {
                return Err(MapError::Header("the rings' capacity"));
            }
            ends.push(Self { arrivals, answers });
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
/// This process has no other producer in that ring, and uses it through these ends only.
unsafe fn sender<T: Pod>(memory: &Arc<Memory>, at: usize) -> Result<Sender<T>, AttachError> {
    let bytes = ring_bytes::<T>();
    // SAFETY: within the memory, which stays mapped as long as the answer keeps it; the rest by
    // contract.
    let producer = unsafe { shm::attach_producer(memory.region(at, bytes), bytes) }?;
    Ok(Sender { producer, _memory: memory.clone() })
}

/// # Safety
/// This process has no other consumer in that ring, and uses it through these ends only.
unsafe fn receiver<T: Pod>(memory: &Arc<Memory>, at: usize) -> Result<Receiver<T>, AttachError> {
    let bytes = ring_bytes::<T>();
    // SAFETY: as in `sender`.
    let consumer = unsafe { shm::attach_consumer(memory.region(at, bytes), bytes) }?;
    Ok(Receiver { consumer, _memory: memory.clone() })
}

/// # Safety
/// This process uses that ring through these ends only.
unsafe fn gauge<T: Pod>(memory: &Arc<Memory>, at: usize) -> Result<Gauge<T>, AttachError> {
    let bytes = ring_bytes::<T>();
    // SAFETY: as in `sender`.
    let gauge = unsafe { shm::attach_gauge(memory.region(at, bytes), bytes) }?;
    Ok(Gauge { gauge, _memory: memory.clone() })
}
