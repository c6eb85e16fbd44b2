//! Commands to the dispatcher: looking at it, changing the policy or the quantum, closing.

use super::Dispatcher;
use super::link::WorkerLink;
use crate::control::Command;
use crate::engine::Config;
use crate::server::knowing;
use crate::stats::{RequestState, RequestStats, Stats, WorkerStats, split};
use curtail_fiber::safepoint::{Kind, Mode};
use curtail_fiber::ticks::Ticks;
use curtail_policy::{ClassId, Nanos, Spec, WorkerId};
use curtail_rt::preempt::{Choice, Preempt};
use curtail_sched::Where;
use std::sync::atomic::Ordering;

/// A thread's quantum where the policy has none and still pre-empts.
const THREAD_QUANTUM: Nanos = Nanos(20_000);

impl Dispatcher {
    pub(super) fn apply_commands(&mut self, now: u64) {
        if !self.base.control.has_mail() {
            return;
        }
        for command in self.base.control.take() {
            match command {
                Command::Shutdown => self.base.close(),
                Command::Stats(answer) => drop(answer.send(self.stats(now))),
                Command::Quantum(quantum) => self.set_quantum(quantum, now),
                Command::Switch(spec) => self.switch(spec, now),
                Command::Stuck { worker, picks } => {
                    self.rescue(worker, Some(picks), now);
                }
                Command::AllStuck { spares } => {
                    let usual = self.sched.setup().workers;
                    (0..usual).for_each(|worker| self.rescue(worker, None, now));
                    let (time, config) = (self.nanos(now), &mut self.config);
                    let workers = (&mut config.workers, &self.down);
                    if config.spares.relieve(workers, &mut self.sched, spares, time) {
                        self.reconfigure();
                    }
                }
                Command::Cancel(id, cause) => self.cancel(id, cause, now),
                Command::Classify(classify) => self.base.entry.asker.classifier().replace(classify),
            }
        }
    }

    /// Another policy from now on. What waits moves over in order; what the workers hold is told to
    /// the new policy, and the workers get their part of it.
    fn switch(&mut self, spec: Spec, now: u64) {
        let mut spec = knowing(spec, &*self.config.shared.app);
        let config = &mut self.base.config;
        config.choice = Choice::make(config.wished, &spec, config.kind, config.busy);
        config.choice.limit(&mut spec, config.kind);
        // For good once signals have interrupted handlers: then it is not only safepoints where they
        // may be continued.
        let pins = self.sched.setup().pins || config.choice.effective == Preempt::Signal;
        self.watch.set_quantum(spec.quantum);
        let command = curtail_sched::Command::Policy { spec: Box::new(spec), pins };
        self.sched.handle_command(self.nanos(now), command);
        self.logged = None;
        self.base.look_soon();
        self.reconfigure();
    }

    fn set_quantum(&mut self, quantum: Option<Nanos>, now: u64) {
        self.watch.set_quantum(quantum);
        self.sched.handle_command(self.nanos(now), curtail_sched::Command::Quantum(quantum));
        self.reconfigure();
    }

    /// Gives the workers their orders for the policy in force.
    fn reconfigure(&mut self) {
        let spec = &self.sched.setup().spec;
        let (choice, kind) = (&self.base.config.choice, self.base.config.kind);
        let config = config_of(spec, choice, kind, self.sched.setup().workers);
        let own = own_config(spec, choice, kind);
        // SAFETY: this thread's engine, which runs nothing while commands are carried out.
        unsafe { (*self.config.own).set_config(own) };
        for worker in &mut self.config.workers {
            worker.contended = false;
            worker.remote.signals.contended.store(0, Ordering::Relaxed);
            let core = spec.build_core(self.config.shared.jobs);
            *worker.orders.lock().unwrap_or_else(|p| p.into_inner()) = Some((config.clone(), core));
            worker.remote.signals.epoch.fetch_add(1, Ordering::Release);
            worker.remote.parker.unpark();
        }
    }

    pub(crate) fn stats(&self, now: u64) -> Stats {
        let workers = self.worker_stats();
        let (classes, unknown) = split(self.base.entry.classes.clone());
        let spec = &self.sched.setup().spec;
        Stats {
            classes,
            unknown,
            decided: self.decided(),
            malformed: self.base.entry.malformed,
            unsent: self.base.unsent(),
            in_system: self.in_system(),
            waiting: self.sched.waiting() + self.base.entry.asker.parked(),
            preemptions: workers.iter().map(|worker| worker.preemptions).sum(),
            workers,
            policy: spec.name.clone(),
            quantum: spec.quantum,
            preempt: self.base.config.choice.effective,
            preempt_note: self.base.config.choice.note.clone(),
            ticks: self.ticks(),
            oldest: self.oldest(self.nanos(now)),
            transports: self.base.transports(),
            // The handle knows them.
            stalls: Vec::new(),
        }
    }

    /// Whether a request has begun that came back from its worker: at the end it is left behind.
    pub(crate) fn holds_begun(&self) -> bool {
        let mut jobs = self.sched.jobs().take(self.sched.len());
        jobs.any(|(job, _)| !self.sched.data(job.id).message.resume.is_null())
    }

    /// The requests that have been here for longest.
    fn oldest(&self, now: Nanos) -> Vec<RequestStats> {
        const MOST: usize = 16;
        let mut jobs: Vec<_> = self.sched.jobs().take(self.sched.len()).collect();
        if jobs.len() > MOST {
            jobs.select_nth_unstable_by_key(MOST, |(job, _)| job.arrived);
            jobs.truncate(MOST);
        }
        jobs.sort_unstable_by_key(|(job, _)| job.arrived);
        let in_server = |worker| self.config.shared.in_server(worker);
        let look = |(job, at): (curtail_policy::Job, Where)| RequestStats {
            class: job.class,
            age: now.since(job.arrived),
            attained: job.attained,
            state: match at {
                Where::Waiting => RequestState::Waiting,
                Where::On(worker) => RequestState::On(in_server(worker)),
                Where::Blocked(worker) => RequestState::Blocked(in_server(worker)),
            },
        };
        jobs.into_iter().map(look).collect()
    }

    fn worker_stats(&self) -> Vec<WorkerStats> {
        let look = |(index, link): (usize, &WorkerLink)| WorkerStats {
            worker: self.config.shared.in_server(WorkerId(index as u16)),
            holds: 0,
            preemptions: link.remote.progress.preemptions.load(Ordering::Relaxed),
            has_core: !link.remote.kthread.is_parked(),
            tid: link.remote.kthread.tid().map(i32::cast_unsigned),
        };
        let mut workers: Vec<WorkerStats> =
            self.config.workers.iter().enumerate().map(look).collect();
        // The first slots are used most, so all are found long before the table's end.
        for (_, at) in self.sched.jobs().take(self.sched.len()) {
            if let Where::On(on) | Where::Blocked(on) = at
                && let Some(worker) = workers.get_mut(usize::from(on.0))
            {
                worker.holds += 1;
            }
        }
        workers
    }

    /// Of all workers.
    pub(crate) fn ticks(&self) -> Ticks {
        let mut all = Ticks::default();
        for ticker in self.config.workers.iter().filter_map(|worker| worker.remote.ticker.get()) {
            all.add(&ticker.counts());
        }
        all
    }

    /// What the policy has decided for itself.
    pub(crate) fn decided(&self) -> Option<String> {
        let name = |class: ClassId| match self.base.entry.classes.get(usize::from(class.0)) {
            Some(row) => row.name.clone(),
            None if class == ClassId::UNKNOWN => "unknown".to_owned(),
            None => format!("class {}", class.0),
        };
        self.sched.policy().explain(name)
    }
}

/// The workers' part of a policy.
pub(crate) fn config_of(spec: &Spec, choice: &Choice, kind: Kind, workers: usize) -> Config {
    Config {
        mode: choice.mode(),
        watched: choice.is_watched(),
        central: !spec.is_two_level(),
        report_serviced: spec.is_two_level() && workers > 1,
        ..own_config(spec, choice, kind)
    }
}

/// The dispatcher's own engine times itself, in safepoints of whichever kind: no other thread watches
/// the dispatcher.
pub(crate) fn own_config(spec: &Spec, choice: &Choice, kind: Kind) -> Config {
    let is_cut = choice.effective != Preempt::Never;
    Config {
        mode: if is_cut { thread_mode(kind) } else { Mode::Off },
        watched: false,
        central: true,
        report_serviced: false,
        thread_quantum: is_cut.then(|| spec.quantum.unwrap_or(THREAD_QUANTUM)),
    }
}

/// By what threads that handlers spawn do so.
pub(crate) fn thread_mode(kind: Kind) -> Mode {
    match kind {
        Kind::Flag => Mode::Raised,
        Kind::None | Kind::Clock => Mode::Clock,
    }
}
