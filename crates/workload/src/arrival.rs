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
            "bursty" => {
                let peak = fields.next().unwrap_or("4");
                let burst = fields.next().unwrap_or("100us");
                let bad = || ParseError::new(format!("`{peak}` is no peak: between 1 and 1000"));
                let peak: f64 = peak.parse().map_err(|_| bad())?;
                if !(peak > 1.0 && peak <= 1_000.0) {
                    return Err(bad());
                }
                let burst_ns = duration_ns(burst)?;
                if burst_ns == 0 {
                    return Err(ParseError::new(format!("`{burst}`: a burst has a length")));
                }
                Self::Bursty { peak, burst_ns }
            }
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
            burst_left_ns: 0.0,
            random: random(seed, 0),
        }
    }
}

fn unknown(text: &str) -> ParseError {
    ParseError::new(format!(
        "`{text}` is no arrival process: poisson, uniform or bursty:PEAK:BURST (bursty:4:100us)"
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
    burst_left_ns: f64,
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
        }
        self.whole_ns
    }

    fn bursty(&mut self, peak: f64, burst_ns: f64) {
        // The gap runs through time inside bursts; pauses are put in where a burst ends in it.
        let mut gap = self.gap_ns / peak * exponential(&mut self.random);
        while gap > self.burst_left_ns {
            gap -= self.burst_left_ns;
            let pause = burst_ns * (peak - 1.0) * exponential(&mut self.random);
            self.advance(self.burst_left_ns + pause);
            self.burst_left_ns = burst_ns * exponential(&mut self.random);
        }
        self.burst_left_ns -= gap;
        self.advance(gap);
    }

    fn advance(&mut self, by_ns: f64) {
        self.fraction_ns += by_ns;
        let whole = self.fraction_ns.floor();
        self.whole_ns += whole as u64;
        self.fraction_ns -= whole;
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
        assert_eq!(Arrivals::parse("bursty"), Ok(BURSTY));
        for text in
            ["", "posson", "poisson:3", "bursty:1", "bursty:x", "bursty:4:0", "bursty:4:1us:"]
        {
            assert!(Arrivals::parse(text).is_err(), "{text}");
        }
    }
}
