//! What says of which class a request is, and whether policies know the classes from the start.

use curtail_policy::{Nanos, Spec};
use curtail_workload::{Mix, Request, numbers};
use std::fmt;
use std::str::FromStr;

/// What says of which class a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Classifier {
    /// The application.
    #[default]
    Own,
    /// Any class, all equally likely, whatever the request is (Perséphone §5.6).
    Random,
}

impl Classifier {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Own, Self::Random];

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Random => "random",
        }
    }
}

impl fmt::Display for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Classifier {
    type Err = String;
    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|it| it.name() == given).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown classifier `{given}` (known: {known})")
        })
    }
}

/// Any of `classes` classes, all equally likely. The same seed gives the same ones.
pub fn any_class(classes: usize, seed: u64) -> impl FnMut() -> u16 + Send {
    let mut random = numbers(seed);
    move || ((u128::from(random()) * classes as u128) >> 64) as u16
}

/// Requests as `who` classifies them. The class that a simulated request is counted for is that one.
pub fn reclassified(
    requests: impl Iterator<Item = Request>,
    who: Classifier,
    classes: usize,
    seed: u64,
) -> impl Iterator<Item = Request> {
    let mut draw = any_class(classes, seed);
    requests.map(move |request| match who {
        Classifier::Own => request,
        Classifier::Random => Request { class: draw(), ..request },
    })
}

/// The policy, told of the workload: mean service times and shares of all classes.
#[must_use]
pub fn informed(mut spec: Spec, mix: &Mix) -> Spec {
    for (index, class) in mix.classes().iter().enumerate().take(Spec::MAX_CLASSES) {
        let plan = spec.plan_mut(index);
        plan.service = Some(Nanos(class.service.mean_ns().round() as u64));
        plan.occurrence = Some((mix.fraction(index) * 1e6).round() as u32);
    }
    spec
}
