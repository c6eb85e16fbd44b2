//! Workloads that change while they run: one mix after another, the load kept the same.

use crate::{Arrivals, Mix, ParseError, Sampler, Schedule, duration_ns};

/// A stretch of time with a mix of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How long it lasts.
    pub duration_ns: u64,
    /// What comes meanwhile.
    pub mix: Mix,
}

/// Phases one after another, all of the same classes. There is at least one, and none is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Phases {
    phases: Vec<Phase>,
}

/// Perséphone §5.5: fast requests become slow and slow ones fast, then the shares change, then only
/// one class is left, five seconds each. The service times are those at which the text's numbers of
/// guaranteed cores come out, 1, 1 and 2 of 14 (its figure names them, its text does not).
const PERSEPHONE: &str = "5s a:500us:50,b:500ns:50; 5s a:500ns:50,b:500us:50; \
                          5s a:500ns:99.5,b:500us:0.5; 5s a:500ns:100,b:500us:0";

impl Phases {
    /// The names that [`Phases::parse`] knows.
    pub const NAMES: &[&str] = &["persephone"];

    /// Reads a name, or `5s a:1us:50,b:100us:50; 2s a:1us:99,b:100us:1`: the duration and the mix
    /// (see [`Mix::parse`]) of each phase.
    ///
    /// # Errors
    /// A part that is neither, or phases with different classes.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let text = if text == "persephone" { PERSEPHONE } else { text };
        let phase = |part: &str| {
            let (duration, mix) = part.trim().split_once(char::is_whitespace).ok_or_else(|| {
                let names = Self::NAMES.join(", ");
                ParseError::new(format!(
                    "`{}` is no phase: write 5s a:1us:50,b:100us:50 (or a name: {names})",
                    part.trim()
                ))
            })?;
            let (duration_ns, mix) = (duration_ns(duration)?, Mix::parse(mix)?);
            if duration_ns == 0 || mix.mean_ns() <= 0.0 {
                return Err(ParseError::new("a phase takes time, and so do its requests"));
            }
            Ok(Phase { duration_ns, mix })
        };
        let phases: Vec<Phase> = text.split(';').map(phase).collect::<Result<_, _>>()?;
        let all = Self { phases };
        if all.phases.iter().any(|phase| names(&phase.mix) != all.classes()) {
            return Err(ParseError::new("all phases have the same classes, in the same order"));
        }
        Ok(all)
    }

    /// One after another.
    #[must_use]
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The names of their classes.
    #[must_use]
    pub fn classes(&self) -> Vec<&str> {
        names(&self.phases[0].mix)
    }

    /// How long all of them last.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.phases.iter().map(|phase| phase.duration_ns).sum()
    }

    /// The same in `duration_ns` altogether.
    #[must_use]
    pub fn within(mut self, duration_ns: u64) -> Self {
        let factor = duration_ns as f64 / self.duration_ns() as f64;
        for phase in &mut self.phases {
            phase.duration_ns = ((phase.duration_ns as f64 * factor) as u64).max(1);
        }
        self
    }

    /// The requests, each phase at a rate that keeps `workers` busy for a fraction `load` of the
    /// time. The same seed gives the same ones.
    ///
    /// # Panics
    /// Where the load is not positive and finite, or there is no worker.
    #[must_use]
    pub fn source(&self, arrivals: Arrivals, load: f64, workers: usize, seed: u64) -> Source {
        let parts = (0..).zip(&self.phases).map(|(index, phase)| {
            // Streams of one seed are independent; those of neighbouring seeds are as well.
            let seed = seed.wrapping_add(index << 32);
            let rate_rps = phase.mix.rate_rps(load, workers);
            let schedule = arrivals.schedule(rate_rps, seed);
            Part { schedule, sampler: phase.mix.sampler(seed), duration_ns: phase.duration_ns }
        });
        Source { parts: parts.collect(), phase: 0, begun_ns: 0 }
    }
}

fn names(mix: &Mix) -> Vec<&str> {
    mix.classes().iter().map(|class| class.name.as_str()).collect()
}

/// A request of a workload that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrives, since the start.
    pub at_ns: u64,
    /// In which phase that is.
    pub phase: usize,
    /// Its class, by index.
    pub class: usize,
    /// What service it asks for.
    pub service_ns: u64,
}

#[derive(Clone, Debug)]
struct Part {
    schedule: Schedule,
    sampler: Sampler,
    duration_ns: u64,
}

/// The requests of [`Phases::source`], in the order of arrival; it ends with the last phase.
#[derive(Clone, Debug)]
pub struct Source {
    parts: Vec<Part>,
    phase: usize,
    /// When the phase began.
    begun_ns: u64,
}

impl Iterator for Source {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        loop {
            let part = self.parts.get_mut(self.phase)?;
            let at_ns = part.schedule.next_ns();
            if at_ns < part.duration_ns {
                let (class, service_ns) = part.sampler.draw();
                let at_ns = self.begun_ns + at_ns;
                return Some(Arrival { at_ns, phase: self.phase, class, service_ns });
            }
            self.begun_ns += part.duration_ns;
            self.phase += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_experiment() {
        let phases = Phases::parse("persephone").unwrap();
        assert_eq!((phases.phases().len(), phases.duration_ns()), (4, 20_000_000_000));
        assert_eq!(phases.classes(), ["a", "b"]);
        let short = |phase: usize, class: usize| {
            let mix = &phases.phases()[phase].mix;
            let demand = mix.fraction(class) * mix.classes()[class].service.mean_ns();
            (demand / mix.mean_ns() * 14.0).round().max(1.0) as u64
        };
        assert_eq!([short(0, 1), short(1, 0), short(2, 0), short(3, 0)], [1, 1, 2, 14]);
        assert_eq!(phases.within(2_000_000_000).phases()[3].duration_ns, 500_000_000);
    }

    #[test]
    fn requests_follow_the_phases_and_keep_the_load() {
        let phases = Phases::parse("10ms a:1us:50,b:9us:50; 20ms a:9us:1,b:1us:0").unwrap();
        let all: Vec<Arrival> = phases.source(Arrivals::Poisson, 0.8, 4, 7).collect();
        assert_eq!(all, phases.source(Arrivals::Poisson, 0.8, 4, 7).collect::<Vec<_>>());
        assert!(all.is_sorted_by_key(|request| request.at_ns));
        for (phase, (from, to)) in [(0, 10_000_000), (10_000_000, 30_000_000)].iter().enumerate() {
            let of_phase: Vec<_> = all.iter().filter(|request| request.phase == phase).collect();
            assert!(of_phase.iter().all(|request| (*from..*to).contains(&request.at_ns)));
            let work: u64 = of_phase.iter().map(|request| request.service_ns).sum();
            let load = work as f64 / (4 * (to - from)) as f64;
            assert!((load - 0.8).abs() < 0.05, "{load}");
        }
        assert!(all.iter().filter(|request| request.phase == 1).all(|request| request.class == 0));
    }

    #[test]
    fn what_is_no_phase_is_named() {
        for (text, says) in [
            ("", "``"),
            ("perséphone", "`perséphone`"),
            ("5s", "`5s`"),
            ("x a:1us:1", "`x`"),
            ("0s a:1us:1", "takes time"),
            ("1s a:0us:1", "takes time"),
            ("1s a:1us:1; 1s b:1us:1", "same classes"),
            ("1s a:1us:1; ", "``"),
        ] {
            let error = Phases::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
