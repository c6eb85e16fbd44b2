//! What the kthreads of a runtime share. (`bits`: how they ask each other to come.)

use super::bits::Bits;
use super::elastic::Elastic;
use super::kthread::Shared;
use super::parker::Parker;
use super::tcb::Tcb;
use crate::socket::uring::IoPlan;
use curtail_ring::CachePadded;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// What all kthreads of a runtime share.
pub(super) struct Common {
    pub peers: Box<[Arc<Shared>]>,
    pub bits: CachePadded<Bits>,
    /// One that is idle looks at the others' sockets now and then, in case that they can't.
    pub lookout: AtomicBool,
    pub stop: AtomicBool,
    /// The thread with which the runtime ends; null: there is none.
    pub first: AtomicPtr<Tcb>,
    pub spin_cycles: u64,
    /// Others need the kthreads' cores.
    pub shares_core: bool,
    /// How many kthreads live.
    pub live: AtomicUsize,
    /// Those that were started at the beginning; the others are spare.
    pub usual: usize,
    /// All usual ones are stuck, as far as the watchdog has seen.
    pub needs_spares: AtomicBool,
    /// Under a core allocator.
    pub elastic: Option<Arc<Elastic>>,
    /// How the kthreads ask the kernel.
    pub io: IoPlan,
}

impl Common {
    /// Of `usual` kthreads, and so many spare ones at most.
    pub(super) fn new(
        (usual, spares): (usize, usize),
        spin_cycles: u64,
        shares_core: bool,
        elastic: Option<Arc<Elastic>>,
        io: IoPlan,
    ) -> Arc<Self> {
        let shared = |index| {
            // Spare ones have no place in the daemon's books.
            let line = elastic.as_ref().filter(|_| index < usual).map(|all| all.line(index));
            let doorbell = elastic.as_ref().map(|elastic| elastic.doorbell().clone());
            Shared::new(Arc::new(CachePadded::new(Parker::under(doorbell))), line)
        };
        let common = Arc::new(Self {
            peers: (0..usual + spares).map(shared).collect(),
            bits: CachePadded::default(),
            lookout: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            first: AtomicPtr::new(ptr::null_mut()),
            spin_cycles,
            shares_core,
            live: AtomicUsize::new(usual),
            usual,
            needs_spares: AtomicBool::new(false),
            elastic,
            io: io.settle(),
        });
        common.peers.iter().for_each(|peer| peer.set_common(Arc::downgrade(&common)));
        common
    }

    /// Has all kthreads look which of their requests are cancelled.
    pub(super) fn notify_all(&self) {
        self.peers.iter().for_each(|peer| peer.notify());
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        for peer in &self.peers {
            peer.notify_batch();
            peer.parker.unpark();
        }
        self.wake_parked();
    }

    /// After [`Common::stop`], again and again while there are kthreads: those that have no core are
    /// to notice.
    pub(super) fn wake_parked(&self) {
        if let Some(elastic) = &self.elastic {
            elastic.wake_parked(&self.peers);
        }
    }
}
