//! Who waits for what, by address: for the locks and condition variables of C and C++ and for
//! futexes, which have no room for a queue of their own.
//!
//! From any thread. The table has queues of `crate::block`'s nodes, each for a share of all
//! addresses; a node's key is its address. `block/README.md` states the protocol. Nothing of the
//! program's is called with a queue locked but `still`.

use crate::block::{self, Deadline, Node, Place, Queue, Wait};
use crate::thread::{KThread, Shared, Tcb, without_limit};
use curtail_ring::CachePadded;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const BITS: u32 = 10;

/// Those who wait for addresses that share a place.
struct Share {
    queue: Queue,
    /// How many wait there, or are about to: with it, a wake-up without a waiter costs one load.
    waiting: AtomicUsize,
}

static TABLE: [CachePadded<Share>; 1 << BITS] =
    [const { CachePadded::new(Share { queue: Queue::new(), waiting: AtomicUsize::new(0) }) };
        1 << BITS];
/// How many wait in all of the table.
static WAITING: AtomicUsize = AtomicUsize::new(0);

#[inline]
fn share(address: usize) -> &'static Share {
    // Fibonacci hashing of the address without its alignment bits.
    let hash = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &TABLE[hash >> (usize::BITS - BITS)]
}

/// Whether there are waiters at this address, or at one that shares its place.
#[inline]
pub fn anybody_at(address: usize) -> bool {
    share(address).waiting.load(Ordering::SeqCst) != 0
}

/// Whether there are waiters at all.
#[inline]
pub fn anybody() -> bool {
    WAITING.load(Ordering::SeqCst) != 0
}

/// In a fork's child nobody waits: those who did are its parent's.
///
/// # Safety
/// The process has one thread, which does not wait here.
pub(crate) unsafe fn begin_anew() {
    if WAITING.swap(0, Ordering::SeqCst) != 0 {
        for share in &TABLE {
            share.waiting.store(0, Ordering::SeqCst);
            // SAFETY: by contract.
            unsafe { share.queue.renew() };
        }
    }
}

/// Waits until another thread or fiber wakes `address` or the deadline passes; returns at once if
/// `still`, asked under the queue's lock, says that there is nothing to wait for. Once entered,
/// lets go of the caller's lock by `release`. The limit of a [`crate::time::timeout`] does not end
/// it: nothing can unwind through code of C.
pub fn wait(
    address: usize,
    place: Place,
    deadline: Option<Deadline>,
    still: impl FnOnce() -> bool,
    release: impl FnOnce(),
) -> Wait {
    block::assert_may_wait();
    let note = |address| {
        if let Some(tcb) = KThread::current_tcb() {
            tcb.waits_for.set(address);
        }
    };
    let node = Node::keyed(block::me(), address, 0);
    // Before `still`: a waker changes the condition first and then asks whether there are waiters.
    let share = share(address);
    WAITING.fetch_add(1, Ordering::SeqCst);
    share.waiting.fetch_add(1, Ordering::SeqCst);
    note(address);
    let ended = without_limit(|| {
        block::wait_with(&share.queue, place, &node, deadline, false, still, release)
    });
    note(0);
    share.waiting.fetch_sub(1, Ordering::SeqCst);
    WAITING.fetch_sub(1, Ordering::SeqCst);
    ended
}

/// Wakes the one that has waited longest for `address`; false: none waits.
#[inline]
pub fn wake_one(address: usize) -> bool {
    let share = share(address);
    if share.waiting.load(Ordering::SeqCst) == 0 {
        return false;
    }
    block::with_queue(&share.queue, |locked| locked.pop_key(address))
}

/// Wakes all that wait for `address`.
#[inline]
pub fn wake_all(address: usize) {
    while wake_one(address) {}
}

/// Takes out those of one kthread, of all that `which` says, which will not run again; which they were.
pub fn forget(home: &Arc<Shared>, which: impl Fn(&Tcb) -> bool) -> Vec<*const Tcb> {
    let mut found = Vec::new();
    let is_one = |node: &Node<block::Who>| node.who().is_at(home, &which);
    for Share { queue, waiting } in TABLE.iter().map(|share| &**share) {
        // Memory is asked for with the queue unlocked: the program's allocator may wait here. What
        // is at home there is suspended for good, so the second look finds what the first did.
        let mut count = 0;
        look_at(queue, |node| {
            count += usize::from(is_one(node));
            false
        });
        found.reserve(count);
        look_at(queue, |node| {
            let takes = found.len() < found.capacity() && is_one(node);
            if takes {
                found.push(node.who().as_tcb());
                waiting.fetch_sub(1, Ordering::SeqCst);
            }
            takes
        });
    }
    WAITING.fetch_sub(found.len(), Ordering::SeqCst);
    found
}

fn look_at(queue: &Queue, leave: impl FnMut(&Node<block::Who>) -> bool) {
    block::with_queue(queue, |locked| {
        locked.remove_where(leave);
        None
    });
}
