//! The dispatcher's side: a server of its own, which takes in requests and news and then asks the
//! policy what to do, in turns like the runtime's. What takes it no time happens at once.

use super::desk::{BATCH, Doing, Input, News, Slice};
use super::worker::Next;
use super::{Domain, Sink};
use crate::engine::Done;
use curtail_policy::{Decision, Job, JobId, Nanos, Policy, WorkerId};

impl Domain {
    /// A request is there.
    #[inline]
    pub(super) fn receive(&mut self, now: u64, job: JobId, sink: &mut impl Sink) {
        if self.instant && self.desk.is_free() {
            self.take_in(Input::Request(job), now, sink);
        } else {
            self.desk.requests.push_back((now, job));
            self.desk.queued = true;
        }
        self.pump(now, sink);
    }

    /// A worker has news.
    #[inline]
    pub(super) fn tell(&mut self, now: u64, news: News, sink: &mut impl Sink) {
        if self.instant && self.desk.is_free() {
            self.take_in(Input::News(news), now, sink);
        } else {
            self.desk.news.push_back((now + self.costs.ring, news));
            self.desk.queued = true;
        }
        self.pump(now, sink);
    }

    /// A quantum ended that the dispatcher is to end.
    pub(super) fn watch(&mut self, now: u64, worker: usize, slice: u32, sink: &mut impl Sink) {
        let slice = Slice { worker: worker as u16, number: Some(slice) };
        self.desk.ended.push_back((now, slice));
        self.desk.queued = true;
        self.pump(now, sink);
    }

    /// Something of the dispatcher's is due.
    pub(super) fn desk_event(&mut self, now: u64, sink: &mut impl Sink) {
        if let Some(&(at, job, on)) = self.desk.sent.front()
            && at <= now
        {
            self.desk.sent.pop_front();
            self.deliver(on.index(), job, now);
            return self.desk.look_ahead();
        }
        if let Some(&(at, slice)) = self.desk.asked.front()
            && at <= now
        {
            self.desk.asked.pop_front();
            self.ask(slice, now, sink);
            return self.desk.look_ahead();
        }
        if let Some((until, doing)) = self.desk.doing
            && until <= now
        {
            self.desk.doing = None;
            self.desk.pumping = true;
            self.done(doing, now, sink);
            self.desk.pumping = false;
        }
        self.pump(now, sink);
    }

    /// The dispatcher has done it.
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
        if self.desk.pumping {
            return;
        }
        self.desk.pumping = true;
        while self.desk.doing.is_none() {
            if self.desk.batch > 0
                && let Some(input) = self.desk.take(now)
            {
                self.begin_to_take_in(input, now, sink);
            } else if self.decide(now, sink) {
                self.desk.batch = BATCH;
                if !self.desk.has_input(now) {
                    break;
                }
            }
        }
        self.desk.pumping = false;
        // It has been asked for this moment: a wake-up that is due already would never end.
        self.desk.wakeup = self.policy.next_wakeup().map_or(u64::MAX, |at| at.0.max(now + 1));
        self.desk.look_ahead();
    }

    fn begin_to_take_in(&mut self, input: Input, now: u64, sink: &mut impl Sink) {
        let cost = match input {
            Input::Request(_) => self.costs.receive,
            Input::News(_) => self.costs.hear,
            Input::QuantumEnd(_) => 0,
        };
        if cost > 0 {
            self.desk.batch -= 1;
            self.desk.doing = Some((now + cost, Doing::TakingIn(input)));
        } else {
            self.take_in(input, now, sink);
        }
    }

    #[inline]
    fn take_in(&mut self, input: Input, now: u64, sink: &mut impl Sink) {
        let time = Nanos(now);
        match input {
            Input::Request(id) => {
                let slot = self.jobs.get(id);
                let (class, counted) = (slot.job.class, slot.counted);
                if self.policy.arrive(time, slot.job).is_err() {
                    sink.dropped(class, counted);
                    self.jobs.remove(id);
                }
            }
            Input::News(News::Ended { on, job }) => {
                let attained = self.jobs.get(job).job.attained;
                self.policy.completed(time, on, job, attained);
                self.jobs.remove(job);
            }
            Input::News(News::Yielded { on, job }) => {
                self.policy.yielded(time, on, self.jobs.get(job).job);
            }
            Input::QuantumEnd(slice) => self.see_end(slice, now, sink),
        }
    }

    /// What the policy decides, until it has nothing more to say (true) or the dispatcher is busy.
    #[inline]
    fn decide(&mut self, now: u64, sink: &mut impl Sink) -> bool {
        let mut asked = 0;
        loop {
            if !self.unreported.is_empty() && self.policy.waiting() > 0 {
                self.report();
            }
            let (cost, doing) = match self.policy.decide(Nanos(now)) {
                Decision::Idle => return true,
                Decision::Run { job, on: WorkerId::DISPATCHER, quantum } => {
                    self.run_here(job, quantum, now);
                    return false;
                }
                Decision::Run { job, on, quantum } => {
                    // A two-level policy leaves quanta to the worker.
                    let quantum = quantum.filter(|_| !self.two_level);
                    self.jobs.get(job.id).quantum = quantum.map_or(0, |quantum| quantum.0);
                    (self.costs.dispatch, Doing::Sending(job.id, on))
                }
                Decision::Preempt { on } => {
                    asked += 1;
                    assert!(
                        asked <= 2 * self.workers.len(),
                        "the policy asks for no end of yields"
                    );
                    (self.costs.signal, Doing::Asking(Slice { worker: on.0, number: None }))
                }
            };
            if cost > 0 {
                self.desk.doing = Some((now + cost, doing));
                return false;
            }
            self.done(doing, now, sink);
        }
    }

    /// Tells the policy of completed quanta, as the runtime does: when somebody waits to be placed.
    fn report(&mut self) {
        for worker in self.unreported.drain(..) {
            let at = &mut self.workers[usize::from(worker)];
            at.unreported = false;
            self.policy.serviced(WorkerId(worker), at.quanta);
        }
    }

    fn send(&mut self, job: JobId, on: WorkerId, now: u64) {
        if self.costs.ring == 0 {
            self.deliver(on.index(), job, now);
        } else {
            self.desk.sent.push_back((now + self.costs.ring, job, on));
            self.desk.queued = true;
        }
    }

    /// The dispatcher sees that a quantum has ended.
    fn see_end(&mut self, slice: Slice, now: u64, sink: &mut impl Sink) {
        let worker = usize::from(slice.worker);
        if !self.is_still(slice) {
            return;
        }
        if !self.wants_place(worker, now) {
            self.go_on(worker, now);
        } else if self.costs.signal > 0 {
            self.desk.doing = Some((now + self.costs.signal, Doing::Asking(slice)));
        } else {
            self.order(slice, now, sink);
        }
    }

    /// A worker is asked to yield.
    fn order(&mut self, slice: Slice, now: u64, sink: &mut impl Sink) {
        if self.costs.notify == 0 {
            self.ask(slice, now, sink);
        } else {
            self.desk.asked.push_back((now + self.costs.notify, slice));
            self.desk.queued = true;
        }
    }

    /// A worker notices that it is asked to yield.
    fn ask(&mut self, slice: Slice, now: u64, sink: &mut impl Sink) {
        if self.is_still(slice) {
            self.preempt(usize::from(slice.worker), now, sink);
        }
    }

    fn is_still(&self, slice: Slice) -> bool {
        let worker = &self.workers[usize::from(slice.worker)];
        let same = slice.number.is_none_or(|number| worker.slice == number);
        same && worker.is_running() && worker.next != Next::Yield
    }

    /// The dispatcher runs a job itself, for at most a quantum.
    fn run_here(&mut self, job: Job, quantum: Option<Nanos>, now: u64) {
        let slot = self.jobs.get(job.id);
        let length = quantum.map_or(slot.remaining, |quantum| slot.remaining.min(quantum.0));
        let start = if slot.started { 0 } else { self.costs.start };
        slot.started = true;
        let after = if length == slot.remaining { self.costs.finish } else { self.costs.switch };
        let until = now + start + length + after;
        self.desk.doing = Some((until, Doing::Running(job.id, length)));
    }

    fn ran_here(&mut self, job: JobId, length: u64, now: u64, sink: &mut impl Sink) {
        let on = WorkerId::DISPATCHER;
        // Meanwhile it heard of nothing.
        self.desk.batch = BATCH;
        let slot = self.jobs.get(job);
        slot.remaining -= length;
        slot.job.attained += Nanos(length);
        if slot.remaining == 0 {
            sink.completed(&Done::of(slot, now - self.costs.finish), slot.counted);
            self.policy.completed(Nanos(now), on, job, slot.job.attained);
            return self.jobs.remove(job);
        }
        slot.quanta += 1;
        slot.job.pinned = Some(on);
        let job = slot.job;
        self.counts.preemptions += 1;
        self.policy.yielded(Nanos(now), on, job);
    }
}
