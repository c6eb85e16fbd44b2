//! One kthread: what it looks for, in the [`Thief`]'s order, and what it does with it.

use super::queue::{Queue, Ready};
use super::{BATCH, Threads};
use crate::domain::Sink;
use crate::engine::Done;
use curtail_policy::{JobId, Load, Loot, Nanos, Patience, Source, Theft};
use std::collections::VecDeque;

/// What a kthread's pending event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// None: it searches for ever, or is parked.
    Nothing,
    /// Its thread completes.
    Complete,
    /// Its thread's quantum ends.
    QuantumEnd,
    /// The switch away from its thread is over.
    Switched,
    /// What is to be done after a completion is over.
    Finished,
    /// A request is taken in.
    TakenIn,
    /// What it steals is here.
    Stolen,
    /// It has searched for long enough.
    OutOfPatience,
    /// It is about to sleep.
    Parked,
    /// It has slept.
    Woken,
}

pub(super) struct Kthread {
    pub(super) queue: Queue,
    /// Requests that came here and were not taken in, and when they came.
    pub(super) ingress: VecDeque<(JobId, u64)>,
    pub(super) next: Next,
    patience: Patience,
    spin_ns: u64,
    /// The thread that runs, or ran last and is being put away.
    job: JobId,
    /// When its quantum began, in nanoseconds.
    started: u64,
    /// How many requests it may still take in.
    batch: u32,
    /// Requests that it has got hold of, its own and others', the first being taken in.
    incoming: VecDeque<(JobId, u64)>,
    /// Threads on the way here.
    loot: Vec<Ready>,
    /// The thread whose quantum ended: it is queued after what is taken in.
    yielded: Option<Ready>,
}

impl Kthread {
    pub(super) fn new(spin_ns: u64) -> Self {
        Self {
            queue: Queue::default(),
            ingress: VecDeque::new(),
            next: Next::Nothing,
            patience: Patience::new(Nanos(spin_ns)),
            spin_ns,
            job: JobId(0),
            started: 0,
            batch: 0,
            incoming: VecDeque::new(),
            loot: Vec::new(),
            yielded: None,
        }
    }
}

impl Threads {
    #[inline]
    pub(super) fn event(&mut self, kthread: usize, now: u64, sink: &mut impl Sink) {
        match self.kthreads[kthread].next {
            Next::Complete => self.complete(kthread, now, sink),
            Next::QuantumEnd => self.quantum_end(kthread, now),
            Next::Switched => self.switched(kthread, now),
            Next::Finished => self.look(kthread, now),
            Next::TakenIn => self.taken_in(kthread, now),
            Next::Stolen => self.stolen(kthread, now),
            Next::OutOfPatience => self.out_of_patience(kthread, now),
            Next::Parked => self.park(kthread, now),
            Next::Woken => {
                self.waking -= 1;
                self.look(kthread, now);
            }
            Next::Nothing => unreachable!("a kthread without work has no events"),
        }
    }

    /// What is next for a kthread that has nothing to do.
    #[inline]
    pub(super) fn look(&mut self, kthread: usize, now: u64) {
        let at = &mut self.kthreads[kthread];
        let own = Load { ready: at.queue.len() as u32, ..self.loads[kthread] };
        // With nothing on offer a look at all others would find nothing.
        let found = if own.is_empty() && self.on_offer == 0 {
            None
        } else {
            let loads = &self.loads;
            self.thieves[kthread].seek(own, |other| loads[other.index()])
        };
        let Some(source) = found else { return self.search(kthread, now) };
        at.patience.renew();
        self.searching.remove(kthread);
        match source {
            Source::Own => self.run(kthread, now),
            Source::Incoming => {
                self.kthreads[kthread].batch = BATCH;
                self.take_in(kthread, now);
            }
            Source::Other(theft) => self.steal(kthread, theft, now),
        }
    }

    /// It has found nothing.
    fn search(&mut self, kthread: usize, now: u64) {
        let at = &mut self.kthreads[kthread];
        if !self.searching.has(kthread) {
            self.searching.insert(kthread);
        }
        if !self.parks {
            return self.schedule(kthread, Next::Nothing, now);
        }
        if at.patience.ends(Nanos(now)) {
            return self.give_in(kthread, now);
        }
        let until = now + at.spin_ns;
        self.schedule(kthread, Next::OutOfPatience, until);
    }

    fn out_of_patience(&mut self, kthread: usize, now: u64) {
        assert!(self.kthreads[kthread].patience.ends(Nanos(now)), "it searched for so long");
        self.give_in(kthread, now);
    }

    fn give_in(&mut self, kthread: usize, now: u64) {
        self.searching.remove(kthread);
        self.counts.overhead_ns += self.costs.park;
        self.schedule(kthread, Next::Parked, now + self.costs.park);
    }

    /// The last look before it sleeps: what came meanwhile found no kthread that searched.
    fn park(&mut self, kthread: usize, now: u64) {
        if self.on_offer > self.waking {
            return self.look(kthread, now);
        }
        self.parkings += 1;
        self.parked.insert(kthread);
        self.schedule(kthread, Next::Nothing, now);
    }

    /// Runs the first of its queue.
    #[inline]
    fn run(&mut self, kthread: usize, now: u64) {
        let ready = self.kthreads[kthread].queue.pop().expect("it has one");
        self.publish(kthread);
        let at = &mut self.kthreads[kthread];
        (at.job, at.started) = (ready.job, now);
        let slot = self.jobs.get(ready.job);
        if !slot.started {
            slot.started = true;
            at.started += self.costs.start;
            self.counts.overhead_ns += self.costs.start;
        }
        self.begin(kthread);
    }

    /// A quantum begins.
    fn begin(&mut self, kthread: usize) {
        let at = &mut self.kthreads[kthread];
        let remaining = self.jobs.get(at.job).remaining;
        let (started, mut length) = (at.started, self.quantum);
        if length > 0
            && let Some(overshoot) = &mut self.overshoot
        {
            length += overshoot.draw();
        }
        if length == 0 || remaining <= length {
            self.schedule(kthread, Next::Complete, started + remaining);
        } else {
            self.schedule(kthread, Next::QuantumEnd, started + length);
        }
    }

    fn complete(&mut self, kthread: usize, now: u64, sink: &mut impl Sink) {
        let at = &self.kthreads[kthread];
        let job = at.job;
        self.counts.app_ns += now - at.started;
        let slot = self.jobs.get(job);
        sink.completed(&Done::of(&slot.job, slot.service, slot.quanta, now), slot.counted);
        self.jobs.remove(job);
        if self.costs.finish > 0 {
            self.counts.overhead_ns += self.costs.finish;
            self.schedule(kthread, Next::Finished, now + self.costs.finish);
        } else {
            self.look(kthread, now);
        }
    }

    fn quantum_end(&mut self, kthread: usize, now: u64) {
        let at = &mut self.kthreads[kthread];
        let ran = now - at.started;
        at.started = now;
        let slot = self.jobs.get(at.job);
        slot.remaining -= ran;
        slot.quanta += 1;
        self.counts.app_ns += ran;
        if let Some(late) = &mut self.counts.late {
            late.record(ran.saturating_sub(self.quantum));
        }
        if at.queue.is_empty() && at.ingress.is_empty() {
            return self.begin(kthread);
        }
        self.counts.preemptions += 1;
        if self.costs.switch > 0 {
            self.counts.overhead_ns += self.costs.switch;
            self.schedule(kthread, Next::Switched, now + self.costs.switch);
        } else {
            self.switched(kthread, now);
        }
    }

    fn switched(&mut self, kthread: usize, now: u64) {
        let at = &mut self.kthreads[kthread];
        at.yielded = Some(Ready { job: at.job, since: now, started: true });
        at.batch = BATCH;
        self.take_in(kthread, now);
    }

    /// Takes in what has come, as much as it may at once; then it looks what to run.
    fn take_in(&mut self, kthread: usize, now: u64) {
        loop {
            let at = &mut self.kthreads[kthread];
            if at.incoming.is_empty()
                && at.batch > 0
                && let Some(request) = at.ingress.pop_front()
            {
                at.batch -= 1;
                at.incoming.push_back(request);
                self.publish(kthread);
            }
            let at = &mut self.kthreads[kthread];
            if at.incoming.is_empty() {
                at.queue.extend(at.yielded.take());
                self.publish(kthread);
                return self.look(kthread, now);
            }
            if self.costs.receive > 0 {
                self.counts.overhead_ns += self.costs.receive;
                return self.schedule(kthread, Next::TakenIn, now + self.costs.receive);
            }
            self.made_ready(kthread);
        }
    }

    /// The first request of those it has got hold of is a thread now.
    fn made_ready(&mut self, kthread: usize) {
        let at = &mut self.kthreads[kthread];
        let request = at.incoming.pop_front();
        at.queue.extend(request.map(|(job, since)| Ready { job, since, started: false }));
        self.publish(kthread);
    }

    fn taken_in(&mut self, kthread: usize, now: u64) {
        self.made_ready(kthread);
        self.take_in(kthread, now);
    }

    fn steal(&mut self, kthread: usize, theft: Theft, now: u64) {
        self.thefts += 1;
        let victim = theft.victim.index();
        let [at, from] = self.kthreads.get_disjoint_mut([kthread, victim]).expect("two of them");
        match theft.loot {
            Loot::Incoming => {
                let most = Loot::Half.of(from.ingress.len()).min(BATCH as usize);
                at.incoming.extend(from.ingress.drain(..most));
            }
            loot => {
                let ready = loot.of(from.queue.stealable(self.pinned));
                at.loot.extend((0..ready).map_while(|_| from.queue.steal(self.pinned)));
            }
        }
        self.publish(victim);
        if self.costs.steal > 0 {
            self.counts.overhead_ns += self.costs.steal;
            self.schedule(kthread, Next::Stolen, now + self.costs.steal);
        } else {
            self.stolen(kthread, now);
        }
    }

    fn stolen(&mut self, kthread: usize, now: u64) {
        let at = &mut self.kthreads[kthread];
        at.batch = 0;
        at.queue.extend(at.loot.drain(..));
        self.take_in(kthread, now);
    }
}
