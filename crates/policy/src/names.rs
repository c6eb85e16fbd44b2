//! The parts that a policy is put together from, under the names that options and files use.

use std::fmt;
use std::str::FromStr;

/// A name that is none of the known ones.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// What was to be named.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// What would do.
    pub known: Vec<&'static str>,
}

/// A policy name that is not in the [`catalogue`](crate::catalogue).
pub type UnknownPolicy = UnknownName;

impl UnknownName {
    /// The known name that the given one is most likely a slip for, if any is close.
    #[must_use]
    pub fn nearest(&self) -> Option<&'static str> {
        let distance = |name: &&str| edit_distance(&self.given.to_ascii_lowercase(), name);
        let nearest = self.known.iter().copied().min_by_key(distance)?;
        (distance(&nearest) <= 1 + self.given.len() / 3).then_some(nearest)
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`", self.what, self.given)?;
        if let Some(nearest) = self.nearest() {
            write!(f, ": did you mean `{nearest}`?")?;
        }
        write!(f, " (known: {})", self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// What `main` prints of an error that it returns.
impl fmt::Debug for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many letters must be put in, taken out or replaced to get from `a` to `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

/// An enum whose variants have names: `ALL`, `name`, `Display` and `FromStr`.
macro_rules! named {
    ($(#[$doc:meta])* $ty:ident, $what:literal: $($(#[$vdoc:meta])* $variant:ident = $name:literal,)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $ty { $($(#[$vdoc])* $variant,)+ }

        impl $ty {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Its name in options and files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $ty {
            type Err = UnknownName;
            fn from_str(given: &str) -> Result<Self, UnknownName> {
                Self::ALL.iter().copied().find(|it| it.name() == given).ok_or_else(|| UnknownName {
                    what: $what,
                    given: given.to_owned(),
                    known: Self::ALL.iter().map(|it| it.name()).collect(),
                })
            }
        }
    };
}

named! {
    /// Which job gets which worker: what the dispatcher does.
    Dispatch, "dispatch policy":
    /// One queue; jobs run to completion in the order of arrival.
    CentralFcfs = "central-fcfs",
    /// One queue; jobs run for a quantum each and come back to its tail.
    CentralPs = "central-ps",
    /// Each job to any worker, all equally likely, as receive-side scaling spreads flows.
    Random = "random",
    /// Each job to the next worker in turn.
    RoundRobin = "round-robin",
    /// Each job to a worker with the fewest unfinished ones, see [`Ties`].
    Jsq = "jsq",
    /// A queue for each worker, filled at random; an idle worker takes from the others.
    Steal = "steal",
    /// There is no dispatcher: requests come to kthreads, which schedule and steal by themselves.
    Kthreads = "kthreads",
    /// The class of the highest priority first.
    FixedPriority = "fixed-priority",
    /// The shortest expected service time first, to completion.
    Sjf = "sjf",
    /// The shortest expected remaining service time first.
    Srpt = "srpt",
    /// The earliest deadline first.
    Edf = "edf",
    /// Classes in turn, as many jobs each as its weight.
    Wrr = "wrr",
    /// Classes in turn, as much service each as its weight.
    Drr = "drr",
    /// The class whose oldest job has waited longest, measured by its objective; a quantum each.
    MultiQueue = "multi-queue",
    /// Each class its own workers.
    StaticPartition = "static-partition",
    /// Each class its share of the workers, and those of longer classes while they are idle.
    Cscq = "cscq",
    /// Workers reserved for classes by their measured demand; short ones may use those of long ones.
    Darc = "darc",
    /// A given number of workers reserved for the shortest class.
    DarcStatic = "darc-static",
    /// As a program's own [`Policy`](crate::Policy) says, see [`Spec::own`](crate::Spec::own).
    Own = "own",
    /// The earliest deadline first, by what is measured.
    Auto = "auto",
}

impl Dispatch {
    /// Jobs are queued at the dispatcher, which gets pre-empted ones back. Otherwise a job is sent
    /// once, and its worker schedules it to the end.
    #[must_use]
    pub const fn is_central(self) -> bool {
        !matches!(self, Self::Random | Self::RoundRobin | Self::Jsq | Self::Kthreads)
    }

    /// There is no dispatcher: no [`Policy`](crate::Policy), but a [`Thief`](crate::Thief) for each
    /// worker.
    #[must_use]
    pub const fn is_dispatcherless(self) -> bool {
        matches!(self, Self::Kthreads)
    }

    /// Whether it looks at [`Job::hint`](crate::Job::hint).
    #[must_use]
    pub const fn uses_hints(self) -> bool {
        matches!(self, Self::Sjf | Self::Srpt | Self::Own)
    }

    /// Whether jobs are made to yield while others wait: always, never, or (`None`) as
    /// [`Spec::preemptive`](crate::Spec::preemptive) says. Of a two-level policy, at the dispatcher:
    /// never.
    #[must_use]
    pub const fn may_preempt(self) -> Option<bool> {
        match self {
            Self::CentralPs | Self::MultiQueue => Some(true),
            Self::CentralFcfs | Self::Steal | Self::Sjf => Some(false),
            Self::Random | Self::RoundRobin | Self::Jsq | Self::Kthreads => Some(false),
            _ => None,
        }
    }
}

named! {
    /// Whom an idle worker steals from, of those for which jobs wait.
    Victim, "choice of a victim":
    /// Any, all equally likely (Shenango §5, ZygOS).
    Random = "random",
    /// The one for which most wait; then the lowest number.
    Longest = "longest",
    /// The one for which a job has waited longest; then the lowest number.
    Oldest = "oldest",
}

named! {
    /// Which of the workers with the fewest unfinished jobs gets the next one. Unfinished are all
    /// that were sent there and have not completed: the running one and blocked ones too.
    Ties, "tie-breaking rule":
    /// The one whose unfinished jobs have had the most quanta, as it probably has the least work
    /// left; then the lowest number (Tiny Quanta §3.2).
    Msq = "msq",
    /// Any, all equally likely: JSQ-PS with random tie-breaking, as in Tiny Quanta's Figure 4. (The
    /// paper's TQ-RAND, §5.4, is something else: plain random dispatch. That is `dfcfs` with
    /// [`CoreKind::Ps`].)
    Random = "random",
    /// Not among all: the better of two distinct workers drawn at random, of equals the one drawn
    /// first (TQ-POWER-TWO, §5.4).
    PowerOfTwo = "power-of-two",
}

named! {
    /// What a worker does with the jobs that were sent to it.
    CoreKind, "core policy":
    /// In the order of readiness, to completion. The only one under a central policy, where the
    /// dispatcher says how long a job may run.
    Fcfs = "fcfs",
    /// A quantum each in turn.
    Ps = "ps",
    /// A quantum for the job that has run least so far.
    Las = "las",
}

named! {
    /// How a job is made to give up its core.
    PreemptKind, "kind of pre-emption":
    /// Not at all.
    Never = "never",
    /// The dispatcher writes the worker's poll word when a quantum has ended (Concord §3.1).
    Flag = "flag",
    /// Safepoints time themselves (Tiny Quanta §3.1).
    Clock = "clock",
    /// A signal interrupts the worker's thread, also where there are no safepoints.
    Signal = "signal",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let pairs = [
            ("", "", 0),
            ("tq", "", 2),
            ("ps", "pS", 1),
            ("kitten", "sitting", 3),
            ("ab", "ba", 2),
        ];
        for (a, b, distance) in pairs {
            assert_eq!((edit_distance(a, b), edit_distance(b, a)), (distance, distance), "{a} {b}");
        }
    }

    #[test]
    fn names_round_trip() {
        for &ties in Ties::ALL {
            assert_eq!(ties.to_string().parse(), Ok(ties));
        }
        let error = "power-of-2".parse::<Ties>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown tie-breaking rule `power-of-2`: did you mean `power-of-two`? \
             (known: msq, random, power-of-two)"
        );
        let error = "edf".parse::<CoreKind>().unwrap_err();
        assert_eq!(error.to_string(), "unknown core policy `edf` (known: fcfs, ps, las)");
    }
}
