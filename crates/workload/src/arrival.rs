//! When requests arrive: open loop, at times fixed in advance by a seed and the rate alone, however
//! the system under test fares.

use crate::{ParseError, Random, duration_ns, exponential, format_duration, random};
use std::fmt;

/// An arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent arrivals, exponential gaps. Written `poisson`.
    Poisson,
    /// Equal gaps. Written `uniform`.
    Uniform,
    /// An interrupted Poisson process (a Markov-modulated one with two states): in bursts, of
    /// exponential length, Poisson arrivals at `peak` times the mean rate; between them, nothing.
    /// The pauses are such that the mean rate holds. Written `bursty` or `bursty:PEAK:BURST`, as in
    /// `bursty:4:100us`, which is the default.
    Bursty {
        /// Rate within a burst over the mean rate; more than 1.
        peak: f64,
        /// Mean length of a burst in nanoseconds.
        burst_ns: u64,
    },
    /// A Markov-modulated Poisson process with two states of exponential lengths, in each of which
    /// arrivals are Poisson. Written `mmpp:HIGH:LOW:HIGH_FOR:LOW_FOR`, as in
    /// `mmpp:3:0.5:100us:400us`: the rates in the two states as multiples of anything (they are
    /// scaled so that the mean rate holds), and the states' mean lengths.
    Mmpp {
        /// The rates in the two states, relative to each other.
        rates: [f64; 2],
        /// The mean lengths of the two states in nanoseconds.
        lengths_ns: [u64; 2],
    },
    /// Poisson arrivals whose rate steps up and down: in the first half of each period `high` times
    /// the mean rate, in the second half so much less. Written `step:HIGH:PERIOD`, as in
    /// `step:1.5:10ms`.
    Step {
        /// Rate in the first half over the mean rate; more than 1, at most 2.
        high: f64,
        /// Length of both halves together in nanoseconds.
        period_ns: u64,
    },
}

impl Arrivals {
    /// Reads the notation given at each variant.
    ///
    /// # Errors
    /// Something else, a peak not above 1 (or beyond 1,000), or a burst of no length.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut fields = text.trim().split(':');
        let process = match fields.next().unwrap_or_default() {
            "poisson" => Self::Poisson,
            "uniform" => Self::Uniform,
            "bursty" => Self::Bursty {
                peak: factor(fields.next().unwrap_or("4"), 1.0, 1_000.0)?,
                burst_ns: length(fields.next().unwrap_or("100us"))?,
            },
            "mmpp" => {
                let mut next = || fields.next().ok_or_else(|| unknown(text));
                let (high, low) = (factor(next()?, 0.0, 1e6)?, number(next()?)?);
                let lengths_ns = [length(next()?)?, length(next()?)?];
                Self::Mmpp { rates: [high, low], lengths_ns }
            }
            "step" => Self::Step {
                high: factor(fields.next().unwrap_or("1.5"), 1.0, 2.0)?,
                period_ns: length(fields.next().unwrap_or("10ms"))?.max(2),
            },
            _ => return Err(unknown(text)),
        };
        if fields.next().is_some() { Err(unknown(text)) } else { Ok(process) }
    }

    /// The arrival times at this mean rate; the same seed gives the same ones.
    ///
    /// # Panics
    /// Where the rate is not positive and finite.
    #[must_use]
    pub fn schedule(self, rate_rps: f64, seed: u64) -> Schedule {
        assert!(rate_rps > 0.0 && rate_rps.is_finite(), "a schedule needs a rate: {rate_rps}");
        Schedule {
            process: self,
            gap_ns: 1e9 / rate_rps,
            count: 0,
            whole_ns: 0,
            fraction_ns: 0.0,
            left_ns: 0.0,
            low: true,
            random: random(seed, 0),
        }
    }
}

/// A number from 0 up.
fn number(text: &str) -> Result<f64, ParseError> {
    let number = text.parse::<f64>().ok().filter(|it| (0.0..=1e6).contains(it));
    number.ok_or_else(|| ParseError::new(format!("`{text}` is no number from 0 up")))
}

/// A number above one bound and up to another.
fn factor(text: &str, above: f64, upto: f64) -> Result<f64, ParseError> {
    let bad = || ParseError::new(format!("`{text}` is no factor above {above}, up to {upto}"));
    text.parse().ok().filter(|it| *it > above && *it <= upto).ok_or_else(bad)
}

fn length(text: &str) -> Result<u64, ParseError> {
    match duration_ns(text)? {
        0 => Err(ParseError::new(format!("`{text}`: it has a length"))),
        ns => Ok(ns),
    }
}

fn unknown(text: &str) -> ParseError {
    ParseError::new(format!(
        "`{text}` is no arrival process: poisson, uniform, bursty:PEAK:BURST (bursty:4:100us), \
         mmpp:HIGH:LOW:HIGH_FOR:LOW_FOR (mmpp:3:0.5:100us:400us) or step:HIGH:PERIOD (step:1.5:10ms)"
    ))
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Poisson => f.write_str("poisson"),
            Self::Uniform => f.write_str("uniform"),
            Self::Bursty { peak, burst_ns } => {
                write!(f, "bursty:{peak}:{}", format_duration(burst_ns))
            }
            Self::Mmpp { rates: [high, low], lengths_ns } => {
                let [high_for, low_for] = lengths_ns.map(format_duration);
                write!(f, "mmpp:{high}:{low}:{high_for}:{low_for}")
            }
            Self::Step { high, period_ns } => {
                write!(f, "step:{high}:{}", format_duration(period_ns))
            }
        }
    }
}

/// Arrival times in nanoseconds since the start, ascending, without end.
///
/// Whole nanoseconds are summed as integers and only the rest as a fraction, so that a long run
/// does not lose precision; equal gaps are multiplied out rather than summed.
#[derive(Clone, Debug)]
pub struct Schedule {
    process: Arrivals,
    gap_ns: f64,
    count: u64,
    whole_ns: u64,
    fraction_ns: f64,
    /// What is left of the burst, or of the state.
    left_ns: f64,
    /// It is in the state of the lower rate.
    low: bool,
    random: Random,
}

impl Schedule {
    /// The next arrival.
    #[inline]
    pub fn next_ns(&mut self) -> u64 {
        self.count += 1;
        match self.process {
            Arrivals::Uniform => return (self.count as f64 * self.gap_ns) as u64,
            Arrivals::Poisson => {
                let gap = self.gap_ns * exponential(&mut self.random);
                self.advance(gap);
            }
            Arrivals::Bursty { peak, burst_ns } => self.bursty(peak, burst_ns as f64),
            Arrivals::Mmpp { rates: [high, low], lengths_ns } => {
                let [for_high, for_low] = lengths_ns.map(|ns| ns as f64);
                let mean = (high * for_high + low * for_low) / (for_high + for_low);
                self.modulated([high / mean, low / mean], |low, random| {
                    exponential(random) * if low { for_low } else { for_high }
                });
            }
            Arrivals::Step { high, period_ns } => {
                self.modulated([high, 2.0 - high], |_, _| period_ns as f64 / 2.0);
            }
        }
        self.whole_ns
    }

    fn bursty(&mut self, peak: f64, burst_ns: f64) {
        // The gap runs through time inside bursts; pauses are put in where a burst ends in it.
        let mut gap = self.gap_ns / peak * exponential(&mut self.random);
        while gap > self.left_ns {
            gap -= self.left_ns;
            let pause = burst_ns * (peak - 1.0) * exponential(&mut self.random);
            self.advance(self.left_ns + pause);
            self.left_ns = burst_ns * exponential(&mut self.random);
        }
        self.left_ns -= gap;
        self.advance(gap);
    }

    /// Poisson arrivals whose rate, over the mean one, depends on the state: high or low.
    fn modulated(&mut self, rates: [f64; 2], length: impl Fn(bool, &mut Random) -> f64) {
        // How many arrivals are to be expected until the next.
        let mut expected = exponential(&mut self.random);
        loop {
            let per_ns = rates[usize::from(self.low)] / self.gap_ns;
            if expected < self.left_ns * per_ns {
                let gap = expected / per_ns;
                self.left_ns -= gap;
                return self.advance(gap);
            }
            expected -= self.left_ns * per_ns;
            self.advance(self.left_ns);
            self.low = !self.low;
            self.left_ns = length(self.low, &mut self.random);
        }
    }

    fn advance(&mut self, by_ns: f64) {
        self.fraction_ns += by_ns;
        // Truncated: it is not negative, and fits into 63 bits.
        let whole = self.fraction_ns as i64;
        self.whole_ns += whole as u64;
        self.fraction_ns -= whole as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURSTY: Arrivals = Arrivals::Bursty { peak: 4.0, burst_ns: 100_000 };

    /// Count, mean gap and squared coefficient of variation of the gaps over `n` arrivals.
    fn gaps(process: Arrivals, rate: f64, n: u32) -> (f64, f64) {
        let mut schedule = process.schedule(rate, 42);
        let mut last = 0;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let at = schedule.next_ns();
            assert!(at >= last, "time goes on");
            let gap = (at - last) as f64;
            (sum, squares) = (sum + gap, squares + gap * gap);
            last = at;
        }
        let mean = sum / f64::from(n);
        (mean, squares / f64::from(n) / (mean * mean) - 1.0)
    }

    #[test]
    fn mean_rate_and_variation() {
        let (mean, variation) = gaps(Arrivals::Uniform, 300_000.0, 100_000);
        assert!((mean - 3_333.333).abs() < 0.01 && variation < 1e-6, "{mean} {variation}");
        let (mean, variation) = gaps(Arrivals::Poisson, 300_000.0, 500_000);
        assert!((mean / 3_333.333 - 1.0).abs() < 0.01, "{mean}");
        assert!((variation - 1.0).abs() < 0.03, "{variation}");
        let (mean, variation) = gaps(BURSTY, 300_000.0, 2_000_000);
        assert!((mean / 3_333.333 - 1.0).abs() < 0.03, "{mean}");
        assert!(variation > 10.0, "bursts make gaps vary: {variation}");
    }

    #[test]
    fn modulated_rates_hold_in_the_mean_and_in_each_state() {
        let mmpp = Arrivals::parse("mmpp:6:1:50us:200us").unwrap();
        let (mean, variation) = gaps(mmpp, 300_000.0, 2_000_000);
        assert!((mean / 3_333.333 - 1.0).abs() < 0.02, "{mean}");
        assert!(variation > 1.5, "{variation}");
        // All in the high state, as there is nothing in the low one: a burst of its own.
        let idle = Arrivals::parse("mmpp:1:0:100us:300us").unwrap();
        let bursty = gaps(BURSTY, 300_000.0, 2_000_000);
        let same = gaps(idle, 300_000.0, 2_000_000);
        assert!((same.0 / bursty.0 - 1.0).abs() < 0.03 && (same.1 / bursty.1 - 1.0).abs() < 0.1);
        let step = Arrivals::parse("step:1.5:1ms").unwrap();
        let (mean, _) = gaps(step, 300_000.0, 500_000);
        assert!((mean / 3_333.333 - 1.0).abs() < 0.01, "{mean}");
        let mut schedule = step.schedule(300_000.0, 1);
        let first = (0..500_000).filter(|_| schedule.next_ns() % 1_000_000 < 500_000).count();
        assert!((first as f64 / 500_000.0 - 0.75).abs() < 0.005, "{first}");
    }

    #[test]
    fn equal_gaps_do_not_drift() {
        let mut schedule = Arrivals::Uniform.schedule(3.0, 0);
        let last = (0..3_000_000).map(|_| schedule.next_ns()).last();
        assert_eq!(last, Some(1_000_000_000_000_000));
    }

    #[test]
    fn a_seed_decides_everything() {
        for process in [Arrivals::Poisson, BURSTY] {
            let times = |seed| {
                let mut schedule = process.schedule(1e6, seed);
                (0..50).map(|_| schedule.next_ns()).collect::<Vec<_>>()
            };
            assert_eq!(times(1), times(1));
            assert_ne!(times(1), times(2));
        }
    }

    #[test]
    fn notation() {
        for process in [Arrivals::Poisson, Arrivals::Uniform, BURSTY] {
            assert_eq!(Arrivals::parse(&process.to_string()), Ok(process));
        }
        for text in ["mmpp:3:0.5:100us:400us", "step:1.5:10ms"] {
            assert_eq!(Arrivals::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Arrivals::parse("bursty"), Ok(BURSTY));
        for text in [
            "",
            "posson",
            "poisson:3",
            "bursty:1",
            "bursty:x",
            "bursty:4:0",
            "bursty:4:1us:",
            "mmpp",
            "mmpp:0:0:1us:1us",
            "mmpp:1:x:1us:1us",
            "mmpp:1:1:1us",
            "mmpp:1:1:0:1us",
            "step:1:1ms",
            "step:3:1ms",
            "step:1.5:0",
        ] {
            assert!(Arrivals::parse(text).is_err(), "{text}");
        }
    }
}
