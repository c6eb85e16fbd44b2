//! The dispatcher's side: a server of its own, which takes in requests and news and then asks the
//! policy what to do, in turns like the runtime's. What takes it no time happens at once.

use super::links::{BATCH, Doing, Input, News, Slice};
use super::timers::Owed;
use super::worker::Next;
use super::{Domain, Sink, dispatch_key};
use crate::jobs::Newcomer;
use curtail_policy::{JobId, Nanos, WorkerId};
use curtail_sched::{Action, Event, EventKind};

impl Domain {
    /// A request is there.
    #[inline]
    pub(super) fn receive(&mut self, now: u64, newcomer: Newcomer, sink: &mut impl Sink) {
        if self.instant && self.links.is_free() {
            self.admit(now, newcomer, sink);
        } else {
            self.links.requests.push_back((now, newcomer));
            self.links.newcomers += 1;
            self.links.queued = true;
        }
        self.pump(now, sink);
    }

    /// A worker has news.
    #[inline]
    pub(super) fn tell(&mut self, now: u64, news: News, sink: &mut impl Sink) {
        if self.instant && self.links.is_free() {
            self.hear(news, now);
        } else {
            self.links.news.push_back((now + self.costs.ring, news));
            self.links.queued = true;
        }
        self.pump(now, sink);
    }

    /// A quantum ended that the dispatcher is to end.
    pub(super) fn watch(&mut self, now: u64, worker: usize, slice: u32, sink: &mut impl Sink) {
        let slice = Slice { worker: worker as u16, number: Some(slice) };
        self.links.ended.push_back((now, slice));
        self.links.queued = true;
        self.pump(now, sink);
    }

    /// Something of the dispatcher's is due.
    pub(super) fn links_event(&mut self, now: u64, sink: &mut impl Sink) {
        if let Some(&(at, job, on)) = self.links.sent.front()
            && at <= now
        {
            self.links.sent.pop_front();
            self.deliver(on.index(), job, now);
            return self.links.look_ahead();
        }
        if let Some(&(at, slice)) = self.links.asked.front()
            && at <= now
        {
            self.links.asked.pop_front();
            self.ask(slice, now, sink);
            return self.links.look_ahead();
        }
        if self.links.timers.next <= dispatch_key(now) && self.timer(now, sink) {
            return self.pump(now, sink);
        }
        if let Some((until, doing)) = self.links.doing
            && until <= now
        {
            self.links.doing = None;
            self.links.pumping = true;
            self.done(doing, now, sink);
            self.links.pumping = false;
        }
        self.pump(now, sink);
    }

    /// The dispatcher has done it.
    #[inline]
    fn done(&mut self, doing: Doing, now: u64, sink: &mut impl Sink) {
        match doing {
            Doing::TakingIn(input) => self.take_in(input, now, sink),
            Doing::Sending(job, on) => self.send(job, on, now),
            Doing::Asking(slice) => self.order(slice, now, sink),
            Doing::Running(job, length) => self.ran_here(job, length, now, sink),
        }
    }

    /// While the dispatcher is free it goes through its turns: takes in what waits, then decides.
    #[inline]
    fn pump(&mut self, now: u64, sink: &mut impl Sink) {
        if self.links.pumping {
            return;
        }
        self.links.pumping = true;
        while self.links.doing.is_none() {
            if self.links.batch > 0
                && let Some(input) = self.links.take(now)
            {
                self.begin_to_take_in(input, now, sink);
            } else if self.decide(now, sink) {
                self.links.batch = BATCH;
                if !self.links.has_input(now) {
                    break;
                }
            }
        }
        self.links.pumping = false;
        // It has been asked for this moment: a wake-up that is due already would never end.
        self.links.wakeup = self.sched.poll_timeout().map_or(u64::MAX, |at| at.0.max(now + 1));
        self.links.look_ahead();
    }

    fn begin_to_take_in(&mut self, input: Input, now: u64, sink: &mut impl Sink) {
        let cost = match input {
            Input::Request(_) => self.costs.receive,
            Input::News(_) => self.costs.hear,
            Input::QuantumEnd(_) => 0,
        };
        if cost > 0 {
            self.links.batch -= 1;
            self.links.doing = Some((now + cost, Doing::TakingIn(input)));
        } else {
            self.take_in(input, now, sink);
        }
    }

    #[inline]
    fn take_in(&mut self, input: Input, now: u64, sink: &mut impl Sink) {
        match input {
            Input::Request(newcomer) => {
                self.links.newcomers -= 1;
                self.admit(now, newcomer, sink);
            }
            Input::News(news) => self.hear(news, now),
            Input::QuantumEnd(slice) => self.see_end(slice, now, sink),
        }
    }

    #[inline(always)]
    fn hear(&mut self, News { on, job, what }: News, now: u64) {
        let mut attained = self.sched.data(job).attained;
        if what == EventKind::Ended {
            // What else its worker did for it counts as service, as in the runtime.
            attained += self.costs.start + self.costs.finish;
        }
        self.sched.handle_event(Nanos(now), on, Event { job, attained: Nanos(attained), what });
    }

    /// What the scheduler says is to be done, until that is nothing (true) or the dispatcher is busy.
    #[inline]
    fn decide(&mut self, now: u64, sink: &mut impl Sink) -> bool {
        loop {
            if !self.unreported.is_empty() && self.sched.counts_quanta() {
                self.report();
            }
            let (cost, doing) = match self.sched.poll_action(Nanos(now)) {
                None => return true,
                Some(Action::Run { job, on: WorkerId::DISPATCHER, quantum }) => {
                    self.run_here(job, quantum, now);
                    return false;
                }
                Some(Action::Run { job, on, quantum }) => {
                    self.sched.data_mut(job).quantum = quantum.map_or(0, |quantum| quantum.0);
                    (self.costs.dispatch, Doing::Sending(job, on))
                }
                Some(Action::Drop { job }) => unreachable!("{job:?} was not cancelled"),
                Some(Action::Preempt { on }) => {
                    (self.costs.signal, Doing::Asking(Slice { worker: on.0, number: None }))
                }
            };
            if cost > 0 {
                self.links.doing = Some((now + cost, doing));
                return false;
            }
            self.done(doing, now, sink);
        }
    }

    /// Tells of completed quanta, which the policy wants to know when a job waits to be placed.
    fn report(&mut self) {
        for worker in self.unreported.drain(..) {
            let at = &mut self.workers[usize::from(worker)];
            at.unreported = false;
            self.sched.handle_serviced(WorkerId(worker), at.quanta);
        }
    }

    #[inline]
    fn send(&mut self, job: JobId, on: WorkerId, now: u64) {
        if self.costs.ring == 0 {
            self.deliver(on.index(), job, now);
        } else {
            self.links.sent.push_back((now + self.costs.ring, job, on));
            self.links.queued = true;
        }
    }

    /// The dispatcher sees that a quantum has ended.
    fn see_end(&mut self, slice: Slice, now: u64, sink: &mut impl Sink) {
        let worker = usize::from(slice.worker);
        if !self.is_still(slice) {
            return;
        }
        if let Some(lost) = &mut self.workers[worker].lost {
            lost.owed = Owed::Quantum;
        } else if !self.wants_place(worker, now) {
            self.go_on(worker, now);
        } else if self.costs.signal > 0 {
            self.links.doing = Some((now + self.costs.signal, Doing::Asking(slice)));
        } else {
            self.order(slice, now, sink);
        }
    }

    /// A worker is asked to yield.
    fn order(&mut self, slice: Slice, now: u64, sink: &mut impl Sink) {
        if self.costs.notify == 0 {
            self.ask(slice, now, sink);
        } else {
            self.links.asked.push_back((now + self.costs.notify, slice));
            self.links.queued = true;
        }
    }

    /// A worker notices that it is asked to yield.
    fn ask(&mut self, slice: Slice, now: u64, sink: &mut impl Sink) {
        if !self.is_still(slice) {
            return;
        }
        if let Some(lost) = &mut self.workers[usize::from(slice.worker)].lost {
            lost.owed = Owed::Place;
        } else {
            self.preempt(usize::from(slice.worker), now, sink);
        }
    }

    fn is_still(&self, slice: Slice) -> bool {
        let worker = &self.workers[usize::from(slice.worker)];
        let same = slice.number.is_none_or(|number| worker.slice == number);
        same && worker.is_running() && worker.next != Next::Yield
    }

    /// The dispatcher runs a job itself, for at most a quantum.
    fn run_here(&mut self, job: JobId, quantum: Option<Nanos>, now: u64) {
        let progress = self.sched.data_mut(job);
        let stretch = progress.stretch();
        let length = quantum.map_or(stretch, |quantum| stretch.min(quantum.0));
        let start = if progress.started { 0 } else { self.costs.start };
        progress.started = true;
        let ends = length == progress.remaining;
        let after = if ends { self.costs.finish } else { self.costs.switch };
        let until = now + start + length + after;
        self.links.doing = Some((until, Doing::Running(job, length)));
    }

    fn ran_here(&mut self, job: JobId, length: u64, now: u64, sink: &mut impl Sink) {
        // Meanwhile it heard of nothing.
        self.links.batch = BATCH;
        let progress = self.sched.data_mut(job);
        progress.ran(length);
        let what = if progress.remaining == 0 {
            self.completes(job, now - self.costs.finish, sink);
            EventKind::Ended
        } else if progress.stretch() == 0 {
            progress.blocks_at = 0;
            self.sleep(job, WorkerId::DISPATCHER, now);
            EventKind::Blocked
        } else {
            progress.quanta += 1;
            self.counts.preemptions += 1;
            EventKind::Preempted
        };
        self.hear(News { on: WorkerId::DISPATCHER, job, what }, now);
    }
}
