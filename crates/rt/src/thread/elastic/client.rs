//! A kthread's side: its word, what it publishes, and how it parks.
//!
//! All of it is the kthread's own, but for the line and the board.

use super::gate::Gate;
use super::{Elastic, Link};
use crate::clock::{self, Clock};
use crate::socket::Poller;
use crate::thread::kthread::KThread;
use crate::thread::serving;
use curtail_shm::follow::{self, Follower};
use curtail_shm::{Ask, LentPage, PageLine, Word, monotonic_ns};
use std::cell::{Cell, RefCell};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::thread::elastic::client";

/// How often a kthread that runs looks for packets of those that are parked.
const WATCH_NS: u64 = 50_000;

/// A kthread that was evicted with nothing but batch threads asks for a core again after that.
const BATCH_AGAIN_NS: u64 = 1_000_000;

/// What a kthread looks at that has no daemon.
static UNASKED: AtomicU32 = AtomicU32::new(0);
/// After so long the two clocks are compared again.
const COMPARE_NS: u64 = 1_000_000;

/// A kthread's side of the core allocator's protocol.
pub struct AllocatorClient {
    pub(super) elastic: Arc<Elastic>,
    line: PageLine,
    pub(super) index: u32,
    /// As of `epoch`.
    pub(super) link: RefCell<Option<Arc<Link>>>,
    /// Where a batch program's kthread looks for orders, as of `epoch`.
    orders: RefCell<Option<Arc<Link>>>,
    pub(super) epoch: Cell<u32>,
    /// Its word, in the board that `link` keeps, or `UNASKED`.
    word: Cell<*const AtomicU32>,
    /// The word that it has followed.
    seen: Cell<Word>,
    /// The two clocks, at one moment: TSC, and `CLOCK_MONOTONIC` in ns.
    clocks: Cell<(u64, u64)>,
    /// How many threads had ever been ready here at some time, and that time, in ns.
    mark: Cell<(u32, u64)>,
    has_oldest: Cell<bool>,
    /// When it last looked for packets of its parked siblings (TSC).
    watched: Cell<u64>,
    watch_cycles: u64,
    pub(super) gate: Gate,
    /// 1: it is a dispatcher, and has work that no other kthread can do.
    holds: Cell<u32>,
    /// When the dispatcher is to have a core again, though nothing has come (TSC); 0: never.
    wakes: Cell<u64>,
    /// What the line says of requests that wait for a core of the program's.
    waiting: Cell<u32>,
    /// Where the safepoints' block is, as long as the kthread lives.
    _lent: Option<LentPage>,
}

impl AllocatorClient {
    /// Of the kthread that the calling thread is about to be.
    pub(in crate::thread) fn new(elastic: &Arc<Elastic>, index: usize) -> Self {
        let line = elastic.line(index);
        let index = index as u32;
        // SAFETY: no arguments, always succeeds.
        line.place().0.set_tid(index, unsafe { libc::gettid() } as u32);
        if elastic.is_batch
            && let Err(error) = curtail_shm::kthreads::rank_last()
        {
            tracing::warn!(target: LOG, %error, "batch work ranks with everything else");
        }
        Self {
            elastic: elastic.clone(),
            index,
            line,
            link: RefCell::new(None),
            orders: RefCell::new(None),
            epoch: Cell::new(0),
            word: Cell::new(&raw const UNASKED),
            seen: Cell::new(Word::FIRST),
            clocks: Cell::new((clock::now(), monotonic_ns())),
            mark: Cell::new((0, 0)),
            has_oldest: Cell::new(false),
            watched: Cell::new(0),
            watch_cycles: Clock::get().cycles(WATCH_NS),
            gate: Gate::default(),
            holds: Cell::new(0),
            wakes: Cell::new(0),
            waiting: Cell::new(0),
            _lent: elastic.lend_page(index),
        }
    }

    /// The kthread has a poller from now on.
    pub(in crate::thread) fn add_poller(&self, poller: &Poller) {
        self.elastic.add_poller(poller.as_fd(), self.index as usize);
    }

    #[inline]
    fn word(&self) -> Word {
        // SAFETY: in the board of `link`, which stays mapped as long as that is there, or a static.
        Word(unsafe { (*self.word.get()).load(Ordering::Acquire) })
    }

    /// Whether the daemon asks for something that the kthread has not done yet.
    #[inline]
    pub(in crate::thread) fn is_asked(&self) -> bool {
        self.word() != self.seen.get()
    }

    /// What to look at for that, and what it is as long as the daemon asks for nothing.
    #[inline]
    pub(in crate::thread) fn watched(&self) -> (*const AtomicU32, u32) {
        (self.word.get(), self.seen.get().0)
    }

    /// Whether the daemon asks for something, or has itself come or gone.
    pub(in crate::thread) fn is_to_look(&self) -> bool {
        self.is_asked() || self.epoch.get() != self.elastic.epoch()
    }

    /// Does what the daemon asks. Between two threads.
    pub(in crate::thread) fn look(&self, kthread: &KThread) {
        if self.epoch.get() != self.elastic.epoch() {
            self.relink();
        }
        let word = self.word();
        if word != self.seen.get() {
            match word.ask() {
                Ask::Run => self.run(word),
                Ask::Park | Ask::Evict => self.park(kthread, word),
            }
        } else if kthread.shared.is_disowned() && self.link.borrow().is_some() {
            // It was stuck, and its core was returned in its name.
            self.park(kthread, word);
        }
        if kthread.shared.is_disowned() {
            kthread.shared.own_again();
        }
    }

    /// The kthread is a dispatcher: it has a core as long as the program is guaranteed one. `waiter`: what
    /// is readable when it has something to do.
    pub fn hold(&self, waiter: impl AsFd) {
        self.holds.set(1);
        let (page, index) = self.line.place();
        page.set_stranded(index, 1);
        self.elastic.add_poller(waiter, self.index as usize);
    }

    /// The dispatcher has nothing to do: gives the core back, until something comes or `most` has passed.
    /// Where there is no daemon that would ever grant one, it returns at once.
    pub fn pause(&self, kthread: &KThread, most: Option<Duration>) {
        let cycles = |most: Duration| Clock::get().cycles(most.as_nanos() as u64);
        self.wakes.set(most.map_or(0, |most| clock::now() + cycles(most)));
        let holds = self.holds.replace(0);
        serving::away(kthread, || {
            self.rest(kthread);
        });
        self.holds.set(holds);
        self.wakes.set(0);
        let (page, index) = self.line.place();
        page.set_stranded(index, holds);
    }

    /// Whether there is a daemon that grants cores.
    pub fn is_linked(&self) -> bool {
        self.link.borrow().is_some()
    }

    /// So many requests wait for a core of the program's: at its dispatcher, or here, while a request runs.
    /// By the kthread.
    ///
    /// What the line calls stranded is no reason to grant another core: so there is one more in the
    /// queue, while there are any, than wait.
    pub fn publish_waiting(&self, waiting: usize) {
        let waiting = match waiting.min(1 << 20) as u32 {
            0 => 0,
            some => some + self.holds.get(),
        };
        let before = self.waiting.replace(waiting);
        self.line.count_put(waiting.saturating_sub(before));
        self.line.count_taken(before.saturating_sub(waiting));
    }

    /// Of a batch program: gives the core that the kthread is on to whom it was ordered for.
    #[inline]
    pub(in crate::thread) fn follow_orders(&self) {
        if let Some(link) = &*self.orders.borrow() {
            link.follow_orders();
        }
    }

    /// In the child of a fork: the core that it was granted is its parent's.
    pub(in crate::thread) fn run_anywhere(&self) {
        self.elastic.unpin(None);
    }

    /// The daemon looks for packets while all kthreads are parked; while some run, they do it for the
    /// others. `now`: TSC.
    pub(in crate::thread) fn watch_packets(&self, kthread: &KThread, now: u64) {
        kthread.shared.take_announcement();
        if now.wrapping_sub(self.watched.get()) < self.watch_cycles {
            return;
        }
        self.watched.set(now);
        let peers = kthread.scheduler().peers();
        if peers.iter().any(|peer| peer.is_parked()) {
            self.elastic.each_with_packets(|index| {
                if let Some(peer) = peers.get(index).filter(|peer| peer.is_parked()) {
                    peer.announce_packets();
                }
            });
        }
    }

    /// There is another daemon, or none.
    fn relink(&self) {
        let epoch = self.elastic.epoch();
        let link = self.elastic.link();
        let orders = link.clone().filter(|link| link.batch_cpus().is_some());
        if let Some(cpus) = orders.as_ref().and_then(|link| link.batch_cpus()) {
            self.elastic.pin_to(&cpus);
        }
        self.orders.replace(orders);
        let link = link.filter(|link| link.grants_cores());
        let place = link.as_ref().and_then(|link| link.view.word_address(link.slot(self.index)));
        // Before the board that it points into goes.
        self.word.set(place.unwrap_or(&raw const UNASKED));
        self.seen.set(Word::FIRST);
        if place.is_some() {
            // Whatever the word is, it was not followed yet.
            self.seen.set(Word(!self.word().0));
        }
        self.gate.set_lanes(link.as_ref().and_then(|link| link.lanes.clone()));
        self.link.replace(link);
        self.epoch.set(epoch);
    }

    fn run(&self, word: Word) {
        self.seen.set(word);
        let (page, index) = self.line.place();
        page.set_running(index, word.generation());
    }

    /// Without work: gives the core back. False: there is no daemon that would ever grant one.
    pub(in crate::thread) fn rest(&self, kthread: &KThread) -> bool {
        let linked = self.link.borrow().is_some();
        if linked && !self.is_to_look() {
            self.park(kthread, self.seen.get());
        }
        linked
    }

    /// Gives the core back, as `word` asks or without being asked, and sleeps until it has one again,
    /// or the daemon has gone.
    #[cold]
    fn park(&self, kthread: &KThread, word: Word) {
        let link = self.link.borrow();
        let link = link.as_ref().expect("who asks is there");
        kthread.turn_ring();
        let kept = self.publish_parked(kthread);
        kthread.shared.set_parked(true);
        kthread.shared.announce_batch_mail();
        serving::moved(kthread);
        self.elastic.doorbell().park();
        self.seen.set(follow::park(&Parking { client: self, kthread, link }, word));
        kthread.shared.own_again();
        kthread.shared.set_parked(false);
        serving::moved(kthread);
        self.elastic.doorbell().unpark();
        self.publish_running(kept);
    }

    /// What is left here while it is parked: how many threads no other kthread can run.
    fn publish_parked(&self, kthread: &KThread) -> u32 {
        // What waits here is counted as far as no other kthread can do it.
        self.publish_waiting(0);
        let now = clock::now();
        let (page, index) = self.line.place();
        let kept = (kthread.local.len() + serving::stranded(kthread)) as u32 + self.holds.get();
        self.line.count_put(kept);
        page.set_stranded(index, kept);
        self.publish_age(now);
        let again = kthread.has_batch().then(|| now + Clock::get().cycles(BATCH_AGAIN_NS));
        let wakes = Some(self.wakes.get()).filter(|&tsc| tsc != 0);
        let timer = kthread.wheel.next_tsc().into_iter().chain(again).chain(wakes).min();
        page.set_next_timer_ns(index, timer.map_or(0, |tsc| self.ns_at(tsc).max(1)));
        kept
    }

    fn publish_running(&self, kept: u32) {
        let (page, index) = self.line.place();
        self.line.count_taken(kept);
        page.set_stranded(index, self.holds.get());
        page.set_next_timer_ns(index, 0);
    }

    /// Since when something has been ready that others could run. `now`: TSC.
    ///
    /// At some time so many threads had ever become ready; until as many have been taken, one of
    /// those is still there. Then the present takes that time's place.
    pub(in crate::thread) fn publish_age(&self, now: u64) {
        let (page, index) = self.line.place();
        let (head, tail) = self.line.run_queue();
        if head == tail {
            if self.has_oldest.replace(false) {
                page.set_oldest_ready_ns(index, 0);
            }
            return;
        }
        let (mark, since) = self.mark.get();
        let still_there = self.has_oldest.get() && (mark.wrapping_sub(head) as i32) > 0;
        if !still_there {
            let since = self.ns_at(now);
            self.mark.set((tail, since));
            page.set_oldest_ready_ns(index, since);
        } else {
            page.set_oldest_ready_ns(index, since);
        }
        self.has_oldest.set(true);
    }

    /// A time by the TSC, by `CLOCK_MONOTONIC`.
    fn ns_at(&self, tsc: u64) -> u64 {
        let clock = Clock::get();
        let (mut then, mut ns) = self.clocks.get();
        let now = clock::now();
        if clock.ns(now.wrapping_sub(then)) > COMPARE_NS {
            (then, ns) = (now, monotonic_ns());
            self.clocks.set((then, ns));
        }
        match tsc.checked_sub(then) {
            Some(later) => ns.saturating_add(clock.ns(later)),
            None => ns.saturating_sub(clock.ns(then - tsc)),
        }
    }
}

/// A kthread that parks.
struct Parking<'a> {
    client: &'a AllocatorClient,
    kthread: &'a KThread,
    link: &'a Link,
}

impl Follower for Parking<'_> {
    fn word(&self) -> Word {
        self.client.word()
    }

    fn say_running(&self, generation: u32) {
        let (page, index) = self.client.line.place();
        page.set_running(index, generation);
    }

    fn say_parked(&self, generation: u32) {
        let (page, index) = self.client.line.place();
        page.set_parked(index, generation);
    }

    fn sleep(&self, word: Word) {
        self.link.view.sleep(self.link.slot(self.client.index), word, None);
    }

    fn wake_heir(&self) {
        if let Some(heir) = self.link.view.heir(self.link.slot(self.client.index)) {
            self.link.view.wake(heir);
        }
    }

    fn stops(&self) -> bool {
        self.kthread.scheduler().is_to_stop()
            || self.client.epoch.get() != self.client.elastic.epoch()
    }
}
