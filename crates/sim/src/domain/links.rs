//! The dispatcher's links to everything else: what it does, what waits for it, and what it sent.
//!
//! Delays are constant, so that each queue is in the order of time by itself.

use super::dispatch_key;
use super::timers::{Timer, Timers};
use crate::agenda::{Key, QUANTUM, key};
use crate::disturb::Thief;
use crate::jobs::Newcomer;
use curtail_policy::{JobId, WorkerId};
use curtail_sched::EventKind;
use std::collections::VecDeque;

/// How much that takes time the dispatcher takes in before it decides, so that it gets to decide
/// under overload: as the runtime's does.
pub(super) const BATCH: u32 = 64;

/// What a worker tells of a job, which goes nowhere until the dispatcher has heard of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    pub(super) on: WorkerId,
    pub(super) job: JobId,
    pub(super) what: EventKind,
}

/// A quantum of a worker's, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) worker: u16,
    /// `None`: whatever runs there.
    pub(super) number: Option<u32>,
}

/// What waits for the dispatcher.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input {
    Request(Newcomer),
    News(News),
    /// A quantum has ended.
    QuantumEnd(Slice),
}

/// What the dispatcher is busy with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    TakingIn(Input),
    Sending(JobId, WorkerId),
    Asking(Slice),
    /// Runs a job itself, for so long.
    Running(JobId, u64),
}

pub(super) struct Links {
    /// The key of the dispatcher's next event.
    pub(super) next: Key,
    /// What it does, and until when; `None`: it is free.
    pub(super) doing: Option<(u64, Doing)>,
    /// It is inside [`Domain::pump`]: news only queue up.
    pub(super) pumping: bool,
    /// When the policy wants to be asked again; `u64::MAX`: never.
    pub(super) wakeup: u64,
    /// How much it takes in before it decides again.
    pub(super) batch: u32,
    /// Something is in one of the queues.
    pub(super) queued: bool,
    /// Requests that it has not taken in yet.
    pub(super) newcomers: usize,
    // All in the order of time.
    pub(super) requests: VecDeque<(u64, Newcomer)>,
    pub(super) news: VecDeque<(u64, News)>,
    pub(super) ended: VecDeque<(u64, Slice)>,
    /// On the way to workers.
    pub(super) sent: VecDeque<(u64, JobId, WorkerId)>,
    pub(super) asked: VecDeque<(u64, Slice)>,
    pub(super) timers: Timers,
}

impl Links {
    /// `thief`: takes cores from so many workers.
    pub(super) fn new(thief: Option<(usize, &mut Thief)>) -> Self {
        let mut timers = Timers::new();
        if let Some((workers, thief)) = thief {
            (0..workers).for_each(|it| timers.set(thief.next().max(1), Timer::Lose(it as u16)));
        }
        Self {
            next: timers.next,
            doing: None,
            pumping: false,
            wakeup: u64::MAX,
            batch: BATCH,
            queued: false,
            newcomers: 0,
            requests: VecDeque::new(),
            news: VecDeque::new(),
            ended: VecDeque::new(),
            sent: VecDeque::new(),
            asked: VecDeque::new(),
            timers,
        }
    }

    /// Whatever it is told it takes in at once.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.doing.is_none() && !self.pumping
    }

    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if self.queued {
            self.look_into_queues();
        } else {
            self.next = self.own_key(u64::MAX);
        }
        self.next = self.next.min(self.timers.next);
    }

    /// When it is done with what it does, or by itself looks again: at `input` at the latest.
    ///
    /// A job that it ran ends like a quantum, and after those of workers that end then: it looks at
    /// them when it comes back.
    #[inline]
    fn own_key(&self, input: u64) -> Key {
        match self.doing {
            Some((until, Doing::Running(..))) => key(until, QUANTUM),
            Some((until, _)) => dispatch_key(until),
            None => dispatch_key(input.min(self.wakeup)),
        }
    }

    fn look_into_queues(&mut self) {
        let first = |queued: Option<u64>| queued.unwrap_or(u64::MAX);
        let waiting = first(self.requests.front().map(|it| it.0))
            .min(first(self.news.front().map(|it| it.0)))
            .min(first(self.ended.front().map(|it| it.0)));
        let on_the_way =
            first(self.sent.front().map(|it| it.0)).min(first(self.asked.front().map(|it| it.0)));
        self.queued = waiting.min(on_the_way) != u64::MAX;
        self.next = self.own_key(waiting).min(dispatch_key(on_the_way));
    }

    pub(super) fn has_input(&self, now: u64) -> bool {
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        self.queued
            && (due(self.requests.front().map(|it| it.0))
                || due(self.news.front().map(|it| it.0))
                || due(self.ended.front().map(|it| it.0)))
    }

    /// What has waited longest by now; of equals, workers before requests before ends of quanta.
    #[inline]
    pub(super) fn take(&mut self, now: u64) -> Option<Input> {
        if self.queued { self.take_queued(now) } else { None }
    }

    fn take_queued(&mut self, now: u64) -> Option<Input> {
        let due = |at: Option<u64>| at.filter(|&at| at <= now).unwrap_or(u64::MAX);
        let news = due(self.news.front().map(|it| it.0));
        let requests = due(self.requests.front().map(|it| it.0));
        let ended = due(self.ended.front().map(|it| it.0));
        let first = news.min(requests).min(ended);
        if first == u64::MAX {
            None
        } else if news == first {
            self.news.pop_front().map(|it| Input::News(it.1))
        } else if requests == first {
            self.requests.pop_front().map(|it| Input::Request(it.1))
        } else {
            self.ended.pop_front().map(|it| Input::QuantumEnd(it.1))
        }
    }
}
