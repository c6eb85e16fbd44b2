//! A kthread's queue: in the order of readiness, with what has not started told apart, as that alone
//! may always be stolen.

use curtail_policy::JobId;
use std::collections::VecDeque;

/// A thread that is ready, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) job: JobId,
    pub(super) since: u64,
    /// It has been on a core.
    pub(super) started: bool,
}

/// A kthread's queue of threads that are ready. Each list is in the order of its numbers, which
/// count what was queued here.
#[derive(Default)]
pub(super) struct Queue {
    fresh: VecDeque<(u64, Ready)>,
    started: VecDeque<(u64, Ready)>,
    queued: u64,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.started.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(super) fn push(&mut self, ready: Ready) {
        self.queued += 1;
        let list = if ready.started { &mut self.started } else { &mut self.fresh };
        list.push_back((self.queued, ready));
    }

    pub(super) fn extend(&mut self, ready: impl IntoIterator<Item = Ready>) {
        ready.into_iter().for_each(|ready| self.push(ready));
    }

    /// The one that has been here longest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Ready> {
        let number = |list: &VecDeque<(u64, Ready)>| list.front().map_or(u64::MAX, |it| it.0);
        let started_first = number(&self.started) < number(&self.fresh);
        let list = if started_first { &mut self.started } else { &mut self.fresh };
        list.pop_front().map(|it| it.1)
    }

    /// How many others may take, where started ones stay or do not.
    #[inline]
    pub(super) fn stealable(&self, pinned: bool) -> usize {
        if pinned { self.fresh.len() } else { self.len() }
    }

    /// The first that others may take.
    #[inline]
    pub(super) fn steal(&mut self, pinned: bool) -> Option<Ready> {
        if pinned { self.fresh.pop_front().map(|it| it.1) } else { self.pop() }
    }

    /// Since when the first of these has waited; `u64::MAX`: there is none.
    #[inline]
    pub(super) fn oldest(&self, pinned: bool) -> u64 {
        let since = |list: &VecDeque<(u64, Ready)>| list.front().map_or(u64::MAX, |it| it.1.since);
        let fresh = since(&self.fresh);
        if pinned { fresh } else { fresh.min(since(&self.started)) }
    }
}

/// Some of the kthreads, for drawing one of them: those that search, or those that are parked.
pub(super) struct Pool {
    members: Vec<u16>,
    /// Where each kthread is among them; `u16::MAX`: not.
    place: Vec<u16>,
}

impl Pool {
    const OUT: u16 = u16::MAX;

    pub(super) fn new(kthreads: usize) -> Self {
        Self { members: Vec::with_capacity(kthreads), place: vec![Self::OUT; kthreads] }
    }

    pub(super) fn members(&self) -> &[u16] {
        &self.members
    }

    pub(super) fn has(&self, kthread: usize) -> bool {
        self.place[kthread] != Self::OUT
    }

    pub(super) fn insert(&mut self, kthread: usize) {
        debug_assert!(!self.has(kthread), "it is in already");
        self.place[kthread] = self.members.len() as u16;
        self.members.push(kthread as u16);
    }

    /// Takes it out, if it is in.
    pub(super) fn remove(&mut self, kthread: usize) {
        let place = std::mem::replace(&mut self.place[kthread], Self::OUT);
        if place != Self::OUT {
            self.members.swap_remove(usize::from(place));
            if let Some(&moved) = self.members.get(usize::from(place)) {
                self.place[usize::from(moved)] = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(id: u32, started: bool) -> Ready {
        Ready { job: JobId(id), since: u64::from(id), started }
    }

    #[test]
    fn runs_in_the_order_of_readiness_and_gives_away_what_may_go() {
        let mut queue = Queue::default();
        for (id, started) in [(0, true), (1, false), (2, true), (3, false)] {
            queue.push(ready(id, started));
        }
        assert_eq!((queue.len(), queue.stealable(true), queue.stealable(false)), (4, 2, 4));
        assert_eq!((queue.oldest(true), queue.oldest(false)), (1, 0));
        assert_eq!(queue.steal(true), Some(ready(1, false)));
        assert_eq!(queue.steal(false), Some(ready(0, true)));
        assert_eq!(queue.pop(), Some(ready(2, true)));
        assert_eq!(queue.pop(), Some(ready(3, false)));
        assert_eq!((queue.pop(), queue.oldest(false)), (None, u64::MAX));
    }

    #[test]
    fn a_pool_is_a_set() {
        let mut pool = Pool::new(4);
        [2, 0, 3].into_iter().for_each(|kthread| pool.insert(kthread));
        pool.remove(2);
        pool.remove(1);
        assert_eq!(pool.members(), [3, 0]);
        assert!(pool.has(3) && !pool.has(2));
        pool.remove(3);
        pool.insert(2);
        assert_eq!(pool.members(), [0, 2]);
    }
}
