//! A latency-critical program: its kthreads, and how they find work.

use super::kthread::{Doing, Kthread, Thread};
use super::{Critical, INTAKE, Served};
use curtail_alloc::ProgramId;
use curtail_policy::{Loot, Source, Thief, WorkerId};
use curtail_workload::Request;
use std::iter::Peekable;

pub(super) struct Program<'a> {
    pub(super) id: ProgramId,
    /// Of its first kthread among all kthreads.
    pub(super) first: usize,
    pub(super) kthreads: Vec<Kthread>,
    thieves: Vec<Thief>,
    pub(super) search: Option<u64>,
    pub(super) pinned: bool,
    pub(super) requests: Peekable<Box<dyn Iterator<Item = Request> + 'a>>,
    /// Packets in its sockets: no kthread has a core, and there is none for it.
    pub(super) sockets: Vec<Thread>,
    /// Requests in the system.
    pub(super) inside: u64,
    pub(super) served: Served,
}

impl<'a> Program<'a> {
    pub(super) fn new(id: ProgramId, first: usize, what: Critical<'a>, seed: u64) -> Self {
        let kthreads = what.kthreads as usize;
        let thief = |me: usize| Thief::new(WorkerId(me as u16), kthreads, None, seed);
        Self {
            id,
            first,
            kthreads: (0..kthreads).map(|_| Kthread::new()).collect(),
            thieves: (0..kthreads).map(thief).collect(),
            search: what.search_ns,
            pinned: what.pinned,
            requests: what.requests.peekable(),
            sockets: Vec::new(),
            inside: 0,
            served: Served::new(),
        }
    }

    pub(super) fn is_done(&mut self) -> bool {
        self.inside == 0 && self.requests.peek().is_none()
    }

    /// There is something that a kthread without work could take.
    pub(super) fn has_loot(&self) -> bool {
        self.kthreads.iter().any(|kthread| !kthread.load(self.pinned).is_empty())
    }

    /// Where a request goes; `drawn` is any number.
    pub(super) fn home(&self, drawn: u64) -> Option<usize> {
        let pick = |wanted: fn(&Kthread) -> bool| {
            let count = self.kthreads.iter().filter(|it| wanted(it)).count();
            let nth = ((u128::from(drawn) * count as u128) >> 64) as usize;
            let all = self.kthreads.iter().enumerate().filter(|(_, it)| wanted(it));
            { all }.nth(nth).map(|(at, _)| at)
        };
        pick(|it| it.is_active() && it.stop.is_none())
            .or_else(|| pick(|it| matches!(it.doing, Doing::Coming { .. })))
    }

    /// The kthread has no thread: it serves the next, or searches.
    pub(super) fn seek(&mut self, me: usize, now: u64) {
        let found = self.next_thread(me, now);
        let (search, kthread) = (self.search, &mut self.kthreads[me]);
        kthread.doing = match (found, kthread.doing) {
            (Some(thread), _) => {
                kthread.current = Some(Thread { started: true, ..thread });
                Doing::Serving { until: now + thread.left }
            }
            (None, Doing::Searching { until }) => Doing::Searching { until },
            (None, _) => Doing::Searching { until: search.map(|span| now + span) },
        };
    }

    fn next_thread(&mut self, me: usize, now: u64) -> Option<Thread> {
        let pinned = self.pinned;
        let kthreads = &self.kthreads;
        let own = curtail_policy::Load {
            ready: kthreads[me].run.len() as u32,
            ..kthreads[me].load(pinned)
        };
        let load = |other: WorkerId| kthreads[other.index()].load(pinned);
        match self.thieves[me].seek(own, load)? {
            Source::Own => {}
            Source::Incoming => self.take_in(me, me, now),
            Source::Other(theft) => {
                self.served.thefts += 1;
                let victim = theft.victim.index();
                if theft.loot == Loot::Incoming {
                    self.take_in(victim, me, now);
                }
                let ready = self.kthreads[victim].load(pinned).ready as usize;
                for _ in 0..theft.loot.of(ready) {
                    if let Some(thread) = self.kthreads[victim].steal(pinned) {
                        self.kthreads[me].push(thread);
                    }
                }
            }
        }
        self.kthreads[me].pop()
    }

    fn take_in(&mut self, from: usize, to: usize, now: u64) {
        for _ in 0..INTAKE {
            let Some(thread) = self.kthreads[from].receive() else { break };
            self.kthreads[to].push(Thread { since: now, ..thread });
        }
    }
}
