//! Batch programs whose kthreads are known: runtimes that asked to be batch. (Those of `curtail
//! batch` have none here: their threads float.)
//!
//! The allocator places each kthread on a core, where it runs whenever the core is free: its word
//! says RUN, and its rank is the lowest. One that has parked is woken when there is something to do
//! for it; that takes no core from anyone, so it is no matter for the allocator.

use crate::carry::bind;
use crate::daemon::Daemon;
use crate::door::Event;
use crate::program::{Place, Program};
use curtail_alloc::{KthreadId, KthreadLook};
use curtail_shm::{CoreIndex, kthreads};

/// From one look at batch programs to the next.
pub(crate) const LOOK_NS: u64 = 100_000;

impl Daemon {
    /// A kthread of a batch program belongs to that core from now on.
    pub(crate) fn place(&mut self, kthread: KthreadId, core: CoreIndex) {
        let program = self.programs.iter_mut().find(|it| it.id == kthread.program);
        let Some(program) = program else { return };
        let index = kthread.index;
        program.kthreads[index as usize].wanted = Place::Core(core);
        // What can't be bound runs where it is.
        let _ = bind(program, index, &self.cpus, &self.shared);
        self.board.grant(program.slot(index), core);
        self.board.wake(program.slot(index));
    }

    /// Reads the pages of batch programs, and wakes kthreads that have parked and have work again.
    pub(crate) fn look_at_batch(&mut self, now_ns: u64) {
        for at in 0..self.programs.len() {
            let program = &mut self.programs[at];
            if !program.is_batch() || program.kthreads.is_empty() {
                continue;
            }
            let outcome = program.look(&self.board);
            Self::bind_late(program, &self.cpus, &self.shared);
            let program = &self.programs[at];
            let any = program.looks.iter().any(|look| !look.run.is_empty());
            let mut is_parked = true;
            for index in 0..program.kthreads.len() {
                let look = &program.looks[index];
                let sleeps = look.parked && look.acknowledged;
                let wakes = sleeps && (any || has_work(look, now_ns));
                is_parked &= sleeps && !wakes;
                if wakes {
                    self.run_again(at, index as u32);
                }
            }
            self.watch_packets(at, is_parked);
            if let Err(lie) = outcome {
                self.demote(now_ns, at, &lie.to_string());
            }
        }
    }

    /// Packets have come for a batch program.
    pub(crate) fn packets_for_batch(&self, at: usize) {
        let sleeps = |look: &KthreadLook| look.parked && look.acknowledged;
        if let Some(index) = self.programs[at].looks.iter().position(sleeps) {
            self.run_again(at, index as u32);
        }
    }

    fn run_again(&self, at: usize, index: u32) {
        let program = &self.programs[at];
        if let Place::Core(core) = program.kthreads[index as usize].wanted {
            self.board.grant(program.slot(index), core);
            self.board.wake(program.slot(index));
        }
    }

    /// The pollers of a program are watched while all its kthreads are parked.
    pub(crate) fn watch_packets(&mut self, at: usize, is_parked: bool) {
        let program = &mut self.programs[at];
        if program.is_armed != is_parked {
            for poller in program.pollers.iter().flatten() {
                let event = Event::Packets(program.serial);
                program.is_armed = self.door.arm(poller, event, is_parked).is_ok() && is_parked;
            }
        }
    }
}

fn has_work(look: &KthreadLook, now_ns: u64) -> bool {
    let is_due = look.next_timer.is_some_and(|at| at.0 <= now_ns);
    is_due || look.stranded > 0 || !look.inbox.is_empty()
}

/// The lowest rank, for a kthread that has none yet.
pub(crate) fn rank(program: &mut Program, index: u32) {
    let pid = program.pid;
    let kthread = &mut program.kthreads[index as usize];
    if kthread.tid != 0 && !kthread.is_ranked {
        // Refused, it competes with others as an equal, which `curtail doctor` tells of.
        let _ = kthreads::rank_thread_last(pid, kthread.tid);
        kthread.is_ranked = true;
    }
}
