//! The allocator's orders, and what follows from them.

use super::Batch;
use super::kthread::{Doing, Thread};
use super::world::World;
use curtail_alloc::{CoreId, HandOver, Holding, KthreadId, Nanos, Order};

impl World<'_> {
    /// Carries out all orders of now.
    pub(super) fn drain(&mut self) {
        while let Some(order) = self.allocator.poll_order(Nanos(self.now)) {
            self.carry_out(order);
        }
    }

    fn carry_out(&mut self, order: Order) {
        let now = self.now;
        match order {
            Order::Grant { kthread, by, repin, .. } => self.grant(kthread, by, repin),
            Order::Wake { kthread } => {
                let Some((at, me)) = self.find(kthread) else { return };
                let by = now + self.costs.kernel;
                self.come(at, me, by);
            }
            Order::Signal { kthread } => {
                let Some((at, me)) = self.find(kthread) else { return };
                let by = now + self.costs.signal;
                let stop = &mut self.programs[at].kthreads[me].stop;
                *stop = stop.map(|stop| stop.min(by));
                self.schedule(at, me);
            }
            Order::MoveToShared { kthread } => {
                let Some((at, me)) = self.find(kthread) else { return };
                self.stop(at, me);
            }
            Order::Revoke { kthread } => {
                let Some((at, me)) = self.find(kthread) else { return };
                self.leave(at, me);
            }
            // Batch is what is left, wherever it is.
            Order::Place { .. } => {}
        }
    }

    fn grant(&mut self, id: KthreadId, by: HandOver, repin: bool) {
        let (now, costs) = (self.now, self.costs);
        let Some((at, me)) = self.find(id) else { return };
        let program = &mut self.programs[at];
        program.served.grants += 1;
        let kthread = &mut program.kthreads[me];
        kthread.inbox.extend(program.sockets.drain(..));
        // It was on its way to a core that was taken from it meanwhile.
        if let Doing::Coming { .. } = kthread.doing {
            program.served.allocated_ns += now - kthread.since;
        }
        debug_assert!(kthread.current.is_none(), "{id} serves, and is granted a core");
        kthread.stop = None;
        kthread.acknowledged = false;
        kthread.bind = if repin { costs.repin } else { 0 };
        let after = match by {
            HandOver::Line => costs.line,
            HandOver::Kernel if self.batch == Batch::None => costs.idle,
            HandOver::Kernel => costs.kernel,
            HandOver::Evict(victim) => {
                kthread.doing = Doing::Waiting;
                return self.evict(victim);
            }
        };
        kthread.since = now;
        kthread.doing = Doing::Coming { at: now + after + kthread.bind };
        self.schedule(at, me);
    }

    fn evict(&mut self, victim: KthreadId) {
        let (now, notice) = (self.now, self.costs.notice);
        let Some((at, me)) = self.find(victim) else { return };
        let program = &mut self.programs[at];
        let kthread = &mut program.kthreads[me];
        if kthread.stop.is_none() {
            program.served.evictions += 1;
        }
        kthread.acknowledged = false;
        // One that searches sees its word at once.
        let waits = matches!(kthread.doing, Doing::Serving { .. });
        kthread.stop = Some(if waits { now + notice } else { now });
        self.schedule(at, me);
    }

    /// A victim stops: it parks as it was told, and wakes its heir.
    pub(super) fn stop(&mut self, at: usize, me: usize) {
        let now = self.now;
        let kthread = &mut self.programs[at].kthreads[me];
        if let (Some(thread), Doing::Serving { until }) = (kthread.current.take(), kthread.doing) {
            let left = until - now;
            kthread.push_first(Thread { left, since: now, ..thread });
        }
        self.leave(at, me);
    }

    /// The kthread sleeps; its heir, if it has one, comes.
    pub(super) fn leave(&mut self, at: usize, me: usize) {
        let now = self.now;
        let program = &mut self.programs[at];
        let id = KthreadId { program: program.id, index: me as u32 };
        let kthread = &mut program.kthreads[me];
        if !matches!(kthread.doing, Doing::Waiting | Doing::Parked) {
            program.served.allocated_ns += now - kthread.since;
        }
        debug_assert!(kthread.current.is_none(), "a thread is lost");
        kthread.stop = None;
        kthread.acknowledged = true;
        kthread.doing = Doing::Parked;
        self.schedule(at, me);
        if let Some(heir) = self.heir_of(id)
            && let Some((at, me)) = self.find(heir)
        {
            let kthread = &self.programs[at].kthreads[me];
            let rest = self.costs.evict.saturating_sub(self.costs.notice) + kthread.bind;
            self.come(at, me, now + rest);
        }
        self.rouse(at);
    }

    fn heir_of(&self, victim: KthreadId) -> Option<KthreadId> {
        let cores = (0..self.allocator.machine_cores() as u32).map(CoreId);
        let heirs = cores.map(|core| match self.allocator.holding(core) {
            Holding::Leaving(leaver, heir) if leaver == victim => heir,
            _ => None,
        });
        { heirs }.flatten().next()
    }

    /// A granted kthread comes by then, if it would not come earlier.
    fn come(&mut self, at: usize, me: usize, by: u64) {
        let kthread = &mut self.programs[at].kthreads[me];
        kthread.doing = match kthread.doing {
            Doing::Waiting => {
                kthread.since = self.now;
                Doing::Coming { at: by }
            }
            Doing::Coming { at } => Doing::Coming { at: at.min(by) },
            other => other,
        };
        self.schedule(at, me);
    }
}
