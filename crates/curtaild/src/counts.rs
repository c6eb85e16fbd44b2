//! What the daemon has done so far.

use serde_json::{Value, json};

/// Since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Rounds in which it looked at all programs.
    pub(crate) looks: u64,
    /// Times it slept because no program had work.
    pub(crate) sleeps: u64,
    /// Cores granted: for the thread on the core to hand over, by the kernel, from another program.
    pub(crate) by_line: u64,
    pub(crate) by_kernel: u64,
    pub(crate) by_eviction: u64,
    /// Kthreads woken by a system call since the hand-over was late.
    pub(crate) wakes: u64,
    /// Evictions for which it raised what the victim's safepoints poll.
    pub(crate) raised: u64,
    /// The further rungs of the ladder of an eviction.
    pub(crate) signals: u64,
    pub(crate) moves: u64,
    /// Grants that were taken back or could not be carried out.
    pub(crate) revoked: u64,
    pub(crate) refused: u64,
    /// Grants to a program without a running kthread, since packets had come for it.
    pub(crate) packets: u64,
    pub(crate) registered: u64,
    pub(crate) turned_away: u64,
    pub(crate) left: u64,
    pub(crate) died: u64,
    pub(crate) demoted: u64,
}

impl Counts {
    pub(crate) fn grants(&self) -> u64 {
        self.by_line + self.by_kernel + self.by_eviction
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "looks": self.looks, "sleeps": self.sleeps,
            "grants": self.grants(), "by_line": self.by_line, "by_kernel": self.by_kernel,
            "by_eviction": self.by_eviction, "raised": self.raised, "wakes": self.wakes,
            "signals": self.signals, "moves": self.moves, "revoked": self.revoked, "refused": self.refused,
            "packets": self.packets, "registered": self.registered,
            "turned_away": self.turned_away, "left": self.left, "died": self.died,
            "demoted": self.demoted,
        })
    }

    /// One line for people.
    pub(crate) fn to_line(&self) -> String {
        format!(
            "{} grants ({} by the core's line, {} by the kernel, {} by eviction), {} late, \
             {} signals, {} moved, {} taken back",
            self.grants(),
            self.by_line,
            self.by_kernel,
            self.by_eviction,
            self.wakes,
            self.signals,
            self.moves,
            self.revoked
        )
    }
}
