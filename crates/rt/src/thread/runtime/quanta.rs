//! How a runtime's threads are pre-empted, by its settings and by how the program was built.

use super::{LOG, RuntimeBuilder};
use crate::clock::Clock;
use crate::thread::kthread::Quanta;
use curtail_fiber::Locals;
use curtail_fiber::safepoint::{Kind, Mode, kind};
use std::time::Duration;

impl RuntimeBuilder {
    /// Signals end the quanta, in a program without safepoints. The caller has said where threads may be
    /// interrupted ([`curtail_signal::allow`]).
    #[doc(hidden)]
    pub fn preempt_by_signal(mut self, quantum: Duration) -> Self {
        self.by_signal = Some(quantum);
        self
    }

    pub(super) fn quanta(&self) -> Option<Quanta> {
        if let Some(quantum) = self.by_signal {
            let cycles = Clock::get().cycles(quantum.as_nanos() as u64);
            return Some(Quanta::of_all(Mode::Signal, cycles, true));
        }
        let all = self.class_quanta.iter().filter_map(|(_, quantum)| *quantum).chain(self.quantum);
        let least = all.min()?;
        assert!(!least.is_zero(), "a quantum of zero");
        if kind() != Kind::Clock {
            crate::unarmed::say_once(true, kind());
            if self.is_quantum_asked {
                tracing::warn!(
                    target: LOG,
                    "no pre-emption: this program has no safepoints that time themselves"
                );
            }
            return None;
        }
        if self.tasks.locals == Locals::Own
            && let Err(reason) = crate::own_thread_locals()
        {
            tracing::warn!(
                target: LOG, reason, "no pre-emption: threads have no thread-locals of their own"
            );
            return None;
        }
        let cycles = |quantum: Duration| Clock::get().cycles(quantum.as_nanos() as u64);
        let classes = self.class_quanta.iter().map(|&(class, own)| (class, own.map(cycles)));
        let quanta = Quanta::of_all(Mode::Clock, 0, false).with_classes(classes);
        quanta.set(self.quantum.map(cycles), cycles(least));
        Some(quanta)
    }
}
