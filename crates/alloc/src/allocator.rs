//! The state machine: what happened goes in, orders come out.

use crate::batch;
use crate::detect::KthreadLook;
use crate::record::{Call, Tap};
use crate::settings::{Class, MOST_KTHREADS, MOST_PROGRAMS};
use crate::state::{Core, Member, Rung, State, Tables};
use crate::{
    CoreId, KthreadId, Machine, MachineError, Nanos, Order, Program, ProgramId, Refusal, Settings,
};
use std::collections::VecDeque;

/// The allocator of cores: a state machine into which events go and out of which orders come.
pub struct Allocator {
    pub(crate) settings: Settings,
    pub(crate) tables: Tables,
    pub(crate) orders: VecDeque<Order>,
    /// The first deadline of a rung.
    pub(crate) deadline: Nanos,
    pub(crate) rebalanced: Nanos,
    pub(crate) tap: Option<Tap>,
}

/// What a core is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// No latency-critical program has it: batch or an idler runs there.
    Free,
    /// A kthread has it.
    Held(KthreadId),
    /// A kthread is to leave it, for the heir if there is one.
    Leaving(KthreadId, Option<KthreadId>),
}

impl Allocator {
    /// For a machine without programs. All its cores are free.
    ///
    /// # Errors
    /// Where the machine can't be.
    pub fn new(machine: Machine, settings: Settings) -> Result<Self, MachineError> {
        machine.validate()?;
        let core = |info: &crate::CoreInfo| Core { sibling: info.sibling, ..Core::default() };
        let cores: Vec<Core> = machine.cores.iter().map(core).collect();
        let free = cores.len() as u32;
        Ok(Self {
            settings,
            tables: Tables { cores, members: Vec::new(), free, placed: 0, unbound: 0, floating: 0 },
            orders: VecDeque::new(),
            deadline: Nanos::MAX,
            rebalanced: Nanos(0),
            tap: None,
        })
    }

    /// A program comes. Its kthreads are parked, and run only when they are granted a core; those of
    /// a batch program are placed.
    ///
    /// # Errors
    /// Where it asks for what can't be. No core is guaranteed to two programs.
    pub fn add_program(&mut self, now: Nanos, program: Program) -> Result<ProgramId, Refusal> {
        self.admit(&program)?;
        let members = &mut self.tables.members;
        let vacant = members.iter().position(Option::is_none).unwrap_or(members.len());
        if vacant == members.len() {
            members.push(None);
        }
        members[vacant] = Some(Member::new(now, program));
        let id = ProgramId(vacant as u32);
        let kthreads: usize = self.tables.programs().map(|(_, it)| it.kthreads.len()).sum();
        // No kthread has more than four orders at a time.
        self.orders.reserve(4 * kthreads);
        batch::place_all(self, id);
        self.note(|| Call::Add { now, program, id });
        Ok(id)
    }

    fn admit(&self, program: &Program) -> Result<(), Refusal> {
        let Program { class, kthreads, guaranteed, burstable } = *program;
        if (kthreads == 0 && class == Class::LatencyCritical) || kthreads > MOST_KTHREADS {
            return Err(Refusal::Kthreads { asked: kthreads, most: MOST_KTHREADS });
        }
        if class != Class::LatencyCritical && guaranteed > 0 {
            return Err(Refusal::BatchGuarantee);
        }
        if guaranteed > kthreads {
            return Err(Refusal::MoreThanKthreads { guaranteed, kthreads });
        }
        if class == Class::LatencyCritical && guaranteed == 0 && burstable == 0 {
            return Err(Refusal::NoCores);
        }
        let left = self.unpromised();
        if guaranteed > left {
            return Err(Refusal::Promised { asked: guaranteed, left });
        }
        if self.tables.programs().count() >= MOST_PROGRAMS as usize {
            return Err(Refusal::Programs { most: MOST_PROGRAMS });
        }
        Ok(())
    }

    /// How many cores can still be guaranteed.
    #[must_use]
    pub fn unpromised(&self) -> u32 {
        let promised: u32 = self.tables.programs().map(|(_, member)| member.guaranteed).sum();
        self.tables.cores.len() as u32 - promised
    }

    /// A program is gone or dead. Its cores are free at once, and orders about it are dropped.
    pub fn remove_program(&mut self, now: Nanos, program: ProgramId) {
        self.note(|| Call::Remove { now, program });
        let Some(member) = self.tables.member(program) else { return };
        for index in 0..member.kthreads.len() as u32 {
            let id = KthreadId { program, index };
            self.leave(now, id, true);
            batch::displace(&mut self.tables, id);
        }
        self.drop_orders(now, program);
        let member = self.tables.members[program.index()].take().expect("looked up above");
        if !member.is_critical() && member.kthreads.is_empty() {
            *self.tables.anywhere(member.program.class) -= 1;
        }
        self.serve(now);
    }

    /// Orders about a program that is removed. A victim that one of them would have told to leave for
    /// an heir of the program keeps its core.
    fn drop_orders(&mut self, now: Nanos, program: ProgramId) {
        for _ in 0..self.orders.len() {
            let Some(order) = self.orders.pop_front() else { break };
            if order.kthread().program != program {
                self.orders.push_back(order);
                continue;
            }
            let [_, Some(victim)] = order.writes() else { continue };
            let deadline = now.plus(self.settings.grace);
            let Some(kthread) = self.tables.kthread_mut(victim) else { continue };
            kthread.unsent -= 1;
            if let State::Evicted { core, .. } = kthread.state {
                // Whether it runs, its next look says.
                kthread.state = State::Granted { core, rung: Rung::Word, deadline };
                self.deadline = self.deadline.min(deadline);
                if let Some(member) = self.tables.member_mut(victim.program) {
                    member.cores += 1;
                }
            }
        }
    }

    /// A program lies: nothing is guaranteed to it any more. It may still have cores that are free.
    pub fn demote(&mut self, now: Nanos, program: ProgramId) {
        self.note(|| Call::Demote { now, program });
        if let Some(member) = self.tables.member_mut(program) {
            member.guaranteed = 0;
        }
    }

    /// What a program's kthreads said of themselves, the first of them first. To be called once each
    /// interval, and as often as the driver likes between. Kthreads that the program does not have
    /// are ignored; those that are left out are taken to be as they were. Nothing follows for a batch
    /// program.
    pub fn look(&mut self, now: Nanos, program: ProgramId, looks: &[KthreadLook]) {
        if let Some(tap) = &mut self.tap {
            tap.look(now, program, looks);
        }
        let interval = self.settings.interval;
        let Some(member) = self.tables.member_mut(program).filter(|it| it.is_critical()) else {
            return;
        };
        member.looked = now;
        let judges = member.judged.is_none_or(|last| now.since(last) >= interval);
        for (index, look) in (0..member.kthreads.len() as u32).zip(looks) {
            self.hear(now, KthreadId { program, index }, look);
        }
        let waiting = if judges { self.judge(now, program) } else { 0 };
        self.satisfy(now, program, waiting, judges);
        self.serve(now);
    }

    /// Packets wait for a program: it gets a core if all its kthreads are parked. Otherwise those
    /// that are not will see them by themselves.
    pub fn packets_waiting(&mut self, now: Nanos, program: ProgramId) {
        self.note(|| Call::Packets { now, program });
        if self.is_wholly_parked(program) {
            self.grant_any(now, program);
        }
    }

    /// No kthread of a latency-critical program has a core or is on its way to one: the caller
    /// watches for its packets.
    #[must_use]
    pub fn is_wholly_parked(&self, program: ProgramId) -> bool {
        self.tables.member(program).is_some_and(|it| it.is_critical() && it.cores == 0)
    }

    /// A kthread has parked, as an answer to the word that was written to it last: what the next look
    /// would say, at once.
    pub fn parked(&mut self, now: Nanos, kthread: KthreadId) {
        self.note(|| Call::Parked { now, kthread });
        let Some(at) = self.tables.kthread_mut(kthread) else { return };
        at.look = KthreadLook { parked: true, acknowledged: true, ..at.look };
        let look = at.look;
        self.hear(now, kthread, &look);
        self.serve(now);
    }

    /// A grant could not be carried out: its core is free, and the kthread gets none for a while.
    pub fn refused(&mut self, now: Nanos, kthread: KthreadId) {
        self.note(|| Call::Refused { now, kthread });
        let until = now.plus(self.settings.rest);
        let Some(at) = self.tables.kthread_mut(kthread) else { return };
        if let State::Granted { .. } = at.state {
            at.not_before = until;
            self.leave(now, kthread, true);
            self.serve(now);
        }
    }

    /// The next order. What is late by `now` goes up the ladder first.
    pub fn poll_order(&mut self, now: Nanos) -> Option<Order> {
        let timers = self.tables.programs().filter_map(|(_, member)| member.timer);
        let due = timers.chain([self.deadline, batch::next(self)]).any(|at| at <= now);
        if due {
            self.climb(now);
            self.ring(now);
            batch::rebalance(self, now);
        }
        let order = self.orders.pop_front();
        for id in order.iter().flat_map(Order::writes).flatten() {
            if let Some(kthread) = self.tables.kthread_mut(id) {
                kthread.unsent = kthread.unsent.saturating_sub(1);
            }
        }
        match order {
            Some(order) => self.note(|| Call::Order { now, order }),
            None if due => self.note(|| Call::Nothing { now }),
            None => {}
        }
        order
    }

    /// When the driver is to look at all programs and to poll again, at the latest.
    #[must_use]
    pub fn next_wakeup(&self, now: Nanos) -> Option<Nanos> {
        if !self.orders.is_empty() {
            return Some(now);
        }
        let critical = self.tables.programs().filter(|(_, member)| member.is_critical());
        let looks = critical.map(|(_, member)| {
            let look = member.looked.plus(self.settings.interval);
            member.timer.map_or(look, |timer| timer.min(look))
        });
        let first = looks.chain([self.deadline, batch::next(self)]).min();
        first.filter(|&at| at != Nanos::MAX).map(|at| at.max(now))
    }

    /// What a core is used for.
    ///
    /// # Panics
    /// Where the machine has no such core.
    #[must_use]
    pub fn holding(&self, core: CoreId) -> Holding {
        let core = &self.tables.cores[core.index()];
        let Some(holder) = core.holder else { return Holding::Free };
        match self.tables.kthread(holder).map(|it| it.state) {
            Some(State::Evicted { .. }) => Holding::Leaving(holder, core.heir),
            _ => Holding::Held(holder),
        }
    }

    /// How many cores are managed.
    #[must_use]
    pub fn machine_cores(&self) -> usize {
        self.tables.cores.len()
    }

    /// How many cores a program has. One that it is to leave does not count.
    #[must_use]
    pub fn cores_of(&self, program: ProgramId) -> u32 {
        self.tables.member(program).map_or(0, |member| member.cores)
    }

    /// How it decides.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn order(&mut self, order: Order) {
        for id in order.writes().into_iter().flatten() {
            if let Some(kthread) = self.tables.kthread_mut(id) {
                kthread.unsent += 1;
            }
        }
        self.orders.push_back(order);
    }

    pub(crate) fn note(&mut self, call: impl FnOnce() -> Call) {
        if let Some(tap) = &mut self.tap {
            tap.call(&call());
        }
    }
}
