//! Carries out what the allocator orders.

use crate::daemon::Daemon;
use crate::program::{Place, Program};
use curtail_alloc::{CoreId, HandOver, Holding, KthreadId, Nanos, Order};
use curtail_shm::{CoreIndex, kthreads, monotonic_ns};
use std::io;

impl Daemon {
    /// Everything that is due.
    pub(crate) fn carry_out_all(&mut self, now_ns: u64) {
        while let Some(order) = self.allocator.poll_order(Nanos(now_ns)) {
            self.carry_out(now_ns, order);
        }
    }

    /// Shows which kthread has which core, where that has changed.
    pub(crate) fn show_holders(&mut self) {
        for core in 0..self.cpus.len() as u32 {
            let holder = match self.allocator.holding(CoreId(core)) {
                Holding::Free => None,
                Holding::Held(kthread) | Holding::Leaving(kthread, _) => Some(kthread),
            };
            if std::mem::replace(&mut self.holders[core as usize], holder) == holder {
                continue;
            }
            let slot = holder.and_then(|kthread| {
                let program = self.programs.iter().find(|it| it.id == kthread.program)?;
                Some(program.slot(kthread.index))
            });
            self.board.hold(CoreIndex(core), slot);
        }
    }

    fn carry_out(&mut self, now_ns: u64, order: Order) {
        let kthread = order.kthread();
        // The allocator drops orders about programs that are gone.
        let Some(program) = self.programs.iter_mut().find(|it| it.id == kthread.program) else {
            return;
        };
        let slot = program.slot(kthread.index);
        match order {
            Order::Grant { core, by, .. } => {
                self.grant(now_ns, kthread, CoreIndex(core.0), by);
            }
            Order::Wake { .. } => {
                self.counts.wakes += 1;
                self.board.wake(slot);
            }
            Order::Signal { .. } => {
                self.counts.signals += 1;
                let tid = program.kthreads[kthread.index as usize].tid;
                // Where it has no thread, the next rung follows.
                let _ = kthreads::ask_by_signal(program.pid, tid);
            }
            Order::MoveToShared { .. } => self.move_away(now_ns, kthread),
            Order::Revoke { .. } => {
                self.counts.revoked += 1;
                self.board.park(slot);
            }
            // Batch programs have no kthreads here: their threads float.
            Order::Place { .. } => {}
        }
    }

    fn grant(&mut self, now_ns: u64, kthread: KthreadId, core: CoreIndex, by: HandOver) {
        let program = self.programs.iter_mut().find(|it| it.id == kthread.program);
        let program = program.expect("the caller found it");
        let slot = program.slot(kthread.index);
        let state = &mut program.kthreads[kthread.index as usize];
        state.wanted = Place::Core(core);
        state.granted_ns = now_ns;
        // One that is not there yet can't be bound, and would run anywhere.
        let is_there = state.tid != 0;
        if !is_there || bind(program, kthread.index, &self.cpus, &self.shared).is_err() {
            self.counts.refused += 1;
            self.allocator.refused(Nanos(now_ns), kthread);
            return;
        }
        program.grants += 1;
        self.board.grant(slot, core);
        match by {
            HandOver::Line => {
                self.counts.by_line += 1;
                self.board.order(core, slot);
            }
            HandOver::Kernel => {
                self.counts.by_kernel += 1;
                self.board.wake(slot);
            }
            HandOver::Evict(victim) => {
                self.counts.by_eviction += 1;
                let grace_ns = monotonic_ns() + self.grace_ns;
                let other = self.programs.iter_mut().find(|it| it.id == victim.program);
                let Some(other) = other else { return };
                other.evictions += 1;
                self.board.evict(other.slot(victim.index), Some(slot), grace_ns);
                // After its word, which it looks at then.
                self.counts.raised += u64::from(other.raise(victim.index));
            }
        }
    }

    fn move_away(&mut self, now_ns: u64, kthread: KthreadId) {
        self.counts.moves += 1;
        let program = self.programs.iter_mut().find(|it| it.id == kthread.program);
        let program = program.expect("the caller found it");
        program.moves += 1;
        program.kthreads[kthread.index as usize].wanted = Place::Shared;
        let moved = bind(program, kthread.index, &self.cpus, &self.shared);
        let text = match moved {
            Ok(()) => "moved to a shared core".to_owned(),
            Err(error) => format!("which can't be moved: {error}"),
        };
        let (index, label) = (kthread.index, program.label());
        self.log.say(
            now_ns,
            "moved",
            &format!("{label}: kthread {index} does not leave its core, {text}"),
        );
    }

    /// Binds the kthreads that were granted a core before they said what thread they are.
    pub(crate) fn bind_late(program: &mut Program, cpus: &[u32], shared: &[u32]) {
        for index in 0..program.kthreads.len() {
            let kthread = &program.kthreads[index];
            if kthread.tid != 0 && kthread.bound != kthread.wanted {
                let _ = bind(program, index as u32, cpus, shared);
            }
        }
    }
}

/// Binds a kthread to where it is wanted, unless it is there; one that has not said yet what thread
/// it is comes later.
fn bind(program: &mut Program, index: u32, cpus: &[u32], shared: &[u32]) -> io::Result<()> {
    let kthread = &mut program.kthreads[index as usize];
    if kthread.tid == 0 || kthread.bound == kthread.wanted {
        return Ok(());
    }
    let own;
    let target = match kthread.wanted {
        Place::Core(CoreIndex(core)) => {
            own = [cpus[core as usize]];
            &own[..]
        }
        Place::Shared => shared,
        Place::Own => return Ok(()),
    };
    kthreads::pin_thread_of(program.pid, kthread.tid, target)?;
    kthread.bound = kthread.wanted;
    Ok(())
}
