//! Events and time.

use super::kthread::{Doing, Thread};
use super::program::Program;
use super::{Batch, Cores, CoresError, Critical, HandOvers, Shared};
use crate::agenda::{ARRIVAL, Agenda, COMPLETION, DISPATCH, NEVER, key, time};
use curtail_alloc::{Allocator, Class, KthreadId, KthreadLook, Nanos};
use curtail_workload::numbers;

/// Lets the programs share the cores until all their requests are served.
///
/// # Errors
/// A machine that can't be, or a program that its allocator does not take in.
///
/// # Panics
/// Where requests run backwards.
pub fn share(how: &Cores, programs: Vec<Critical<'_>>) -> Result<Shared, CoresError> {
    let mut world = World::new(how, programs)?;
    while world.step() {}
    Ok(world.result())
}

pub(super) struct World<'a> {
    pub(super) costs: HandOvers,
    pub(super) batch: Batch,
    interval: u64,
    pub(super) allocator: Allocator,
    pub(super) programs: Vec<Program<'a>>,
    /// A kthread's source is its number among all; then the programs' arrivals; then looks.
    agenda: Agenda,
    kthreads: usize,
    random: Box<dyn FnMut() -> u64>,
    looks: Vec<KthreadLook>,
    pub(super) now: u64,
}

impl<'a> World<'a> {
    fn new(how: &Cores, what: Vec<Critical<'a>>) -> Result<Self, CoresError> {
        let mut allocator = Allocator::new(how.machine.clone(), how.settings)?;
        let mut programs: Vec<Program<'a>> = Vec::new();
        let mut first = 0;
        for (at, program) in what.into_iter().enumerate() {
            let asks = curtail_alloc::Program {
                class: Class::LatencyCritical,
                kthreads: program.kthreads,
                guaranteed: program.guaranteed,
                burstable: program.burstable,
            };
            let id = allocator.add_program(Nanos(0), asks);
            let id = id.map_err(|why| CoresError::Refused { program: at, why })?;
            let kthreads = program.kthreads as usize;
            programs.push(Program::new(id, first, program, how.seed ^ (at as u64 + 1) << 32));
            first += kthreads;
        }
        let cores = how.machine.cores.len() as u32;
        if how.batch != Batch::None {
            let class = Class::Batch { looks: how.batch == Batch::Looks };
            let batch =
                curtail_alloc::Program { class, kthreads: cores, guaranteed: 0, burstable: cores };
            let added = allocator.add_program(Nanos(0), batch);
            added.map_err(|why| CoresError::Refused { program: programs.len(), why })?;
        }
        let mut world = Self {
            costs: how.costs,
            batch: how.batch,
            interval: how.settings.interval.0.max(1),
            allocator,
            agenda: Agenda::new(first + programs.len() + 1),
            kthreads: first,
            programs,
            random: Box::new(numbers(how.seed)),
            looks: Vec::new(),
            now: 0,
        };
        (0..world.programs.len()).for_each(|program| world.schedule_arrival(program));
        world.schedule_look();
        world.drain();
        Ok(world)
    }

    /// The next event; false: there is no more to do.
    fn step(&mut self) -> bool {
        if self.programs.iter_mut().all(Program::is_done) {
            return false;
        }
        let (at, source) = self.agenda.next();
        debug_assert!(at != NEVER, "requests wait, and nothing comes");
        self.now = time(at);
        if source < self.kthreads {
            let program = self.programs.partition_point(|it| it.first <= source) - 1;
            self.event(program, source - self.programs[program].first);
        } else if source < self.kthreads + self.programs.len() {
            self.arrive(source - self.kthreads);
        } else {
            self.look();
        }
        true
    }

    fn result(mut self) -> Shared {
        let (now, cores) = (self.now, self.cores());
        for program in &mut self.programs {
            for kthread in &program.kthreads {
                if !matches!(kthread.doing, Doing::Parked | Doing::Waiting) {
                    program.served.allocated_ns += now.saturating_sub(kthread.since);
                }
            }
        }
        let programs = self.programs.into_iter().map(|program| program.served).collect();
        Shared { programs, span_ns: now, cores }
    }

    fn cores(&self) -> usize {
        self.allocator.machine_cores()
    }

    fn schedule_arrival(&mut self, program: usize) {
        let next = self.programs[program].requests.peek().map(|request| request.at_ns);
        assert!(next.is_none_or(|at| at >= self.now), "requests arrive in the order of time");
        let key = next.map_or(NEVER, |at| key(at, ARRIVAL));
        self.agenda.set(self.kthreads + program, key);
    }

    /// Looks see nothing while all sleep and nothing waits: those are left out.
    fn schedule_look(&mut self) {
        let idle = |program: &Program<'_>| {
            program.inside == 0
                && program.kthreads.iter().all(|kthread| kthread.doing == Doing::Parked)
        };
        let source = self.kthreads + self.programs.len();
        let at = if self.programs.iter().all(idle) {
            let arrivals =
                self.programs.iter_mut().filter_map(|it| Some(it.requests.peek()?.at_ns));
            let Some(first) = arrivals.min() else { return self.agenda.set(source, NEVER) };
            first.max(self.now + 1).next_multiple_of(self.interval)
        } else {
            let due = self.allocator.next_wakeup(Nanos(self.now));
            let next = (self.now + 1).next_multiple_of(self.interval);
            due.map_or(next, |due| due.0.clamp(self.now + 1, next))
        };
        self.agenda.set(source, key(at, DISPATCH));
    }

    fn look(&mut self) {
        for at in 0..self.programs.len() {
            let program = &self.programs[at];
            self.looks.clear();
            self.looks.extend(program.kthreads.iter().map(|it| it.page(program.pinned)));
            self.allocator.look(Nanos(self.now), program.id, &self.looks);
            if !program.sockets.is_empty() {
                self.allocator.packets_waiting(Nanos(self.now), program.id);
            }
            self.drain();
        }
        self.schedule_look();
    }

    fn arrive(&mut self, at: usize) {
        let now = self.now;
        let program = &mut self.programs[at];
        let request = program.requests.next().expect("it was scheduled");
        program.inside += 1;
        let (arrived, service) = (request.at_ns, request.service_ns);
        let thread = Thread { arrived, service, left: service, since: now, started: false };
        let drawn = (self.random)();
        match program.home(drawn) {
            Some(home) => {
                program.kthreads[home].inbox.push_back(thread);
                self.rouse(at);
            }
            None => {
                program.sockets.push(thread);
                self.allocator.packets_waiting(Nanos(now), program.id);
                self.drain();
            }
        }
        self.schedule_arrival(at);
    }

    /// Kthreads that search see at once what can be taken.
    pub(super) fn rouse(&mut self, at: usize) {
        loop {
            let program = &mut self.programs[at];
            let searches = |doing| matches!(doing, Doing::Searching { .. });
            let count = program.kthreads.iter().filter(|it| searches(it.doing)).count();
            if count == 0 || !program.has_loot() {
                return;
            }
            let nth = ((u128::from((self.random)()) * count as u128) >> 64) as usize;
            let all = program.kthreads.iter().enumerate().filter(|(_, it)| searches(it.doing));
            let (finder, _) = { all }.nth(nth).expect("it was counted");
            program.seek(finder, self.now);
            if searches(program.kthreads[finder].doing) {
                return;
            }
            self.schedule(at, finder);
        }
    }

    /// Something is due for a kthread.
    fn event(&mut self, at: usize, me: usize) {
        let now = self.now;
        let kthread = &mut self.programs[at].kthreads[me];
        match kthread.doing {
            Doing::Serving { until } if until <= now => {
                self.complete(at, me);
                // Between threads it sees its word.
                if self.programs[at].kthreads[me].stop.is_some() {
                    return self.stop(at, me);
                }
                self.programs[at].seek(me, now);
            }
            Doing::Coming { .. } => {
                kthread.acknowledged = true;
                if kthread.stop.is_some() {
                    return self.stop(at, me);
                }
                self.programs[at].seek(me, now);
            }
            Doing::Parking { .. } => {
                return self.leave(at, me);
            }
            _ if kthread.stop.is_some_and(|stop| stop <= now) => return self.stop(at, me),
            Doing::Searching { .. } => {
                kthread.doing = Doing::Parking { until: now + self.costs.park };
            }
            Doing::Serving { .. } | Doing::Parked | Doing::Waiting => {}
        }
        self.schedule(at, me);
        self.rouse(at);
    }

    fn complete(&mut self, at: usize, me: usize) {
        let program = &mut self.programs[at];
        let thread = program.kthreads[me].current.take().expect("it was served");
        program.inside -= 1;
        program.served.sojourn.record(self.now - thread.arrived);
        program.served.used_ns += thread.service;
    }

    /// When a kthread is to be looked after.
    pub(super) fn schedule(&mut self, at: usize, me: usize) {
        let program = &self.programs[at];
        let kthread = &program.kthreads[me];
        let own = match kthread.doing {
            Doing::Parked | Doing::Waiting => None,
            Doing::Coming { at } => Some(at),
            Doing::Serving { until } | Doing::Parking { until } => Some(until),
            Doing::Searching { until } => until,
        };
        let stop = kthread.stop.filter(|_| kthread.is_active());
        let at = [own, stop].into_iter().flatten().min();
        let key = at.map_or(NEVER, |at| key(at.max(self.now), COMPLETION));
        self.agenda.set(program.first + me, key);
    }

    pub(super) fn find(&self, id: KthreadId) -> Option<(usize, usize)> {
        let at = self.programs.iter().position(|program| program.id == id.program)?;
        Some((at, id.index as usize))
    }
}
