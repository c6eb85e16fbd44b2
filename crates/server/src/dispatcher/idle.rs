//! What the dispatcher does when it has nothing to do.

use super::{Dispatcher, Elastic};
use curtail_policy::Nanos;
use curtail_rt::clock;
use std::time::Duration;

impl Dispatcher {
    /// Sleeps until a transport has something, a worker reports, a command comes, or the scheduler
    /// wants to be asked. While central jobs wait for a worker to report, and where that time comes
    /// soon, it stays awake between yields to others, unless these take long.
    pub(super) fn sleep(&mut self) {
        const LONGEST: Nanos = Nanos::from_micros(100_000);
        const SOON: Nanos = Nanos::from_micros(50);
        // While jobs wait; a worker that reports ends the sleep.
        const SHORT: Nanos = Nanos::from_micros(1_000);
        let now = self.nanos(clock::now());
        let deadline = self.deadlines.first().map(|tsc| self.nanos(tsc));
        let next = self.sched.poll_timeout().into_iter().chain(deadline).min();
        let timeout = next.map_or(LONGEST, |at| at.since(now).min(LONGEST));
        let soon = self.sched.waiting() > 0 || timeout <= SOON;
        if soon && self.yields.pass(clock::now()).is_some() {
            self.base.restart_turn();
            return;
        }
        let elastic = self.config.elastic.as_ref();
        let pauses = elastic.filter(|it| it.pauses() && self.in_system() == 0);
        let soon = soon || elastic.is_some_and(Elastic::is_linked) && pauses.is_none();
        let (pauses, down) = (pauses.map(Elastic::place), &self.down);
        let timeout = if soon { timeout.min(SHORT) } else { timeout };
        let (own, workers) = (self.config.own, &mut self.config.workers);
        let has_work = || {
            elastic.is_some_and(|it| it.has_news(workers, down))
                || workers.iter_mut().any(|worker| !worker.events.is_empty())
                // SAFETY: this thread's engine, which runs nothing now.
                || unsafe { (*own).has_mail() }
        };
        let most = self.base.kthread.time_left(Some(Duration::from_nanos(timeout.0)));
        self.base.sleep(has_work, |waiter| match pauses {
            Some((kthread, client)) => waiter.wait_by(|| client.pause(kthread, most)),
            None => waiter.wait(most),
        });
    }
}
