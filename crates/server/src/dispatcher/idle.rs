//! What the dispatcher does when it has nothing to do.

use super::{Dispatcher, Elastic};
use curtail_policy::Nanos;
use curtail_rt::clock;
use curtail_rt::thread::KThread;
use std::time::Duration;

/// The target of what is logged here.
const LOG: &str = "curtail::dispatcher::idle";

impl Dispatcher {
    /// Nothing to do.
    pub(super) fn idle(&mut self) {
        if !self.config.busy {
            self.sleep();
        } else if self.config.shares_core {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
            return;
        }
        self.turn = clock::now();
    }

    /// Sleeps until a transport has something, a worker reports, a command comes, or the scheduler
    /// wants to be asked. While central jobs wait for a worker to report, and where that time comes
    /// soon, it stays awake between yields to others, unless these take long.
    fn sleep(&mut self) {
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
            return;
        }
        let elastic = self.config.elastic.as_ref();
        let pauses = elastic.filter(|it| it.pauses() && self.in_system() == 0);
        let soon = soon || elastic.is_some_and(Elastic::is_linked) && pauses.is_none();
        let (pauses, down) = (pauses.map(Elastic::place), &self.down);
        let timeout = if soon { timeout.min(SHORT) } else { timeout };
        let remote = self.config.own_remote.clone();
        let (own, asker) = (self.config.own, &self.asker);
        let (workers, lines) = (&mut self.config.workers, &mut self.config.lines);
        let (control, waiter) = (&self.config.control, &mut self.config.waiter);
        let work = || {
            elastic.is_some_and(|it| it.has_news(workers, down))
                || control.has_mail()
                || asker.has_ready()
                || KThread::here().has_threads()
                || workers.iter_mut().any(|worker| !worker.events.is_empty())
                // SAFETY: this thread's engine, which runs nothing now.
                || unsafe { (*own).has_mail() }
                // Last: from here on clients over shared memory wake it.
                || !lines.iter_mut().filter(|line| line.open).all(|line| line.transport.before_wait())
        };
        let most = KThread::here().time_left(Some(Duration::from_nanos(timeout.0)));
        remote.parker.sleep(work, || {
            let slept = match pauses {
                Some((kthread, client)) => waiter.wait_by(|| client.pause(kthread, most)),
                None => waiter.wait(most),
            };
            if let Err(error) = slept {
                tracing::warn!(target: LOG, %error, "epoll");
                std::thread::yield_now();
            }
        });
    }
}
