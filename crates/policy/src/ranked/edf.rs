//! Earliest deadline first (Liu and Layland, 1973; Perséphone, Table 5): a job is due its class's
//! relative deadline after its arrival; without one, ten mean service times of its class, as
//! measured when the job is queued. Unknown classes have no deadline and come last. Optionally
//! pre-emptive. The rank costs O(1), so that a decision is [`super::Ranked`]'s: O(log jobs + log
//! workers).

use super::Rank;
use crate::classes::Classes;
use crate::{Job, Spec};

/// The rank of earliest deadline first.
pub struct EarliestDeadline;

impl Rank for EarliestDeadline {
    fn new(_spec: &Spec, _workers: usize) -> Self {
        Self
    }

    fn rank(&self, classes: &Classes, job: &Job) -> u64 {
        let class = classes.index(job.class);
        if !classes.is_known(class) {
            return u64::MAX;
        }
        (job.arrived + classes.deadline(class)).0
    }
}
