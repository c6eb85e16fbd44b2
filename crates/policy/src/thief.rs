//! Where a kthread looks for its next thread, as a pure decision: Shenango's order (§5, "Scheduling").
//!
//! 1. its own queue;
//! 2. its own I/O that is ready and timers that have expired;
//! 3. the queue, then the I/O, of the kthread on its core's other hyper-thread;
//! 4. those of a kthread drawn at random;
//! 5. those of all others, in turn from where the last such look ended;
//! 6. its own batch threads, and then 7. one of another kthread's ([`Thief::next_batch`]), which goes
//!    on only as long as nothing else is ready ([`crate::BatchLook`]).
//!
//! Each kthread has one [`Thief`] of its own, in the runtime and in the simulator alike. It does not
//! see the queues but [`Load`]s, which it asks for one by one: a look at another kthread is a cache
//! line that comes from there. A load may be out of date, so the theft itself may find nothing; the
//! caller then asks again. [`Patience`] says for how long, before the kthread parks.
//!
//! All kthreads are looked at, parked ones too: in this runtime one may have lost its core while
//! its queue was not empty. (In the paper it has none then: the kthread that takes the core leaves
//! the queue to thieves.)
//!
//! **Bounds.** If any other kthread has something, one call of [`Thief::next`] names one that has.
//! Where near kthreads always have something, a far one is not forgotten: each
//! [`Thief::FAR_EVERY`]th theft begins with step 5, so a kthread that keeps something is named within
//! [`Thief::FAR_EVERY`] × (kthreads − 1) thefts. At most kthreads + 1 loads are looked at in a call.

use crate::rng::Rng;
use crate::{Nanos, Victim, WorkerId};

/// What a kthread publishes of itself for thieves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Threads in its queue that another kthread may run.
    pub ready: u32,
    /// Requests, or readiness of sockets, that it has not taken in and that another kthread may
    /// take in for it (Shenango §5, "Networking"). 0 where no other kthread may.
    pub incoming: u32,
    /// Batch threads that another kthread may run, where nothing else is ready anywhere.
    pub batch: u32,
    /// Since when the oldest of all these has waited. Looked at under [`Victim::Oldest`] only.
    pub since: Nanos,
}

impl Load {
    /// There is nothing to steal, but for batch threads.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ready == 0 && self.incoming == 0
    }

    const fn total(&self) -> u64 {
        self.ready as u64 + self.incoming as u64
    }
}

/// What to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loot {
    /// The oldest thread of the queue.
    One,
    /// The older half of the queue, see [`Loot::of`].
    Half,
    /// What is incoming: take it in as if it were one's own.
    Incoming,
}

impl Loot {
    /// How many threads to take from a queue that has `ready` when it comes to it. Half is rounded
    /// up, so that a queue of one is not left alone.
    #[must_use]
    pub const fn of(self, ready: usize) -> usize {
        match self {
            Self::One if ready > 0 => 1,
            Self::Half => ready.div_ceil(2),
            Self::One | Self::Incoming => 0,
        }
    }
}

/// From whom to take what.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theft {
    /// Whose it is.
    pub victim: WorkerId,
    /// What of it.
    pub loot: Loot,
}

/// Where the next thread comes from.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kthread's own queue.
    Own,
    /// Its own I/O and timers: they make threads ready, then the kthread asks again.
    Incoming,
    /// Another kthread.
    Other(Theft),
}

/// One kthread's choice of victims; see the module's head.
#[derive(Debug)]
pub struct Thief {
    me: usize,
    kthreads: usize,
    /// On the core's other hyper-thread.
    sibling: Option<usize>,
    order: Victim,
    /// Never more than one thread at a time.
    sparing: bool,
    /// Where the next look at all others begins.
    cursor: usize,
    /// Thefts since the last one that was found by such a look.
    near: u32,
    rng: Rng,
}

impl Thief {
    /// How often a theft begins with the look at all others.
    pub const FAR_EVERY: u32 = 16;

    /// For kthread `me` of `kthreads`, numbered from 0. `sibling` runs on the same core, where one
    /// does. What is random follows from `seed` and `me`. Takes half of a queue.
    ///
    /// # Panics
    /// Where `me` or `sibling` is none of them, or they are the same.
    #[must_use]
    pub fn new(me: WorkerId, kthreads: usize, sibling: Option<WorkerId>, seed: u64) -> Self {
        assert!(me.index() < kthreads, "{me} of {kthreads} kthreads");
        if let Some(sibling) = sibling {
            assert!(sibling.index() < kthreads && sibling != me, "{sibling} is no sibling of {me}");
        }
        // Generators with neighbouring seeds are one sequence, shifted; so `me` is hashed.
        let seed = seed ^ Rng::new(u64::from(me.0) + 1).next();
        Self {
            me: me.index(),
            kthreads,
            sibling: sibling.map(WorkerId::index),
            order: Victim::Random,
            sparing: false,
            cursor: (me.index() + 1) % kthreads,
            near: 0,
            rng: Rng::new(seed),
        }
    }

    /// In another order than Shenango's: under [`Victim::Longest`] and [`Victim::Oldest`], steps 3
    /// and 4 are left out and step 5 looks at all others before it chooses.
    #[must_use]
    pub fn with_order(mut self, order: Victim) -> Self {
        self.order = order;
        self
    }

    /// One thread at a time, instead of half a queue.
    #[must_use]
    pub fn sparing(mut self) -> Self {
        self.sparing = true;
        self
    }

    /// The whole order: where the next thread comes from, if anywhere. `own` is the kthread's own
    /// load, pinned threads included; `load` is asked for the other ones'.
    #[inline]
    pub fn seek(&mut self, own: Load, load: impl FnMut(WorkerId) -> Load) -> Option<Source> {
        if own.ready > 0 {
            return Some(Source::Own);
        }
        if own.incoming > 0 {
            return Some(Source::Incoming);
        }
        self.next(load).map(Source::Other)
    }

    /// Steps 3 to 5: which kthread to steal from, and what. `None`: there is nothing to steal.
    #[inline]
    pub fn next(&mut self, mut load: impl FnMut(WorkerId) -> Load) -> Option<Theft> {
        if self.kthreads < 2 {
            return None;
        }
        let mut look = |kthread: usize| load(WorkerId(kthread as u16));
        if self.order == Victim::Random && self.near + 1 < Self::FAR_EVERY {
            let random = self.another();
            for victim in self.sibling.into_iter().chain([random]) {
                if let Some(theft) = self.theft(victim, look(victim)) {
                    self.near += 1;
                    return Some(theft);
                }
            }
        }
        let found = match self.order {
            Victim::Random => self.first(&mut look),
            Victim::Longest => self.best(&mut look, |load| u64::MAX - load.total()),
            Victim::Oldest => self.best(&mut look, |load| load.since.0),
        };
        let (victim, load) = found?;
        self.near = 0;
        self.cursor = self.after(victim);
        self.theft(victim, load)
    }

    /// Step 7: whom to take a batch thread from, one at a time, where nothing else is ready. `None`:
    /// there is none.
    #[inline]
    pub fn next_batch(&mut self, mut load: impl FnMut(WorkerId) -> Load) -> Option<WorkerId> {
        let batch = |kthread| Load { ready: load(kthread).batch, ..Load::default() };
        self.next(batch).map(|theft| theft.victim)
    }

    /// Another kthread, all equally likely.
    fn another(&mut self) -> usize {
        let drawn = self.rng.below(self.kthreads - 1);
        drawn + usize::from(drawn >= self.me)
    }

    fn after(&self, kthread: usize) -> usize {
        if kthread + 1 == self.kthreads { 0 } else { kthread + 1 }
    }

    /// The others, each once, from the cursor on.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (self.cursor..self.kthreads).chain(0..self.cursor).filter(move |&kthread| kthread != me)
    }

    fn first(&self, look: &mut impl FnMut(usize) -> Load) -> Option<(usize, Load)> {
        let loads = self.others().map(|kthread| (kthread, look(kthread)));
        { loads }.find(|(_, load)| !load.is_empty())
    }

    /// The one with the least key; of equals, the first from the cursor on.
    fn best(
        &self,
        look: &mut impl FnMut(usize) -> Load,
        key: impl Fn(&Load) -> u64,
    ) -> Option<(usize, Load)> {
        let loads = self.others().map(|kthread| (kthread, look(kthread)));
        loads.filter(|(_, load)| !load.is_empty()).min_by_key(|(_, load)| key(load))
    }

    fn theft(&self, victim: usize, load: Load) -> Option<Theft> {
        let loot = match load {
            Load { ready: 0, incoming: 0, .. } => return None,
            Load { ready: 0, .. } => Loot::Incoming,
            Load { ready: 1, .. } => Loot::One,
            _ if self.sparing => Loot::One,
            _ => Loot::Half,
        };
        Some(Theft { victim: WorkerId(victim as u16), loot })
    }
}

/// How long a kthread looks for work before it parks (Shenango §5: "a couple of microseconds").
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    spin: Nanos,
    since: Option<Nanos>,
}

impl Patience {
    /// Looks for `spin`, counted from the first look that found nothing.
    #[must_use]
    pub const fn new(spin: Nanos) -> Self {
        Self { spin, since: None }
    }

    /// A look found nothing: whether it is time to park. If so, the next look begins anew.
    #[must_use]
    pub fn ends(&mut self, now: Nanos) -> bool {
        let since = *self.since.get_or_insert(now);
        let ends = now.since(since) >= self.spin;
        if ends {
            self.since = None;
        }
        ends
    }

    /// A look found something.
    pub const fn renew(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(ready: u32) -> Load {
        Load { ready, ..Load::default() }
    }

    fn thief(me: u16, kthreads: usize, sibling: Option<u16>) -> Thief {
        Thief::new(WorkerId(me), kthreads, sibling.map(WorkerId), 7)
    }

    #[test]
    fn its_own_queue_comes_first_then_its_own_io() {
        let mut thief = thief(0, 2, None);
        let rich = |_| ready(5);
        let own = Load { ready: 1, incoming: 1, ..Load::default() };
        assert_eq!(thief.seek(own, rich), Some(Source::Own));
        assert_eq!(thief.seek(Load { ready: 0, ..own }, rich), Some(Source::Incoming));
        let theft = Theft { victim: WorkerId(1), loot: Loot::Half };
        assert_eq!(thief.seek(Load::default(), rich), Some(Source::Other(theft)));
        assert_eq!(thief.seek(Load::default(), |_| ready(0)), None);
    }

    #[test]
    fn batch_threads_are_no_loot_of_the_first_rank() {
        let mut thief = thief(0, 3, None);
        let batch = Load { batch: 7, ..Load::default() };
        let load = |kthread: WorkerId| if kthread.0 == 2 { batch } else { Load::default() };
        assert_eq!(thief.seek(batch, load), None);
        assert_eq!(thief.next_batch(load), Some(WorkerId(2)));
        assert_eq!(thief.next_batch(|_| ready(5)), None, "and others no batch threads");
    }

    #[test]
    fn the_sibling_comes_before_all_others() {
        let mut thief = thief(3, 16, Some(2));
        for _ in 1..Thief::FAR_EVERY {
            let mut looks = 0;
            let theft = thief.next(|_| {
                looks += 1;
                ready(1)
            });
            assert_eq!(theft, Some(Theft { victim: WorkerId(2), loot: Loot::One }));
            assert_eq!(looks, 1, "one cache line is enough");
        }
        assert_eq!(thief.next(|_| ready(1)).unwrap().victim, WorkerId(4), "the far look");
    }

    #[test]
    fn without_a_sibling_all_others_are_equally_likely() {
        let mut thief = thief(1, 5, None);
        let mut hits = [0_u32; 5];
        for _ in 0..8_000 {
            hits[thief.next(|_| ready(1)).unwrap().victim.index()] += 1;
        }
        assert_eq!(hits[1], 0, "no kthread steals from itself");
        assert!([0, 2, 3, 4].iter().all(|&i| (1_800..2_200).contains(&hits[i])), "{hits:?}");
    }

    #[test]
    fn the_longest_or_the_oldest_is_chosen_among_all() {
        let loads = [(1, 10), (4, 30), (9, 20), (0, 5)].map(|(ready, since)| Load {
            ready,
            since: Nanos(since),
            ..Load::default()
        });
        let choice = |order| {
            let mut thief = thief(3, 4, Some(0)).with_order(order);
            thief.next(|kthread| loads[kthread.index()]).unwrap()
        };
        assert_eq!(choice(Victim::Longest), Theft { victim: WorkerId(2), loot: Loot::Half });
        assert_eq!(choice(Victim::Oldest), Theft { victim: WorkerId(0), loot: Loot::One });
    }

    #[test]
    fn loot() {
        let of = |loot: Loot| [0, 1, 2, 3, 8].map(|ready| loot.of(ready));
        assert_eq!(of(Loot::One), [0, 1, 1, 1, 1]);
        assert_eq!(of(Loot::Half), [0, 1, 1, 2, 4]);
        assert_eq!(of(Loot::Incoming), [0; 5]);
        let incoming = Load { incoming: 3, ..Load::default() };
        assert_eq!(thief(0, 2, None).next(|_| incoming).unwrap().loot, Loot::Incoming);
        assert_eq!(thief(0, 2, None).sparing().next(|_| ready(9)).unwrap().loot, Loot::One);
    }

    #[test]
    fn one_kthread_alone_robs_nobody() {
        assert_eq!(thief(0, 1, None).next(|_| ready(1)), None);
    }

    #[test]
    fn patience_ends_after_its_time_and_begins_anew() {
        let mut patience = Patience::new(Nanos(2_000));
        assert!(!patience.ends(Nanos(100)) && !patience.ends(Nanos(2_099)));
        patience.renew();
        assert!(!patience.ends(Nanos(2_100)) && patience.ends(Nanos(4_100)));
        assert!(!patience.ends(Nanos(9_000)), "parked and woken since");
        assert!(Patience::new(Nanos::ZERO).ends(Nanos(1)));
    }
}
