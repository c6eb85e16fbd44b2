//! What a type-aware policy knows of each class: its plan, and its mean service time as measured.
//!
//! A class beyond the plans is unknown. All unknown classes together are one more class, the last
//! one here, that has the default plan and that every policy serves after the others (Perséphone
//! §4.2).

use crate::{ClassId, ClassPlan, Nanos, Spec};

/// A mean that follows changes: the plain one of the first samples, then a moving average in which
/// each new one counts for 1/64 (a profile that is updated with each completion, Perséphone §4.3.3).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    value: f64,
    samples: u32,
}

impl Mean {
    const WINDOW: u32 = 64;

    pub(crate) fn record(&mut self, sample: Nanos) {
        self.samples = (self.samples + 1).min(Self::WINDOW);
        self.value += (sample.0 as f64 - self.value) / f64::from(self.samples);
    }

    /// `None`: nothing measured yet.
    pub(crate) fn get(&self) -> Option<Nanos> {
        (self.samples > 0).then_some(Nanos(self.value as u64))
    }
}

struct Class {
    plan: ClassPlan,
    mean: Mean,
}

/// All classes; see the module's head.
pub(crate) struct Classes(Vec<Class>);

impl Classes {
    pub(crate) fn new(spec: &Spec) -> Self {
        let plans = (0..spec.class_count()).map(|class| spec.plan(class));
        let class = |plan| Class { plan, mean: Mean::default() };
        Self(plans.chain([ClassPlan::default()]).map(class).collect())
    }

    /// How many are known; also the index of what is not.
    pub(crate) fn known(&self) -> usize {
        self.0.len() - 1
    }

    /// All known ones and the unknown one.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn index(&self, class: ClassId) -> usize {
        usize::from(class.0).min(self.known())
    }

    pub(crate) fn is_known(&self, class: usize) -> bool {
        class < self.known()
    }

    pub(crate) fn plan(&self, class: usize) -> &ClassPlan {
        &self.0[class].plan
    }

    /// A job of the class has left after so much service.
    pub(crate) fn completed(&mut self, class: usize, attained: Nanos) {
        self.0[class].mean.record(attained);
    }

    /// The class's mean service time: as planned, or as measured, or nothing known yet.
    pub(crate) fn service(&self, class: usize) -> Option<Nanos> {
        let class = &self.0[class];
        class.plan.service.or_else(|| class.mean.get())
    }

    /// The sojourn time aimed at for the class. Where it is not planned and nothing is known of the
    /// service time either it is zero, so that the class is served soon and becomes known.
    pub(crate) fn deadline(&self, class: usize) -> Nanos {
        let factor = u64::from(ClassPlan::DEADLINE_FACTOR);
        let derived = || self.service(class).map(|mean| Nanos(mean.0.saturating_mul(factor)));
        self.plan(class).deadline.or_else(derived).unwrap_or(Nanos::ZERO)
    }
}
