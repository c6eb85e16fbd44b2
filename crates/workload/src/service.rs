//! Service-time distributions of one class.

use crate::{ParseError, Random, duration_ns, exponential, format_duration, random};
use rand::Rng;
use std::f64::consts::{FRAC_2_PI, TAU};
use std::fmt;

/// How the service times of one class are distributed. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Always the same. Written `0.5us`.
    Constant(u64),
    /// Exponential with this mean. Written `exp(1us)`.
    Exponential(u64),
    /// Uniform between the two, both included. Written `uniform(1us..3us)`.
    Uniform(u64, u64),
    /// The absolute value of a normal variable with mean 0 and this standard deviation. Written
    /// `half-normal(2us)`.
    HalfNormal(u64),
}

impl Service {
    /// The mean in nanoseconds.
    #[must_use]
    pub fn mean_ns(self) -> f64 {
        match self {
            Self::Constant(ns) | Self::Exponential(ns) => ns as f64,
            Self::Uniform(low, high) => (low as f64 + high as f64) / 2.0,
            Self::HalfNormal(ns) => ns as f64 * FRAC_2_PI.sqrt(),
        }
    }

    /// Draws from it; the same seed gives the same times.
    #[must_use]
    pub fn sampler(self, seed: u64) -> ServiceSampler {
        ServiceSampler { service: self, random: random(seed, 3) }
    }

    pub(crate) fn sample(self, random: &mut Random) -> u64 {
        match self {
            Self::Constant(ns) => ns,
            // What takes any time takes a nanosecond: a slowdown needs something to be a multiple of.
            Self::Exponential(mean) => {
                let ns = (mean as f64 * exponential(random)).round() as u64;
                ns.max(u64::from(mean > 0))
            }
            Self::Uniform(low, high) => random.random_range(low..=high),
            Self::HalfNormal(ns) => {
                // Box and Muller: the radius of a pair of normal variables, and one of them.
                let radius = (2.0 * exponential(random)).sqrt();
                let angle = TAU * random.random::<f64>();
                (ns as f64 * (radius * angle.cos()).abs()).round() as u64
            }
        }
    }

    /// Reads the notation given at each variant.
    ///
    /// # Errors
    /// Another notation, or a bad duration in it.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let Some((kind, rest)) = text.split_once('(') else {
            return duration_ns(text).map(Self::Constant);
        };
        let inside = rest
            .strip_suffix(')')
            .ok_or_else(|| ParseError::new(format!("`{text}` has no closing parenthesis")))?;
        match kind {
            "exp" => duration_ns(inside).map(Self::Exponential),
            "half-normal" => duration_ns(inside).map(Self::HalfNormal),
            "uniform" => {
                let (low, high) = inside
                    .split_once("..")
                    .ok_or_else(|| ParseError::new(format!("`{text}`: write uniform(1us..3us)")))?;
                let (low, high) = (duration_ns(low)?, duration_ns(high)?);
                if low > high {
                    return Err(ParseError::new(format!("`{text}` runs backwards")));
                }
                Ok(Self::Uniform(low, high))
            }
            _ => Err(ParseError::new(format!(
                "`{text}` is no service time: write 0.5us, exp(1us), uniform(1us..3us) or half-normal(1us)"
            ))),
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Constant(ns) => f.write_str(&format_duration(ns)),
            Self::Exponential(ns) => write!(f, "exp({})", format_duration(ns)),
            Self::Uniform(low, high) => {
                write!(f, "uniform({}..{})", format_duration(low), format_duration(high))
            }
            Self::HalfNormal(ns) => write!(f, "half-normal({})", format_duration(ns)),
        }
    }
}

/// Draws one time after another from a [`Service`].
#[derive(Clone, Debug)]
pub struct ServiceSampler {
    service: Service,
    random: Random,
}

impl ServiceSampler {
    /// The next, in nanoseconds.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.service.sample(&mut self.random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn any() -> impl Strategy<Value = Service> {
        let ns = 0u64..10_000_000_000;
        prop_oneof![
            ns.clone().prop_map(Service::Constant),
            ns.clone().prop_map(Service::Exponential),
            ns.clone().prop_map(Service::HalfNormal),
            (ns.clone(), ns).prop_map(|(a, b)| Service::Uniform(a.min(b), a.max(b))),
        ]
    }

    proptest! {
        #[test]
        fn round_trip(service in any()) {
            prop_assert_eq!(Service::parse(&service.to_string()), Ok(service));
        }
    }

    #[test]
    fn means_match_samples() {
        let mut random = crate::random(1, 0);
        for service in [
            Service::Constant(500),
            Service::Exponential(1_000),
            Service::Uniform(100, 300),
            Service::HalfNormal(1_000),
        ] {
            let n = 200_000;
            let sum: u64 = (0..n).map(|_| service.sample(&mut random)).sum();
            let mean = sum as f64 / f64::from(n);
            assert!((mean / service.mean_ns() - 1.0).abs() < 0.02, "{service}: {mean}");
        }
    }

    #[test]
    fn two_thirds_of_half_a_normal_variable_are_within_its_deviation() {
        let mut sampler = Service::HalfNormal(1_000).sampler(1);
        let draws: Vec<u64> = (0..100_000).map(|_| sampler.draw()).collect();
        let within = |ns| draws.iter().filter(|draw| **draw <= ns).count() as f64 / 1e5;
        assert!((within(1_000) - 0.683).abs() < 0.01, "{}", within(1_000));
        assert!((within(2_000) - 0.954).abs() < 0.01, "{}", within(2_000));
    }

    #[test]
    fn bad_notation() {
        for text in ["", "exp", "exp(", "exp(1us", "exp()", "gauss(1us)", "uniform(3us..1us)"] {
            assert!(Service::parse(text).is_err(), "{text}");
        }
    }
}
