//! Workloads that change while they run: one mix after another, at one load or at several.

use crate::{Arrivals, Class, Mix, ParseError, Sampler, Schedule, duration_ns, load, named};
use std::ops::Range;

/// A stretch of time with a mix of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// How long it lasts.
    pub duration_ns: u64,
    /// What comes meanwhile.
    pub mix: Mix,
    /// At what load; `None`: at that of the whole run.
    pub load: Option<f64>,
    /// By which process; `None`: by that of the whole run.
    pub arrivals: Option<Arrivals>,
}

/// Phases one after another, all of the same classes: what comes in some of them only, has no share
/// in the others. There is at least one, and none is empty.
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

    /// Reads a name, or phases separated by semicolons or ends of lines, in either notation:
    /// `5s a:1us:50,b:100us:50` (the duration and the mix, see [`Mix::parse`], or a workload's name)
    /// or `5s:workload=tpcc,load=0.9,arrivals=bursty` (with `classes=…` for a mix). What follows a
    /// `#` in a line is left out.
    ///
    /// # Errors
    /// A part that is neither.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        // Editors put a byte-order mark in front of a file's text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = if text.trim() == "persephone" { PERSEPHONE } else { text };
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let parts: Vec<&str> = if text.contains('\n') {
            lines.flat_map(|line| line.split(';')).filter(|part| !part.trim().is_empty()).collect()
        } else {
            lines.flat_map(|line| line.split(';')).collect()
        };
        let phases = if parts.is_empty() {
            vec![phase("")?]
        } else {
            parts.into_iter().map(phase).collect::<Result<_, _>>()?
        };
        Self::new(phases)
    }

    /// These phases, with the classes of all in each.
    ///
    /// # Errors
    /// There is none, or one takes no time, or its requests don't.
    pub fn new(mut phases: Vec<Phase>) -> Result<Self, ParseError> {
        if phases.is_empty() {
            return Err(ParseError::new("a workload that changes has at least one phase"));
        }
        let mut all: Vec<Class> = Vec::new();
        for phase in &phases {
            if phase.duration_ns == 0 || phase.mix.mean_ns() <= 0.0 {
                return Err(ParseError::new("a phase takes time, and so do its requests"));
            }
            for class in phase.mix.classes() {
                if all.iter().all(|other| other.name != class.name) {
                    all.push(class.clone());
                }
            }
        }
        for phase in &mut phases {
            let classes = all.iter().map(|class| {
                let own = phase.mix.classes().iter().find(|own| own.name == class.name);
                own.cloned().unwrap_or_else(|| Class { share: 0.0, ..class.clone() })
            });
            phase.mix = Mix::new(classes.collect())?;
        }
        Ok(Self { phases })
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

    /// Each phase cut into `parts` equal parts: which phase, from 0, and from when to when.
    #[must_use]
    pub fn slices(&self, parts: u32) -> Vec<(usize, Range<u64>)> {
        let mut begun = 0;
        let mut slices = Vec::new();
        for (index, Phase { duration_ns, .. }) in self.phases.iter().enumerate() {
            let at = |part: u32| begun + duration_ns * u64::from(part) / u64::from(parts);
            slices.extend((0..parts).map(|part| (index, at(part)..at(part + 1))));
            begun += duration_ns;
        }
        slices
    }

    /// The highest rate of any phase, where those that do not say have this load.
    #[must_use]
    pub fn peak_rps(&self, load: f64, workers: usize) -> f64 {
        let rate = |phase: &Phase| phase.mix.rate_rps(phase.load.unwrap_or(load), workers);
        self.phases.iter().map(rate).fold(0.0, f64::max)
    }

    /// The phases stretched, or compressed, to `duration_ns` altogether.
    #[must_use]
    pub fn within(mut self, duration_ns: u64) -> Self {
        let factor = duration_ns as f64 / self.duration_ns() as f64;
        for phase in &mut self.phases {
            phase.duration_ns = ((phase.duration_ns as f64 * factor) as u64).max(1);
        }
        self
    }

    /// Requests per second over all phases, where those that do not say have this load.
    #[must_use]
    pub fn rate_rps(&self, load: f64, workers: usize) -> f64 {
        self.over_time(|phase| phase.mix.rate_rps(phase.load.unwrap_or(load), workers))
    }

    /// Load over all phases, where those that do not say have this one.
    #[must_use]
    pub fn load(&self, load: f64) -> f64 {
        self.over_time(|phase| phase.load.unwrap_or(load))
    }

    fn over_time(&self, of: impl Fn(&Phase) -> f64) -> f64 {
        let sum: f64 = self.phases.iter().map(|phase| phase.duration_ns as f64 * of(phase)).sum();
        sum / self.duration_ns() as f64
    }

    /// The requests, each phase at a rate that keeps `workers` busy for a fraction `load` of the
    /// time, unless it has a load of its own. The same seed gives the same ones.
    ///
    /// # Panics
    /// Where the load is not positive and finite, or there is no worker.
    #[must_use]
    pub fn source(&self, arrivals: Arrivals, load: f64, workers: usize, seed: u64) -> Source {
        let parts = (0..).zip(&self.phases).map(|(index, phase)| {
            // Streams of one seed are independent; those of neighbouring seeds are as well.
            let seed = seed.wrapping_add(index << 32);
            let rate_rps = phase.mix.rate_rps(phase.load.unwrap_or(load), workers);
            let mut schedule = phase.arrivals.unwrap_or(arrivals).schedule(rate_rps, seed);
            let next_ns = schedule.next_ns();
            let sampler = phase.mix.sampler(seed);
            Part { schedule, next_ns, sampler, duration_ns: phase.duration_ns, had_ns: 0 }
        });
        Source { parts: parts.collect(), phase: 0, begun_ns: 0, repeats: false }
    }
}

fn phase(text: &str) -> Result<Phase, ParseError> {
    let text = text.trim();
    let bad = || {
        let names = Phases::NAMES.join(", ");
        ParseError::new(format!(
            "`{text}` is no phase: write 5s a:1us:50,b:100us:50 or 5s:workload=tpcc,load=0.9 \
             (or a name: {names})"
        ))
    };
    if let Some((duration, mix)) = text.split_once(char::is_whitespace) {
        let (duration_ns, mix) = (duration_ns(duration)?, mix_of(mix)?);
        return Ok(Phase { duration_ns, mix, load: None, arrivals: None });
    }
    let (duration, rest) = text.split_once(':').ok_or_else(bad)?;
    let duration_ns = duration_ns(duration)?;
    let (mut mix, mut own_load, mut arrivals) = (None, None, None);
    for (key, value) in settings(rest).ok_or_else(bad)? {
        match key {
            "workload" | "classes" => mix = Some(mix_of(&value)?),
            "load" => own_load = Some(load(&value)?),
            "arrivals" => arrivals = Some(Arrivals::parse(&value)?),
            _ => return Err(bad()),
        }
    }
    Ok(Phase { duration_ns, mix: mix.ok_or_else(bad)?, load: own_load, arrivals })
}

/// `a=1,b=2,3` as (a, "1"), (b, "2,3").
fn settings(text: &str) -> Option<Vec<(&str, String)>> {
    let mut settings: Vec<(&str, String)> = Vec::new();
    for part in text.split(',') {
        match (part.split_once('='), settings.last_mut()) {
            (Some((key, value)), _) => settings.push((key.trim(), value.to_owned())),
            (None, Some((_, value))) => {
                value.push(',');
                value.push_str(part);
            }
            (None, None) => return None,
        }
    }
    Some(settings)
}

fn mix_of(text: &str) -> Result<Mix, ParseError> {
    let text = text.trim();
    if text.contains(':') { Mix::parse(text) } else { named(text).map(|named| named.mix()) }
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
    /// The next arrival, on a clock that runs during this phase only.
    next_ns: u64,
    sampler: Sampler,
    duration_ns: u64,
    /// How long the phase was on before, each time it came.
    had_ns: u64,
}

/// The requests of [`Phases::source`], in the order of arrival; it ends with the last phase.
#[derive(Clone, Debug)]
pub struct Source {
    parts: Vec<Part>,
    phase: usize,
    /// When the phase began.
    begun_ns: u64,
    repeats: bool,
}

impl Source {
    /// The source without end: after the last phase comes the first again, with other requests.
    #[must_use]
    pub fn repeated(self) -> Self {
        Self { repeats: true, ..self }
    }
}

impl Iterator for Source {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        loop {
            let part = self.parts.get_mut(self.phase)?;
            let since_ns = part.next_ns - part.had_ns;
            if since_ns < part.duration_ns {
                part.next_ns = part.schedule.next_ns();
                let (class, service_ns) = part.sampler.draw();
                let at_ns = self.begun_ns + since_ns;
                return Some(Arrival { at_ns, phase: self.phase, class, service_ns });
            }
            part.had_ns += part.duration_ns;
            self.begun_ns += part.duration_ns;
            self.phase += 1;
            if self.repeats && self.phase == self.parts.len() {
                self.phase = 0;
            }
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
    fn slices_cover_the_phases() {
        let phases = Phases::parse("10us a:1us:1; 5us a:2us:1").unwrap();
        let expected =
            [(0, 0..5_000), (0, 5_000..10_000), (1, 10_000..12_500), (1, 12_500..15_000)];
        assert_eq!(phases.slices(2), expected);
        assert_eq!(phases.peak_rps(0.5, 4), 2e6);
        let saved = Phases::parse("\u{feff}10us a:1us:1\r\n5us a:2us:1\r\n").unwrap();
        assert_eq!(saved.slices(2), expected);
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
    fn phases_have_loads_and_processes_of_their_own() {
        let text = "# first\n1ms:classes=a:1us:1,b:2us:1,load=0.5,arrivals=uniform\n\n2ms exp1; 1ms:workload=fixed1,load=0.2";
        let phases = Phases::parse(text).unwrap();
        assert_eq!(phases.classes(), ["a", "b", "request"]);
        let [first, second, third] = phases.phases() else { panic!("{phases:?}") };
        assert_eq!((first.load, first.arrivals), (Some(0.5), Some(Arrivals::Uniform)));
        assert_eq!((second.load, second.duration_ns), (None, 2_000_000));
        assert_eq!((third.mix.fraction(0), third.mix.fraction(2)), (0.0, 1.0));
        assert!((phases.load(0.8) - (0.5 + 2.0 * 0.8 + 0.2) / 4.0).abs() < 1e-12);
        let rate = (0.5 / 1.5 + 2.0 * 0.8 + 0.2) / 4.0 * 1e9 / 1e3;
        assert!((phases.rate_rps(0.8, 1) / rate - 1.0).abs() < 1e-9);
    }

    #[test]
    fn repeated_phases_go_on() {
        let phases = Phases::parse("1ms a:1us:1; 3ms b:1us:1").unwrap();
        let source = || phases.source(Arrivals::Poisson, 0.5, 1, 3);
        let once: Vec<Arrival> = source().collect();
        let long: Vec<Arrival> = source().repeated().take(10 * once.len()).collect();
        assert_eq!(long[..once.len()], once);
        assert!(long.is_sorted_by_key(|request| request.at_ns));
        for request in &long {
            let class = usize::from(request.at_ns % 4_000_000 >= 1_000_000);
            assert_eq!((request.class, request.phase), (class, class));
        }
        let last_ms = long[long.len() - 1].at_ns as f64 / 1e6;
        assert!((last_ms / 40.0 - 1.0).abs() < 0.05, "{last_ms}");
        let gaps = |all: &[Arrival]| all[1].at_ns - all[0].at_ns;
        let again = long.iter().position(|request| request.at_ns >= 4_000_000).unwrap();
        assert_ne!(gaps(&long[again..]), gaps(&long), "other requests");
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
            ("1s a:1us:1; ", "``"),
            ("1s tpch", "`tpch`"),
            ("1s:load=0.5", "`1s:load=0.5`"),
            ("1s:workload=tpcc,load=70", "`70`"),
            ("1s:workload=tpcc,speed=70", "speed=70"),
            ("1s:tpcc", "`1s:tpcc`"),
            ("# nothing\n", "``"),
        ] {
            let error = Phases::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
