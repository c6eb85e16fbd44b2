//! Fixed priority: the class of the lowest priority number first, in the order of arrival within a
//! class and among classes of equal priority; unknown classes last. Optionally pre-emptive. Starves
//! low priorities under load, by design (Perséphone, Table 5). The rank costs O(1), so that a
//! decision is [`super::Ranked`]'s: O(log jobs + log workers).

use super::Rank;
use crate::classes::Classes;
use crate::{Job, Spec};

/// The rank of fixed priorities.
pub struct FixedPriority;

impl Rank for FixedPriority {
    fn new(_spec: &Spec, _workers: usize) -> Self {
        Self
    }

    fn rank(&self, classes: &Classes, job: &Job) -> u64 {
        let class = classes.index(job.class);
        if !classes.is_known(class) {
            return u64::MAX;
        }
        classes.plan(class).priority.map_or(class as u64, u64::from)
    }
}
