//! What is lost on the way is logged, once a second at most: datagrams and answers that were
//! too large or had no room, frames that are none, connections that were cut.
//!
//! The thread that polls the transports looks, about once a second, at what they and it count.

/// The target of what is logged here.
const LOG: &str = "curtail::losses";

/// Counts whose names contain one of these are of something lost.
const LOST: [&str; 10] = [
    "malformed",
    "dropped",
    "refused",
    "errors",
    "too_long",
    "cut",
    "unread",
    "stalled",
    "evicted",
    "starved",
];

/// What was logged so far.
#[derive(Default)]
pub(crate) struct Losses {
    told: Vec<(&'static str, u64)>,
}

impl Losses {
    /// Tells of what was lost since the last call.
    pub(crate) fn tell(&mut self, counts: Vec<(&'static str, u64)>) {
        let lost = self.since(counts);
        if !lost.is_empty() {
            let lost: Vec<_> = lost.iter().map(|(name, more)| format!("{name} {more}")).collect();
            tracing::warn!(target: LOG, "lost meanwhile: {}", lost.join(", "));
        }
    }

    fn since(&mut self, counts: Vec<(&'static str, u64)>) -> Vec<(&'static str, u64)> {
        let before = |name| {
            let told = self.told.iter().find(|(other, _)| *other == name);
            told.map_or(0, |(_, count)| *count)
        };
        let more = |&(name, count): &(&'static str, u64)| {
            let more = count.saturating_sub(before(name));
            (more > 0 && LOST.iter().any(|part| name.contains(part))).then_some((name, more))
        };
        let lost = counts.iter().filter_map(more).collect();
        self.told = counts;
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_since_is_told_once() {
        let mut losses = Losses::default();
        let counts = |cut| vec![("tcp_accepted", 9), ("tcp_cut", cut), ("malformed", 1)];
        assert_eq!(losses.since(counts(2)), [("tcp_cut", 2), ("malformed", 1)]);
        assert_eq!(losses.since(counts(2)), []);
        assert_eq!(losses.since(counts(5)), [("tcp_cut", 3)]);
    }
}
