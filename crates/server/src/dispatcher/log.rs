//! What the policy decides for itself, told in the log, at level INFO, when that is another thing than
//! before; and what was lost ([`crate::losses`]).
//!
//! The dispatcher's alone. It makes no text where no subscriber takes that level.

use super::Dispatcher;
use tracing::{Level, enabled, info};

/// The target of what is logged here.
const LOG: &str = "curtail::dispatcher::log_decisions";

impl Dispatcher {
    /// Tells what was lost, and what the policy has decided, where that is something new.
    #[cold]
    pub(super) fn log(&mut self) {
        self.base.log_losses(self.base.entry.malformed);
        let revision = self.sched.policy().revision();
        if revision == self.logged || !enabled!(target: LOG, Level::INFO) {
            return;
        }
        self.logged = revision;
        if let Some(decided) = self.decided() {
            info!(target: LOG, policy = %self.sched.setup().spec.name, "{decided}");
            // That took a while, but it was not the machine that took it.
            self.base.restart_turn();
        }
    }
}
