//! A kthread's place in a runtime: its own loop, and how it finds work with others. (`bits`: how they
//! ask it to come.)

use super::bits::bit;
use super::common::Common;
use super::elastic::AllocatorClient;
use super::grace::TaskSettings;
use super::kthread::{KThread, Quanta, Shared, moving};
use super::serving;
use super::tcb::{Block, Tcb};
use crate::clock;
use crate::yields::Yields;
use curtail_fiber::StackError;
use curtail_policy::{Load, Loot, Thief, WorkerId};
use curtail_ring::StealRing;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often an idle kthread looks at the sockets of those that are at something.
const LOOKOUT: Duration = Duration::from_micros(200);

/// A kthread's place in its runtime.
pub struct KthreadScheduler {
    index: usize,
    /// The kthread lives in its own loop, and runs what lies in its queue.
    lives: Cell<bool>,
    common: Arc<Common>,
    thief: RefCell<Thief>,
    idleness: Cell<Idleness>,
    yields: Yields,
}

/// How long a kthread had no work, or no core.
#[derive(Clone, Copy, Default)]
pub(super) struct Idleness {
    pub cycles: u64,
    /// Of these, those in which it looked for some and did not sleep.
    pub spun_cycles: u64,
}

impl KthreadScheduler {
    /// Makes the calling thread kthread `index` of a runtime.
    pub(super) fn take(
        common: &Arc<Common>,
        index: usize,
        tasks: TaskSettings,
        quanta: Option<Quanta>,
    ) -> Result<Box<KThread>, StackError> {
        let thief = Thief::new(WorkerId(index as u16), common.peers.len(), None, clock::now());
        let scheduler = Self {
            index,
            lives: Cell::new(false),
            common: common.clone(),
            thief: RefCell::new(thief),
            idleness: Cell::default(),
            yields: Yields::new(),
        };
        let elastic = common.elastic.as_ref().filter(|_| index < common.usual);
        let client = elastic.map(|elastic| AllocatorClient::new(elastic, index));
        let shared = common.peers[index].clone();
        let kthread = KThread::new(shared, tasks, Some(scheduler), client)?;
        kthread.set_quanta(quanta);
        kthread.io.set(common.io);
        Ok(kthread)
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn peers(&self) -> &[Arc<Shared>] {
        &self.common.peers
    }

    /// Has all kthreads look which of their requests are cancelled.
    pub(crate) fn notify_all(&self) {
        self.common.notify_all();
    }

    pub(super) fn idleness(&self) -> Idleness {
        self.idleness.get()
    }

    /// One that sleeps, or runs a batch thread, may steal something now.
    #[inline]
    pub(super) fn wake_idle(&self) {
        if self.common.live.load(Ordering::Relaxed) > 1 {
            self.common.call_one();
        }
    }

    /// One that sleeps may take a batch thread now.
    pub(super) fn wake_sleeper(&self) {
        if self.common.live.load(Ordering::Relaxed) > 1 {
            self.common.wake_sleeper();
        }
    }

    /// This kthread is at something for long, and may lose its core: one that sleeps is to look at its
    /// sockets now and then.
    #[inline]
    pub(super) fn want_lookout(&self) {
        let common = &self.common;
        if !common.lookout.load(Ordering::Relaxed) && common.bits.idle.load(Ordering::Relaxed) != 0
        {
            common.wake_sleeper();
        }
    }

    /// Whether a kthread that is going to sleep is to look at others' sockets now and then.
    fn is_lookout(&self) -> bool {
        let is_busy = |peer: &Arc<Shared>| peer.has_sockets() && peer.runs_something();
        self.peers().iter().any(is_busy) && !self.common.lookout.swap(true, Ordering::Relaxed)
    }

    /// Whether no other kthread lives.
    #[inline]
    pub(super) fn is_the_only_one(&self) -> bool {
        self.common.live.load(Ordering::Relaxed) == 1
    }

    /// Whether that is a kthread of the same runtime, whose threads this one may run as well.
    pub(super) fn has_peer(&self, other: &Shared) -> bool {
        self.lives.get() && self.common.peers.iter().any(|peer| ptr::eq(Arc::as_ptr(peer), other))
    }

    /// Whether it may take from others. A spare one that is not needed may not.
    #[inline]
    fn takes(&self) -> bool {
        self.index < self.common.usual || self.common.needs_spares.load(Ordering::Acquire)
    }

    /// The runtime ends when that thread has.
    pub(super) fn end_with(&self, first: &Block) {
        self.common.first.store((&raw const first.tcb).cast_mut(), Ordering::Release);
    }

    /// A thread has ended here and has left its stack: whether the kthread is to stop.
    #[inline]
    pub(super) fn is_over(&self, ended: *const Tcb) -> bool {
        if ptr::eq(ended, self.common.first.load(Ordering::Relaxed)) {
            self.common.stop();
        }
        self.is_to_stop()
    }

    #[inline]
    pub(super) fn is_to_stop(&self) -> bool {
        self.common.stop.load(Ordering::Acquire)
    }

    /// The kthread's life, until the first thread has ended.
    pub(super) fn live(&self, kthread: &KThread) {
        let mut now = clock::now();
        while !self.is_to_stop() {
            now = match self.turn(kthread, now) {
                true => clock::now(),
                false => self.idle(kthread),
            };
        }
    }

    /// Runs what is ready, here or with others; true: there was something. `now`: a fresh TSC reading.
    pub(super) fn turn(&self, kthread: &KThread, mut now: u64) -> bool {
        self.lives.set(true);
        if !self.takes() {
            self.hand_over(kthread);
        }
        if serving::heed(kthread, now) {
            let since = std::mem::replace(&mut now, clock::now());
            self.count_idle(now - since, 0);
        }
        let ran =
            serving::run_ready(kthread, now) || self.steal(kthread) || self.steal_mail(kthread);
        ran || take_packets(kthread) || self.run_batch(kthread)
    }

    /// A spare kthread is not needed: what the others may take is theirs.
    #[cold]
    fn hand_over(&self, kthread: &KThread) {
        kthread.shared.clear_out(|tcb| {
            // SAFETY: what was in the queue has not ended, and is ours now.
            self.common.peers[0].submit(unsafe { &*tcb });
            self.common.wake_for(0);
        });
    }

    /// Takes threads from another kthread; true: there was one.
    fn steal(&self, kthread: &KThread) -> bool {
        let peers = &self.common.peers;
        if self.is_the_only_one() || !self.takes() {
            return false;
        }
        let now = clock::now();
        let load = |victim: WorkerId| {
            let peer = &peers[victim.index()];
            let ready = peer.stealable() as u32;
            let incoming = u32::from(ready == 0 && peer.leaves_sockets(now));
            Load { ready, incoming, ..Load::default() }
        };
        for _ in 0..peers.len() {
            // Another kthread may have been quicker: then it is asked again.
            let Some(theft) = self.thief.borrow_mut().next(load) else { return false };
            let victim = &peers[theft.victim.index()];
            let most = match theft.loot {
                Loot::Half => StealRing::<Tcb>::MOST,
                Loot::One => 1,
                Loot::Incoming if victim.look_at_sockets(now) => return true,
                Loot::Incoming => continue,
            };
            if kthread.steal_from(victim, most) > 0 {
                // Each that finds more than it needs wakes one more.
                if kthread.has_spare_threads() || victim.stealable() > 0 {
                    self.wake_idle();
                }
                return true;
            }
        }
        false
    }

    /// Takes what lies in the inboxes of busy kthreads; true: there was something.
    fn steal_mail(&self, kthread: &KThread) -> bool {
        let mut others =
            self.common.peers.iter().filter(|peer| !Arc::ptr_eq(peer, &kthread.shared));
        self.takes() && others.any(|peer| moving::steal_mail(kthread, peer))
    }

    /// Nothing else is ready: runs a batch thread until it leaves the processor; true: the kthread is
    /// to look around again.
    fn run_batch(&self, kthread: &KThread) -> bool {
        let has_batch = kthread.has_batch() || self.someone_has_batch();
        if !has_batch {
            return false;
        }
        let (common, bit) = (&self.common, bit(self.index));
        let alone = self.is_the_only_one();
        kthread.shared.take_call();
        if !alone {
            common.bits.batch.fetch_or(bit, Ordering::SeqCst);
        }
        let own = kthread.has_any_mail() || serving::has_reason(kthread);
        let ready = own || self.someone_has_work() || self.is_to_stop();
        let found = match !ready {
            true => kthread.pick_batch().or_else(|| self.steal_batch(kthread)),
            false => None,
        };
        if let Some(tcb) = found {
            serving::away(kthread, || kthread.run_batch(tcb));
        }
        if !alone {
            common.bits.batch.fetch_and(!bit, Ordering::AcqRel);
        }
        true
    }

    fn steal_batch(&self, kthread: &KThread) -> Option<&'static Tcb> {
        let peers = &self.common.peers;
        let load = |kthread: WorkerId| Load {
            batch: peers[kthread.index()].batch() as u32,
            ..Load::default()
        };
        let victim = self.thief.borrow_mut().next_batch(load)?;
        kthread.steal_batch_from(&peers[victim.index()])
    }

    fn someone_has_work(&self) -> bool {
        self.takes() && self.common.peers.iter().any(|peer| peer.stealable() > 0)
    }

    fn someone_has_batch(&self) -> bool {
        self.takes() && self.common.peers.iter().any(|peer| peer.batch() > 0)
    }

    /// Looks for work for a while, then sleeps until there is some. Returns a fresh TSC reading: none is
    /// taken between the end of the search and the work.
    fn idle(&self, kthread: &KThread) -> u64 {
        let since = clock::now();
        let (found, spun) = match self.common.spin_cycles > 0 && self.takes() {
            true => self.spin(kthread, since),
            false => (false, since),
        };
        let now = match found {
            true => spun,
            false => {
                self.sleep(kthread);
                clock::now()
            }
        };
        self.count_idle(now - since, spun - since);
        now
    }

    /// It had no work, or no core. `spun`: of these cycles, those in which it did not sleep.
    fn count_idle(&self, cycles: u64, spun: u64) {
        let mut idleness = self.idleness.get();
        idleness.cycles += cycles;
        idleness.spun_cycles += spun;
        self.idleness.set(idleness);
    }

    /// Looks for work for a while; true: there is some, or it is to stop. With a fresh TSC reading.
    fn spin(&self, kthread: &KThread, since: u64) -> (bool, u64) {
        let mut now = since;
        loop {
            kthread.poll_closely(now);
            kthread.handle_notices();
            if kthread.has_threads() || kthread.has_batch() || serving::has_reason(kthread) {
                return (true, now);
            }
            let found = self.look_out(kthread);
            let begun = std::mem::replace(&mut now, clock::now());
            kthread.note_quiet(begun, now);
            if found {
                return (true, now);
            }
            if now - since > self.common.spin_cycles {
                return (false, now);
            }
            if self.common.shares_core {
                match self.yields.pass(now) {
                    Some(after) => now = after,
                    None => return (false, now),
                }
            }
        }
    }

    /// Whether there is work, or it is to stop: looks some times.
    fn look_out(&self, kthread: &KThread) -> bool {
        (0..16).any(|_| {
            let own = serving::has_reason(kthread) || kthread.has_any_mail();
            let work = own || self.someone_has_work() || packets(kthread);
            let found = work || kthread.is_asked() || self.is_to_stop();
            if !found {
                std::hint::spin_loop();
            }
            found
        })
    }

    fn sleep(&self, kthread: &KThread) {
        if let Some(client) = &kthread.client {
            kthread.give_own_back();
            let mut rested = false;
            serving::away(kthread, || rested = client.rest(kthread));
            if rested {
                return;
            }
        }
        // One that takes nothing is not asked to.
        let bit = if self.takes() { bit(self.index) } else { 0 };
        self.common.bits.idle.fetch_or(bit, Ordering::SeqCst);
        let has_work = || self.someone_has_work() || self.someone_has_batch();
        let own = || serving::has_reason(kthread) || self.is_to_stop();
        let work = || own() || has_work() || self.steal_mail(kthread);
        let is_lookout = self.takes() && self.is_lookout();
        kthread.rest(work, is_lookout.then_some(LOOKOUT));
        if is_lookout {
            self.common.lookout.store(false, Ordering::Relaxed);
        }
        self.common.bits.idle.fetch_and(!bit, Ordering::AcqRel);
    }
}

/// Whether a core allocator has received packets for others that this kthread could take in.
fn packets(kthread: &KThread) -> bool {
    kthread.client.as_ref().is_some_and(AllocatorClient::others_have_packets)
}

/// Whether a core allocator has received packets for others, which this kthread is then going to
/// take in.
fn take_packets(kthread: &KThread) -> bool {
    kthread.client.as_ref().is_some_and(AllocatorClient::take_from_others)
}
