//! Attacks on `curtail serve --app spin` from outside, with a well-behaved client beside them.
//!
//! * `server`: the process that is attacked: its start, its memory, its end;
//! * `client`: the well-behaved client, whose answers must all be right;
//! * `attacks`: what is done to the server;
//! * `campaign`: one attack under one policy, from the start of the server to its end.
#![forbid(unsafe_code)]

mod attacks;
mod campaign;
mod client;
mod server;

pub use attacks::Attack;
pub use campaign::{Options, attack};

use curtail_report::Machine;
use serde::{Deserialize, Serialize};

/// `attack.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attacks {
    /// One for each attack and policy.
    pub attacks: Vec<Figure>,
    /// Where it was measured.
    pub machine: Machine,
}

/// What came of one attack under one policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Which attack.
    pub attack: String,
    /// Under which policy.
    pub policy: String,
    /// How large it was: datagrams, connections or frames.
    pub size: usize,
    /// How long it took.
    pub seconds: f64,
    /// Right answers that the well-behaved client got, over TCP and UDP.
    pub answers: u64,
    /// Answers that were wrong, and requests over TCP that were not answered.
    pub wrong: u64,
    /// Requests that the server said it had no room for.
    pub refused: u64,
    /// Datagrams of the well-behaved client that were never answered. It asks again.
    pub lost: u64,
    /// Datagrams that the kernel had no room for, all clients' together.
    pub kernel_dropped: u64,
    /// The longest wait for an answer over TCP, in ms.
    pub worst_tcp_ms: f64,
    /// The longest from a datagram that was answered to its answer, in ms.
    pub worst_udp_ms: f64,
    /// The longest from a request's first datagram to its answer, in ms: with those that were lost.
    pub worst_asked_again_ms: f64,
    /// Memory in RAM before the attack, in MiB.
    pub before_mib: f64,
    /// The most memory in RAM during the attack, in MiB.
    pub peak_mib: f64,
    /// Memory in RAM after the attack, in MiB.
    pub after_mib: f64,
    /// How long it took after the attack until the memory was within a tenth of what it was; none: it
    /// never was.
    pub back_ms: Option<f64>,
    /// How the server ended, where that was not as it should be.
    pub trouble: Option<String>,
}

impl Figure {
    /// Whether the client was served and the server ended as it should.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.wrong == 0 && self.answers > 0 && self.trouble.is_none()
    }
}

/// For people.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let mut text = format!(
        "{:<14}{:<14}{:>9}{:>9}{:>6}{:>8}{:>6}{:>9}{:>9}{:>9}{:>24}  {}\n",
        "attack",
        "policy",
        "size",
        "answers",
        "wrong",
        "refused",
        "lost",
        "tcp ms",
        "udp ms",
        "again ms",
        "before/peak/after MiB",
        "back"
    );
    for figure in figures {
        let memory =
            format!("{:.1}/{:.1}/{:.1}", figure.before_mib, figure.peak_mib, figure.after_mib);
        let back = match (&figure.trouble, figure.back_ms) {
            (Some(trouble), _) => trouble.clone(),
            (None, Some(ms)) => format!("{ms:.0} ms"),
            (None, None) => "no".to_owned(),
        };
        text += &format!(
            "{:<14}{:<14}{:>9}{:>9}{:>6}{:>8}{:>6}{:>9.1}{:>9.1}{:>9.1}{memory:>24}  {back}\n",
            figure.attack,
            figure.policy,
            figure.size,
            figure.answers,
            figure.wrong,
            figure.refused,
            figure.lost,
            figure.worst_tcp_ms,
            figure.worst_udp_ms,
            figure.worst_asked_again_ms,
        );
    }
    text
}
