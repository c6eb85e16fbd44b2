//! Shortest job first, to completion (Perséphone, Table 5): by the job's hint, else its class's
//! planned mean service time, else the measured one. A class of which nothing is known yet goes
//! first, so that it becomes known; a job of an unknown class without a hint goes last. The rank
//! costs O(1), so that a decision is [`super::Ranked`]'s: O(log jobs + log workers).

use super::Rank;
use super::rank::expected;
use crate::classes::Classes;
use crate::{Job, Spec};

/// The rank of shortest job first.
pub struct ShortestJob;

impl Rank for ShortestJob {
    fn new(_spec: &Spec, _workers: usize) -> Self {
        Self
    }

    fn rank(&self, classes: &Classes, job: &Job) -> u64 {
        expected(classes, job).0
    }
}
