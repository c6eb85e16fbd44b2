//! Earliest deadline first (Liu and Layland, 1973; Perséphone, Table 5): a job is due its class's
//! relative deadline after its arrival; without one, ten mean service times of its class, as
//! measured when the job is queued. Unknown classes have no deadline and come last. Optionally
//! pre-emptive.

use super::Rank;
use crate::classes::Classes;
use crate::{Job, Nanos};

/// See the module's head.
pub struct EarliestDeadline;

impl Rank for EarliestDeadline {
    fn rank(classes: &Classes, job: &Job) -> u64 {
        let class = classes.index(job.class);
        if !classes.is_known(class) {
            return u64::MAX;
        }
        (job.arrived + classes.deadline(class)).0
    }

    fn lasting(rank: u64, _now: Nanos) -> u64 {
        rank
    }

    fn standing(lasting: u64, _attained: Nanos, _now: Nanos) -> u64 {
        lasting
    }
}
