//! What happens to those that are late. A kthread that is granted a core and does not come is woken by
//! the kernel, then loses the grant. One that is to leave and does not is signalled, then moved to the
//! shared core, and its heir is woken.

use crate::state::{Rung, State};
use crate::{Allocator, CoreId, KthreadId, Nanos, Order};

impl Allocator {
    /// Everything whose deadline is past goes up a rung.
    pub(crate) fn climb(&mut self, now: Nanos) {
        if now < self.deadline {
            return;
        }
        self.deadline = Nanos::MAX;
        let mut freed = false;
        for core in (0..self.tables.cores.len() as u32).map(CoreId) {
            // An heir has no deadline while its victim has one.
            if let Some(holder) = self.tables.cores[core.index()].holder {
                freed |= self.climb_one(now, holder);
            }
        }
        if freed {
            self.serve(now);
        }
    }

    /// True: it has lost its core.
    fn climb_one(&mut self, now: Nanos, id: KthreadId) -> bool {
        let (grace, give_up, rest) =
            (self.settings.grace, self.settings.give_up, self.settings.rest);
        let Some(kthread) = self.tables.kthread_mut(id) else { return false };
        let (State::Granted { deadline, .. } | State::Evicted { deadline, .. }) = kthread.state
        else {
            return false;
        };
        if now < deadline {
            self.deadline = self.deadline.min(deadline);
            return false;
        }
        match &mut kthread.state {
            State::Granted { rung: rung @ Rung::Word, deadline, .. } => {
                (*rung, *deadline) = (Rung::Call, now.plus(give_up));
                self.deadline = self.deadline.min(*deadline);
                self.order(Order::Wake { kthread: id });
                false
            }
            State::Granted { .. } => {
                kthread.not_before = now.plus(rest);
                self.order(Order::Revoke { kthread: id });
                self.leave(now, id, true);
                true
            }
            State::Evicted { rung: rung @ Rung::Word, deadline, .. } => {
                (*rung, *deadline) = (Rung::Call, now.plus(grace));
                self.deadline = self.deadline.min(*deadline);
                self.order(Order::Signal { kthread: id });
                false
            }
            _ => {
                self.order(Order::MoveToShared { kthread: id });
                self.leave(now, id, true);
                let kthread = self.tables.kthread_mut(id).expect("looked up above");
                (kthread.state, kthread.bound) = (State::Shared, None);
                true
            }
        }
    }
}
