//! Cores change hands: grants, and what follows when a kthread has left its core.

use crate::detect::KthreadLook;
use crate::state::{Rung, State};
use crate::{Allocator, CoreId, HandOver, KthreadId, Nanos, Order, ProgramId, select};

/// A kthread that claims the same work after so many grants rests, twice as long each time.
const PATIENCE: u8 = 2;
/// At most 2¹⁰ intervals.
const LONGEST_REST: u8 = 10;

impl Allocator {
    /// A kthread says how it is.
    pub(crate) fn hear(&mut self, now: Nanos, id: KthreadId, look: &KthreadLook) {
        let grace = self.settings.grace;
        let Some(state) = self.tables.kthread(id).map(|kthread| kthread.state) else { return };
        // An heir is not on its core before the victim has left.
        let holds = state.core().is_some_and(|it| self.tables.cores[it.index()].holder == Some(id));
        let kthread = self.tables.kthread_mut(id).expect("looked up above");
        let acknowledged = look.acknowledged && kthread.unsent == 0;
        let look = KthreadLook { acknowledged, ..*look };
        kthread.look = look;
        match (state, look.parked) {
            (State::Granted { core, .. }, false) if look.acknowledged && holds => {
                kthread.state = State::Running { core };
            }
            // It came, had nothing to do, and has parked again; or it is still on its way.
            (State::Granted { .. }, true) if look.acknowledged => self.leave(now, id, false),
            (State::Running { .. }, true) => self.leave(now, id, !look.acknowledged),
            // One that parked before it saw the word has not woken its heir.
            (State::Evicted { .. }, true) => self.leave(now, id, !look.acknowledged),
            (State::Parked, false) => {
                kthread.state = State::Stray { deadline: now.plus(grace) };
            }
            (State::Stray { deadline }, false) if now >= deadline => {
                kthread.state = State::Shared;
                kthread.bound = None;
                self.order(Order::MoveToShared { kthread: id });
            }
            (State::Stray { .. } | State::Shared, true) => kthread.state = State::Parked,
            _ => {}
        }
    }

    /// What each kthread's queues say; how many of the program wait for too long.
    pub(crate) fn judge(&mut self, now: Nanos, program: ProgramId) -> u32 {
        let detector = self.settings.detector;
        let Some(member) = self.tables.member_mut(program) else { return 0 };
        member.judged = Some(now);
        let mut waiting = 0_u32;
        for kthread in &mut member.kthreads {
            let late = detector.waiting(now, kthread.last.as_ref(), &kthread.look);
            waiting = waiting.saturating_add(late);
            kthread.last = Some(kthread.look);
        }
        waiting
    }

    /// Grants what a program needs, as far as it can: a core for each parked kthread that has work of
    /// its own, and one for the rest if more wait than kthreads are on their way.
    pub(crate) fn satisfy(&mut self, now: Nanos, program: ProgramId, waiting: u32, judges: bool) {
        let Some(member) = self.tables.member(program) else { return };
        let mut wants = false;
        for index in 0..member.kthreads.len() as u32 {
            let id = KthreadId { program, index };
            let Some(kthread) = self.tables.kthread(id) else { break };
            if kthread.is_ready(now) && kthread.look.has_own_work(now) {
                wants |= !self.grant_to(now, id);
            }
        }
        let Some(member) = self.tables.member(program) else { return };
        let alone = member.cores == 0 && member.kthreads.iter().any(|it| !it.look.run.is_empty());
        if waiting > member.on_the_way() || alone {
            wants |= !self.grant_any(now, program);
        }
        let Some(member) = self.tables.member_mut(program) else { return };
        let parked = member.kthreads.iter().filter(|it| it.state == State::Parked);
        member.timer = parked.filter_map(|it| it.look.next_timer).filter(|&at| at > now).min();
        if judges || wants {
            member.wants = wants.then(|| member.wants.unwrap_or(now));
        }
    }

    /// Timers of parked kthreads that are due.
    pub(crate) fn ring(&mut self, now: Nanos) {
        for id in (0..self.tables.members.len() as u32).map(ProgramId) {
            let timer = self.tables.member(id).and_then(|member| member.timer);
            if timer.is_some_and(|at| at <= now) {
                self.satisfy(now, id, 0, false);
            }
        }
    }

    /// Free cores go to programs that want some: first to those below their guarantee, then to the
    /// one that has waited longest.
    pub(crate) fn serve(&mut self, now: Nanos) {
        while self.tables.free > 0 {
            let want = self.tables.programs().filter(|(_, it)| it.may_have_more());
            let want = want.filter_map(|(id, it)| Some((!it.is_below_guarantee(), it.wants?, id)));
            let Some((_, _, program)) = want.min() else { return };
            self.grant_any(now, program);
            if let Some(member) = self.tables.member_mut(program) {
                member.wants = None;
            }
        }
    }

    /// A core for any kthread of a program; false: there is none for it.
    pub(crate) fn grant_any(&mut self, now: Nanos, program: ProgramId) -> bool {
        if !self.tables.member(program).is_some_and(|member| member.may_have_more()) {
            return false;
        }
        let Some(core) = select::core(&self.tables, self.settings.selector, program, None) else {
            return false;
        };
        let Some(kthread) = select::kthread(&self.tables, program, core, now) else { return false };
        self.grant(now, kthread, core);
        true
    }

    /// A core for this kthread.
    fn grant_to(&mut self, now: Nanos, id: KthreadId) -> bool {
        let (selector, program) = (self.settings.selector, id.program);
        if !self.tables.member(program).is_some_and(|member| member.may_have_more()) {
            return false;
        }
        let Some(core) = select::core(&self.tables, selector, program, Some(id.index)) else {
            return false;
        };
        self.grant(now, id, core);
        true
    }

    fn grant(&mut self, now: Nanos, id: KthreadId, core: CoreId) {
        let grace = now.plus(self.settings.grace);
        let line = &mut self.tables.cores[core.index()];
        let (by, rung, deadline) = match line.holder {
            Some(victim) => {
                line.heir = Some(id);
                (HandOver::Evict(victim), Rung::Word, Nanos::MAX)
            }
            None => {
                line.holder = Some(id);
                self.tables.free -= 1;
                let idle = self.settings.idler || self.tables.floating > 0;
                let looks = if line.batch > 0 { line.blind == 0 } else { idle };
                if looks && self.tables.unbound == 0 {
                    (HandOver::Line, Rung::Word, grace)
                } else {
                    (HandOver::Kernel, Rung::Call, now.plus(self.settings.give_up))
                }
            }
        };
        if let HandOver::Evict(victim) = by {
            self.evict(now, victim, core);
        }
        let member = self.tables.member_mut(id.program).expect("the caller found it");
        member.cores += 1;
        let kthread = &mut member.kthreads[id.index as usize];
        let repin = kthread.bound != Some(core);
        let own = kthread.look.has_own_work(now);
        kthread.claim = own.then_some(kthread.look);
        kthread.state = State::Granted { core, rung, deadline };
        (kthread.bound, kthread.since, kthread.last) = (Some(core), now, None);
        self.deadline = self.deadline.min(deadline);
        self.order(Order::Grant { kthread: id, core, by, repin });
    }

    /// The victim is to leave; a victim that leaves already does so for another heir now.
    fn evict(&mut self, now: Nanos, victim: KthreadId, core: CoreId) {
        let deadline = now.plus(self.settings.grace);
        let member = self.tables.member_mut(victim.program).expect("a holder is a program's");
        let kthread = &mut member.kthreads[victim.index as usize];
        if !matches!(kthread.state, State::Evicted { .. }) {
            member.cores -= 1;
        }
        kthread.state = State::Evicted { core, rung: Rung::Word, deadline };
        self.deadline = self.deadline.min(deadline);
    }

    /// A kthread has no core any more. `wake`: its heir is woken here, since no other code does it.
    pub(crate) fn leave(&mut self, now: Nanos, id: KthreadId, wake: bool) {
        let (grace, give_up) = (self.settings.grace, self.settings.give_up);
        let Some(state) = self.tables.kthread(id).map(|kthread| kthread.state) else { return };
        let Some(core) = state.core() else { return };
        let line = &mut self.tables.cores[core.index()];
        let mut heir = None;
        if line.heir == Some(id) {
            line.heir = None;
        } else {
            heir = line.heir.take();
            line.holder = heir;
            self.tables.free += u32::from(heir.is_none());
        }
        let member = self.tables.member_mut(id.program).expect("it has this kthread");
        if !matches!(state, State::Evicted { .. }) {
            member.cores -= 1;
        }
        member.recent = Some(core);
        let kthread = &mut member.kthreads[id.index as usize];
        (kthread.state, kthread.since) = (State::Parked, now);
        let was = kthread.claim.take();
        if let (Some(claim), State::Granted { .. } | State::Running { .. }) = (was, state) {
            self.rest(now, id, &claim);
        }
        let Some(heir) = heir else { return };
        let (rung, deadline) = if wake {
            self.order(Order::Wake { kthread: heir });
            (Rung::Call, now.plus(give_up))
        } else {
            (Rung::Word, now.plus(grace))
        };
        self.deadline = self.deadline.min(deadline);
        let heir = self.tables.kthread_mut(heir).expect("an heir is a program's");
        heir.state = State::Granted { core, rung, deadline };
    }

    /// A kthread that claims the very work that it was granted a core for before, again and again,
    /// is granted none for a while.
    fn rest(&mut self, now: Nanos, id: KthreadId, claim: &KthreadLook) {
        let interval = self.settings.interval.0;
        let Some(kthread) = self.tables.kthread_mut(id) else { return };
        let look = &kthread.look;
        let same = claim.inbox == look.inbox
            && claim.run.head == look.run.head
            && claim.next_timer == look.next_timer
            && claim.stranded == look.stranded;
        if !same {
            kthread.fruitless = 0;
            return;
        }
        kthread.fruitless = (kthread.fruitless + 1).min(PATIENCE + LONGEST_REST);
        if kthread.fruitless > PATIENCE {
            let span = interval << (kthread.fruitless - PATIENCE).min(LONGEST_REST);
            kthread.not_before = kthread.not_before.max(now.plus(Nanos(span)));
        }
    }
}
