//! Shortest remaining processing time (Schrage, 1968; Perséphone, Table 5): what is expected of a
//! job, as in [`super::sjf`], less what it has had. Pre-emptive: a job that arrives with less to do
//! than the running job with the most left takes its place.
//!
//! What runs gets shorter while it runs, all at the same pace, so that the expected ends keep the
//! order of the running jobs without being touched. A job that has outrun what was expected is taken
//! to be half done: its expectation was a mean, and the longer it runs, the longer it probably still
//! will.
//!
//! The rank costs O(1), so that a decision, whom to pre-empt included, is [`super::Ranked`]'s:
//! O(log jobs + log workers).

use super::Rank;
use super::rank::expected;
use crate::classes::Classes;
use crate::{Job, Nanos, Spec};

/// The rank of shortest remaining processing time.
pub struct ShortestRemaining;

impl Rank for ShortestRemaining {
    fn new(_spec: &Spec, _workers: usize) -> Self {
        Self
    }

    fn rank(&self, classes: &Classes, job: &Job) -> u64 {
        match expected(classes, job) {
            Nanos::MAX => u64::MAX,
            expected if expected > job.attained => (expected - job.attained).0,
            _ => job.attained.0,
        }
    }

    /// When it is expected to end.
    fn lasting(&self, rank: u64, now: Nanos) -> u64 {
        now.0.saturating_add(rank)
    }

    fn standing(&self, _job: &Job, lasting: u64, attained: Nanos, now: Nanos) -> u64 {
        match lasting {
            u64::MAX => u64::MAX,
            end if end > now.0 => end - now.0,
            _ => attained.0,
        }
    }
}
