//! What the policy decides for itself, told in the log, at level INFO, when that is another thing than
//! before; and what was lost ([`crate::losses`]).
//!
//! The dispatcher's alone. It looks once a second, and makes no text where no subscriber takes that
//! level.

use super::Dispatcher;
use curtail_rt::clock;
use tracing::{Level, enabled, info};

/// The target of what is logged here.
const LOG: &str = "curtail::dispatcher::log_decisions";

/// From one look to the next.
const PAUSE_NS: u64 = 1_000_000_000;

/// What was told of the policy in force.
#[derive(Default)]
pub(super) struct DecisionLog {
    /// How often it had changed its mind; `None`: nothing was told.
    revision: Option<u64>,
    /// When to look again (TSC).
    next: u64,
}

impl Dispatcher {
    /// Tells what the policy has decided, where it is time for that and it is something new.
    pub(super) fn log_decisions(&mut self, now: u64) {
        if now >= self.decision_log.next {
            self.log_changes(now);
        }
    }

    #[cold]
    fn log_changes(&mut self, now: u64) {
        self.decision_log.next = now + self.config.shared.clock.cycles(PAUSE_NS);
        let malformed = ("malformed", self.gap_counters.malformed);
        let counts = self.transports().into_iter().chain([malformed]).collect();
        self.losses.tell(counts);
        let revision = self.sched.policy().revision();
        if revision == self.decision_log.revision || !enabled!(target: LOG, Level::INFO) {
            return;
        }
        self.decision_log.revision = revision;
        if let Some(decided) = self.decided() {
            info!(target: LOG, policy = %self.sched.setup().spec.name, "{decided}");
            // That took a while, but it was not the machine that took it.
            self.turn = clock::now();
        }
    }
}
