//! A live switch from one policy to another, in the middle of everything.

use super::classes::Mean;
use super::{At, Machine};
use curtail_policy::*;

impl Machine {
    /// Another policy takes over, as the runtime does it.
    pub(crate) fn switch(&mut self, spec: &Spec) {
        let mut policy = spec.build(self.workers(), self.jobs.len(), 2);
        self.means = vec![Mean::default(); spec.class_count() + 1];
        (self.spec, self.quantum, self.turns) = (spec.clone(), spec.quantum, 0);
        let before: Vec<At> = self.jobs.iter().map(|record| record.at).collect();
        let moving = |at: &At| matches!(at, At::Ready(_) | At::Running(_) | At::Blocked(_));
        // One after the other, as the new policy hears of them.
        { self.jobs.iter_mut() }.filter(|r| moving(&r.at)).for_each(|r| r.at = At::Out);
        for (slot, &at) in before.iter().enumerate() {
            if let At::Ready(on) | At::Running(on) | At::Blocked(on) = at {
                self.ticket(slot);
                self.jobs[slot].told = self.jobs[slot].job.attained;
                policy.adopt(self.now, on, self.jobs[slot].job);
                self.shift(on, Some(slot));
                self.jobs[slot].at = at;
                if let At::Blocked(_) = at {
                    policy.blocked(self.now, on, JobId(slot as u32));
                    self.shift(on, None);
                }
            }
        }
        for slot in std::mem::take(&mut self.queue) {
            let evicted = self.policy.evict().expect("everything that waits is evicted");
            assert_eq!(evicted, self.jobs[slot].job, "oldest first");
            policy.inherit(self.now, evicted);
            self.ticket(slot);
            self.enqueue(slot, false);
        }
        assert_eq!(self.policy.evict(), None);
        for (worker, ready) in self.ready.iter_mut().enumerate() {
            let mut core = spec.build_core(self.jobs.len());
            ready.clear();
            while let Some((job, _)) = self.cores[worker].pick(self.now) {
                core.ready(self.now, job);
                ready.push_back(job.id.0 as usize);
            }
            self.cores[worker] = core;
        }
        self.policy = policy;
        (0..self.workers()).for_each(|worker| self.report(worker));
    }
}
