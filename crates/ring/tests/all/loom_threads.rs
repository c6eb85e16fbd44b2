//! What threads stand on, in every interleaving within small bounds: inboxes, wait queues.
//! `RUSTFLAGS="--cfg loom" cargo test -p curtail-ring --release --test all loom_threads::`.
#![cfg(loom)]

use curtail_ring::wait::{Node, Place, WaitQueue, Waiter};
use curtail_ring::{Inbox, Linked};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicPtr, AtomicU32};
use loom::thread;

struct Letter {
    link: AtomicPtr<Letter>,
    /// Written before it is sent.
    content: UnsafeCell<u32>,
}

// SAFETY: the one cell.
unsafe impl Linked for Letter {
    fn link(&self) -> &AtomicPtr<Self> {
        &self.link
    }
}

#[test]
fn an_inbox_loses_nothing_and_keeps_the_order() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::<Letter>::default());
        let send = |inbox: &Inbox<Letter>, number| {
            let link = AtomicPtr::new(std::ptr::null_mut());
            let letter = Box::new(Letter { link, content: UnsafeCell::new(0) });
            // SAFETY: this thread alone has it so far.
            letter.content.with_mut(|content| unsafe { *content = number });
            // SAFETY: alive until it was taken out.
            unsafe { inbox.push(Box::into_raw(letter)) };
        };
        let other = {
            let inbox = inbox.clone();
            thread::spawn(move || {
                send(&inbox, 1);
                send(&inbox, 2);
            })
        };
        let mut received = Vec::new();
        let mut receive = |inbox: &Inbox<Letter>| {
            inbox.drain(|letter| {
                // SAFETY: it was sent, and is ours.
                let letter = unsafe { Box::from_raw(letter) };
                // SAFETY: as above.
                received.push(letter.content.with(|content| unsafe { *content }));
            });
        };
        receive(&inbox);
        send(&inbox, 10);
        receive(&inbox);
        other.join().unwrap();
        receive(&inbox);
        assert!(inbox.is_empty());
        received.retain(|number| *number != 10);
        assert_eq!(received, [1, 2]);
    });
}

/// The thread sleeps until its wait is over.
fn sleep(node: &Node<Who>) {
    while !node.is_over() {
        thread::park();
    }
}

/// Who waits: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Who(usize);

impl Waiter for Who {
    fn is_gone(self) -> bool {
        self.0 == GONE
    }

    /// As a plain thread does.
    fn goes_on_by_itself(self) -> bool {
        true
    }
}

const GONE: usize = usize::MAX;

/// A waiter, its waker, and the end of its time, at once: it ends once, and the waker knows how.
#[test]
fn a_wait_ends_once() {
    loom::model(|| {
        let queue = Arc::new(WaitQueue::<Who>::new());
        let node = Arc::new(Node::new(Who(1), 5));
        // SAFETY: it stays until it has been taken out, below.
        unsafe { queue.lock().push(&node) };
        let waker = {
            let queue = queue.clone();
            thread::spawn(move || queue.lock().pop().map(|woken| woken.who))
        };
        let timer = {
            let node = node.clone();
            thread::spawn(move || node.expire())
        };
        let expired = timer.join().unwrap();
        if expired {
            queue.lock().remove(&node);
        }
        let woken = waker.join().unwrap();
        assert_eq!(woken, (!expired).then_some(Who(1)));
        assert!(node.is_over() && node.is_woken() != expired);
        assert!(queue.lock().is_empty());
    });
}

/// A waker whose first has expired wakes the next one: no wake-up is lost.
#[test]
fn a_wake_up_goes_to_one_that_still_waits() {
    loom::model(|| {
        let queue = Arc::new(WaitQueue::<Who>::new());
        let nodes = Arc::new([GONE, 1, 2].map(|who| Node::new(Who(who), 0)));
        for node in nodes.iter() {
            // SAFETY: they stay until they have been taken out, below.
            unsafe { queue.lock().push(node) };
        }
        let waker = {
            let queue = queue.clone();
            thread::spawn(move || queue.lock().pop().map(|woken| woken.who.0))
        };
        let expired = nodes[1].expire();
        if expired {
            queue.lock().remove(&nodes[1]);
        }
        let woken = waker.join().unwrap();
        assert_eq!(woken, Some(if expired { 2 } else { 1 }));
        assert_eq!(nodes[2].is_woken(), expired);
        queue.lock().remove(&nodes[2]);
        assert!(queue.lock().is_empty());
    });
}

/// Two nodes enter and leave by themselves, at both ends, while a third is woken by its key.
#[test]
fn removal_and_wake_ups_by_key() {
    loom::model(|| {
        let queue = Arc::new(WaitQueue::<Who>::new());
        let third = Arc::new(Node::keyed(Who(3), 7, 0));
        // SAFETY: it stays until it has been taken out.
        unsafe { queue.lock().push(&third) };
        let visitor = {
            let queue = queue.clone();
            thread::spawn(move || {
                let nodes = [1, 2].map(|who| Node::keyed(Who(who), who, 0));
                let mut locked = queue.lock();
                // SAFETY: they are taken out below.
                unsafe {
                    locked.push_first(&nodes[0]);
                    locked.push(&nodes[1]);
                }
                drop(locked);
                for node in &nodes {
                    assert!(node.expire());
                    // Or the waker took it out on its way.
                    queue.lock().remove(node);
                }
            })
        };
        assert_eq!(queue.lock().pop_key(7).unwrap().who, Who(3));
        visitor.join().unwrap();
        assert!(third.is_woken() && queue.lock().is_empty());
    });
}

/// The lock of `curtail::sync::Mutex`, by the same steps (crates/rt/src/sync/raw_mutex.rs), with
/// a thread of the model's for each waiter.
struct Mutex {
    state: AtomicU32,
    queue: WaitQueue<Who>,
    /// By number; whom to unpark.
    threads: [loom::sync::Mutex<Option<thread::Thread>>; 3],
    value: UnsafeCell<u32>,
}

const HELD: u32 = 1;
const WAITERS: u32 = 2;
const FIRST: u32 = 0;
const LOST: u32 = 1;
const OWNS: u32 = 2;

impl Mutex {
    fn take_or_mark(&self) -> bool {
        let mut state = self.state.load(Relaxed);
        loop {
            if state == HELD | WAITERS {
                return false;
            }
            let next = if state & HELD == 0 { state | HELD } else { state | WAITERS };
            match self.state.compare_exchange(state, next, Acquire, Relaxed) {
                Ok(_) => return state & HELD == 0,
                Err(now) => state = now,
            }
        }
    }

    /// False: given up, where `patient` is false.
    fn lock(&self, me: usize, patient: bool) -> bool {
        if self.state.compare_exchange(0, HELD, Acquire, Relaxed).is_ok() {
            return true;
        }
        *self.threads[me].lock().unwrap() = Some(thread::current());
        let mut note = FIRST;
        loop {
            let node = Node::new(Who(me), note);
            let place = if note == FIRST { Place::Last } else { Place::First };
            let nothing = || {};
            let sleeps = || {
                if patient || !node.expire() {
                    sleep(&node);
                }
            };
            // SAFETY: it is in no queue, and nothing unwinds.
            let ended = unsafe {
                self.queue.wait((&node, place), || !self.take_or_mark(), nothing, sleeps)
            };
            match ended {
                None => return true,
                Some(false) => return false,
                Some(true) => {}
            }
            if node.note() == OWNS {
                return true;
            }
            note = LOST;
        }
    }

    fn unlock(&self) {
        if self.state.compare_exchange(HELD, 0, Release, Relaxed).is_ok() {
            return;
        }
        let mut queue = self.queue.lock();
        let mut handed_over = false;
        let woken = queue.pop_if(|node| {
            handed_over = node.note() != FIRST;
            if handed_over {
                node.set_note(OWNS);
            }
            true
        });
        let held = if woken.is_some() && handed_over { HELD } else { 0 };
        let waiters = if queue.is_empty() { 0 } else { WAITERS };
        self.state.store(held | waiters, Release);
        drop(queue);
        if let Some(woken) = woken {
            self.threads[woken.who.0].lock().unwrap().as_ref().unwrap().unpark();
        }
    }

    fn add(&self) {
        // SAFETY: under the lock: loom sees where it is not.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

/// Holders exclude each other, and no thread waits for ever, although one gives up.
#[test]
fn a_mutex_excludes_and_is_left() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let mutex = Arc::new(Mutex {
            state: AtomicU32::new(0),
            queue: WaitQueue::new(),
            threads: [(); 3].map(|()| loom::sync::Mutex::new(None)),
            value: UnsafeCell::new(0),
        });
        let others = [1, 2].map(|me| {
            let mutex = mutex.clone();
            thread::spawn(move || {
                // The second does not wait to the end.
                let has = mutex.lock(me, me == 1);
                if has {
                    mutex.add();
                    mutex.unlock();
                }
                u32::from(has)
            })
        });
        for _ in 0..2 {
            assert!(mutex.lock(0, true));
            mutex.add();
            mutex.unlock();
        }
        let others: u32 = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert!(mutex.lock(0, true));
        // SAFETY: under the lock.
        assert_eq!(mutex.value.with(|value| unsafe { *value }), 2 + others);
        assert!(mutex.queue.lock().is_empty());
    });
}
