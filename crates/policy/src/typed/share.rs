//! Workers divided among classes by weight: each class in turn gets one more as long as there are
//! any, the next one always to the class with the highest weight for what it has (Webster's method),
//! and every class at least one. More classes than workers share: neighbours have one together.

use crate::Spec;

/// Which of the groups of workers each class has, and how many workers each group has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// By class.
    pub(crate) group_of: Vec<usize>,
    /// By group; none is empty.
    pub(crate) sizes: Vec<usize>,
}

impl Shares {
    /// Of so many workers. Without plans there is one class.
    pub(crate) fn of(spec: &Spec, workers: usize) -> Self {
        if spec.classes.is_empty() {
            return Self { group_of: vec![0; spec.class_count()], sizes: vec![workers] };
        }
        let weights: Vec<u64> = spec.classes.iter().map(|plan| u64::from(plan.weight)).collect();
        let classes = weights.len();
        if classes > workers {
            let group_of = (0..classes).map(|class| class * workers / classes).collect();
            return Self { group_of, sizes: vec![1; workers] };
        }
        let mut sizes = vec![1; classes];
        for _ in classes..workers {
            // weight / (2 size + 1), compared without division; the first of equals.
            let deserves = |&a: &usize, &b: &usize| {
                let [left, right] = [(a, b), (b, a)]
                    .map(|(one, other)| u128::from(weights[one]) * (2 * sizes[other] as u128 + 1));
                left.cmp(&right).then(b.cmp(&a))
            };
            let next = (0..classes).max_by(deserves).unwrap_or(0);
            sizes[next] += 1;
        }
        Self { group_of: (0..classes).collect(), sizes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(weights: &[u32], workers: usize) -> Shares {
        let mut spec = Spec::preset("fcfs").expect("it is in the catalogue");
        for (class, &weight) in weights.iter().enumerate() {
            spec.plan_mut(class).weight = weight;
        }
        Shares::of(&spec, workers)
    }

    #[test]
    fn follow_the_weights_and_leave_nobody_out() {
        let sizes = |weights: &[u32], workers| shares(weights, workers).sizes;
        assert_eq!(sizes(&[1, 1], 4), [2, 2]);
        assert_eq!(sizes(&[1, 1], 5), [3, 2]);
        assert_eq!(sizes(&[3, 1], 8), [6, 2]);
        assert_eq!(sizes(&[1000, 1], 4), [3, 1]);
        assert_eq!(sizes(&[1, 2, 3], 3), [1, 1, 1]);
        assert_eq!(sizes(&[], 7), [7]);
    }

    #[test]
    fn neighbours_share_where_workers_are_few() {
        let shares = shares(&[1, 1, 1, 1, 1], 2);
        assert_eq!((shares.group_of, shares.sizes), (vec![0, 0, 0, 1, 1], vec![1, 1]));
    }
}
