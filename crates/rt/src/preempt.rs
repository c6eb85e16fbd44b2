//! Which pre-emption a program gets, out of what was asked for and what there is.

use curtail_fiber::safepoint::{Kind, Mode};
use curtail_policy::{Dispatch, PreemptKind, Spec};
use std::fmt;
use std::str::FromStr;

/// How a running request is made to yield.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preempt {
    /// As the policy wants it, but by the clock where safepoints can tell the time and a flag would
    /// only end quanta.
    #[default]
    Auto,
    /// Not at all: requests run to completion, unless they block or yield by themselves.
    Never,
    /// The dispatcher watches the time and writes the worker's poll word (Concord §3.1).
    Flag,
    /// Safepoints read the clock themselves (Tiny Quanta §3.1).
    Clock,
    /// A signal interrupts the worker's thread: also code without safepoints is pre-empted, anywhere
    /// between two instructions of the application's own functions ([`crate::signals`]). What it
    /// costs is the kernel's part in every quantum.
    ///
    /// It asks something of the application, which nothing checks: functions of its own keep nothing
    /// half-done in thread-local variables or statics, hold no `std::sync` lock, and are not called
    /// by initialisers (`OnceLock`, `LazyLock`) that other requests wait for, except inside
    /// [`crate::sync::no_preempt`]. The book's chapter on safety has the whole list.
    Signal,
}

impl fmt::Display for Preempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Never => "never",
            Self::Flag => "flag",
            Self::Clock => "clock",
            Self::Signal => "signal",
        })
    }
}

impl FromStr for Preempt {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "never" => Ok(Self::Never),
            "flag" => Ok(Self::Flag),
            "clock" => Ok(Self::Clock),
            "signal" => Ok(Self::Signal),
            other => Err(format!(
                "`{other}` is no kind of pre-emption: never, flag, clock, signal, auto"
            )),
        }
    }
}

/// What is done, and why it differs from what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// By what pre-emption is.
    pub effective: Preempt,
    /// Why it is another, for people.
    pub note: Option<String>,
    /// The dispatcher polls all the time, so that it can keep the workers' time.
    busy: bool,
}

impl Choice {
    /// `wished`: by the user; `spec`: the policy; `busy`: the dispatcher polls all the time, so that
    /// it can keep the workers' time.
    pub fn make(wished: Preempt, spec: &Spec, kind: Kind, busy: bool) -> Self {
        let asked = match (wished, spec.preempt) {
            (Preempt::Auto, PreemptKind::Never) => Preempt::Never,
            // A clock build looks at a flag by its slow path, which costs more than a clock does.
            (Preempt::Auto, PreemptKind::Flag) if kind == Kind::Clock && !spec.asks_midway() => {
                Preempt::Clock
            }
            (Preempt::Auto, PreemptKind::Flag) => Preempt::Flag,
            (Preempt::Auto, PreemptKind::Clock) => Preempt::Clock,
            (Preempt::Auto, PreemptKind::Signal) => Preempt::Signal,
            (wished, _) => wished,
        };
        if asked == Preempt::Signal {
            return match crate::signal::interruptible(&[]) {
                Ok(_) => Self { effective: Preempt::Signal, note: None, busy },
                Err(reason) => {
                    let note = Some(format!("pre-emption is off: {reason}"));
                    Self { effective: Preempt::Never, note, busy }
                }
            };
        }
        let (effective, note) = match (asked, kind, busy) {
            (Preempt::Never | Preempt::Auto | Preempt::Signal, _, _) => (Preempt::Never, None),
            (_, Kind::None, _) => (
                Preempt::Never,
                Some(
                    "pre-emption is off: this program is not instrumented (see cargo curtail and \
                     curtail-cc)",
                ),
            ),
            (Preempt::Flag, Kind::Flag | Kind::Clock, true) => (Preempt::Flag, None),
            (Preempt::Clock, Kind::Clock, _) => (Preempt::Clock, None),
            (Preempt::Flag, Kind::Clock, false) => (
                Preempt::Clock,
                Some("flags need a dispatcher that polls all the time; safepoints time themselves"),
            ),
            (Preempt::Clock, Kind::Flag, true) => (
                Preempt::Flag,
                Some("this program has flag safepoints, which cannot time themselves"),
            ),
            (_, Kind::Flag, false) => (
                Preempt::Never,
                Some(
                    "pre-emption is off: flag safepoints need a dispatcher that polls all the time",
                ),
            ),
        };
        Self { effective, note: note.map(str::to_owned), busy }
    }

    /// Takes work conservation out of a policy where the dispatcher could not come back in time
    /// from a request it runs: no other thread watches its clock, so its safepoints must. And
    /// `auto` must know that requests will not be pre-empted: then it reserves workers.
    pub fn limit(&self, spec: &mut Spec, kind: Kind) {
        if self.effective == Preempt::Never && spec.dispatch == Dispatch::Auto {
            spec.preempt = PreemptKind::Never;
        }
        spec.work_conserving &= self.effective != Preempt::Never && kind != Kind::None;
    }

    /// The dispatcher watches the workers' quanta. Otherwise they do, by clock or by timer.
    pub fn is_watched(&self) -> bool {
        match self.effective {
            Preempt::Flag => true,
            Preempt::Signal => self.busy,
            Preempt::Auto | Preempt::Never | Preempt::Clock => false,
        }
    }

    /// In which mode safepoints are armed.
    pub fn mode(&self) -> Mode {
        match self.effective {
            Preempt::Flag => Mode::Flag,
            Preempt::Clock => Mode::Clock,
            Preempt::Signal => Mode::Signal,
            Preempt::Never | Preempt::Auto => Mode::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A policy that ends quanta in that way.
    fn policy(preempt: PreemptKind) -> Spec {
        Spec::preset("tq").unwrap().with_preempt(preempt)
    }

    #[test]
    fn a_program_without_safepoints_says_that_it_is_not_preempted() {
        for wished in [Preempt::Flag, Preempt::Clock] {
            let choice = Choice::make(wished, &policy(PreemptKind::Clock), Kind::None, true);
            assert_eq!(choice.effective, Preempt::Never);
            assert!(choice.note.unwrap().contains("pre-emption is off"));
        }
        let never = Choice::make(Preempt::Never, &policy(PreemptKind::Clock), Kind::None, true);
        assert_eq!(never.note, None, "nothing was asked for, nothing is missing");
    }

    #[test]
    fn auto_hears_that_nobody_is_preempted() {
        for (kind, expected) in [(Kind::None, PreemptKind::Never), (Kind::Flag, PreemptKind::Flag)]
        {
            let mut spec = Spec::preset("auto").unwrap();
            Choice::make(Preempt::Auto, &spec, kind, true).limit(&mut spec, kind);
            assert_eq!(spec.preempt, expected, "{kind:?}");
        }
    }

    #[test]
    fn the_dispatcher_runs_requests_only_if_it_can_cut_them() {
        for (kind, expected) in [(Kind::None, false), (Kind::Flag, true), (Kind::Clock, true)] {
            for wished in [Preempt::Auto, Preempt::Flag] {
                let mut spec = Spec::preset("concord").unwrap();
                Choice::make(wished, &spec, kind, true).limit(&mut spec, kind);
                assert_eq!(spec.work_conserving, expected, "{kind:?} {wished}");
            }
        }
    }

    #[test]
    fn a_signal_needs_no_safepoints() {
        for (kind, busy) in [(Kind::None, true), (Kind::None, false), (Kind::Clock, true)] {
            let choice = Choice::make(Preempt::Signal, &policy(PreemptKind::Clock), kind, busy);
            assert_eq!((choice.effective, &choice.note), (Preempt::Signal, &None));
            assert_eq!((choice.mode(), choice.is_watched()), (Mode::Signal, busy));
        }
        let policy = Choice::make(Preempt::Auto, &policy(PreemptKind::Signal), Kind::None, true);
        assert_eq!(policy.effective, Preempt::Signal);
        assert_eq!("signal".parse(), Ok(Preempt::Signal));
    }

    #[test]
    fn auto_takes_the_clock_where_a_flag_would_only_end_quanta() {
        let preset = |name| Spec::preset(name).unwrap();
        let ends =
            [preset("concord"), preset("shinjuku"), preset("shinjuku-mq"), preset("darc-ps")];
        let takes = |spec: &Spec, kind, busy| {
            let choice = Choice::make(Preempt::Auto, spec, kind, busy);
            assert_eq!(choice.note, None, "{}", spec.name);
            choice.effective
        };
        for spec in ends.into_iter().chain([preset("drr").with_preemptive(true).unwrap()]) {
            assert_eq!(spec.preempt, PreemptKind::Flag, "{}", spec.name);
            assert_eq!(takes(&spec, Kind::Clock, true), Preempt::Clock, "{}", spec.name);
            assert_eq!(takes(&spec, Kind::Clock, false), Preempt::Clock, "{}", spec.name);
            assert_eq!(takes(&spec, Kind::Flag, true), Preempt::Flag, "{}", spec.name);
            let asked = Choice::make(Preempt::Flag, &spec, Kind::Clock, true);
            assert_eq!((asked.effective, asked.note), (Preempt::Flag, None), "{}", spec.name);
        }
        // These ask for a place as soon as a job comes that ranks before the one that runs.
        for spec in [preset("srpt"), preset("auto"), preset("fp").with_preemptive(true).unwrap()] {
            assert_eq!(takes(&spec, Kind::Clock, true), Preempt::Flag, "{}", spec.name);
        }
    }

    #[test]
    fn a_flag_needs_a_dispatcher_that_raises_it() {
        let busy = Choice::make(Preempt::Flag, &policy(PreemptKind::Flag), Kind::Clock, true);
        assert_eq!((busy.effective, busy.note), (Preempt::Flag, None));
        let asleep = Choice::make(Preempt::Flag, &policy(PreemptKind::Flag), Kind::Clock, false);
        assert_eq!(asleep.effective, Preempt::Clock);
        assert!(asleep.note.is_some());
        let only_flags =
            Choice::make(Preempt::Clock, &policy(PreemptKind::Clock), Kind::Flag, false);
        assert_eq!(only_flags.effective, Preempt::Never);
    }
}
