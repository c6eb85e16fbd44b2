//! A mix of request classes, and drawing requests from it.

use crate::{ParseError, Random, Service, random};
use rand::Rng;
use std::fmt;

/// One class of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// A short name, for tables.
    pub name: String,
    /// Its share of all requests; the shares of a [`Mix`] need not add up to anything.
    pub share: f64,
    /// Its service times.
    pub service: Service,
}

/// Classes with their shares. Has at least one class, a positive total share and distinct names.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    classes: Vec<Class>,
}

impl Mix {
    /// A mix of these classes.
    ///
    /// # Errors
    /// No class, two of one name, more than 65,535, or shares that are not finite, negative or all
    /// zero.
    pub fn new(classes: Vec<Class>) -> Result<Self, ParseError> {
        if classes.is_empty() || classes.len() > usize::from(u16::MAX) {
            return Err(ParseError::new("a workload has between 1 and 65535 classes"));
        }
        for (i, class) in classes.iter().enumerate() {
            if !class.share.is_finite() || class.share < 0.0 {
                return Err(ParseError::new(format!("`{}` is no share", class.share)));
            }
            if classes[..i].iter().any(|other| other.name == class.name) {
                return Err(ParseError::new(format!("class `{}` is there twice", class.name)));
            }
        }
        if classes.iter().all(|class| class.share == 0.0) {
            return Err(ParseError::new("all shares are zero"));
        }
        Ok(Self { classes })
    }

    /// Reads `short:0.5us:99.5,long:500us:0.5`: name, service time (see [`Service`]), share.
    ///
    /// # Errors
    /// As [`Mix::new`], or a part that is none of these.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let class = |part: &str| {
            let bad = || {
                ParseError::new(format!("`{part}` is no class: write name:0.5us:99.5 (the share)"))
            };
            let mut fields = part.split(':').map(str::trim);
            let (Some(name), Some(service), Some(share), None) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                return Err(bad());
            };
            if name.is_empty() || name.contains(char::is_whitespace) {
                return Err(bad());
            }
            let number = share.strip_suffix('%').unwrap_or(share);
            let share = number.parse().map_err(|_| {
                ParseError::new(format!("`{share}` is no share, in class `{part}`"))
            })?;
            Ok(Class { name: name.to_owned(), share, service: Service::parse(service)? })
        };
        Self::new(text.split(',').map(|part| class(part.trim())).collect::<Result<_, _>>()?)
    }

    /// The classes, by index.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The share of a class in all requests, between 0 and 1.
    ///
    /// # Panics
    /// Where there is no such class.
    #[must_use]
    pub fn fraction(&self, class: usize) -> f64 {
        self.classes[class].share / self.total_share()
    }

    /// Mean service time of a request, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let sum: f64 = self.classes.iter().map(|c| c.share * c.service.mean_ns()).sum();
        sum / self.total_share()
    }

    /// The rate at which `workers` would be busy for a fraction `load` of the time, in requests per
    /// second; infinite for a workload of empty requests.
    #[must_use]
    pub fn rate_rps(&self, load: f64, workers: usize) -> f64 {
        load * workers as f64 * 1e9 / self.mean_ns()
    }

    /// The load that a rate is; the inverse of [`Mix::rate_rps`].
    #[must_use]
    pub fn load(&self, rate_rps: f64, workers: usize) -> f64 {
        rate_rps * self.mean_ns() / 1e9 / workers as f64
    }

    /// Draws requests; the same seed gives the same ones.
    #[must_use]
    pub fn sampler(&self, seed: u64) -> Sampler {
        let total = self.total_share();
        let mut sum = 0.0;
        let upto = self
            .classes
            .iter()
            .map(|class| {
                sum += class.share / total;
                (sum, class.service)
            })
            .collect();
        let last = self.classes.iter().rposition(|class| class.share > 0.0).unwrap_or(0);
        Sampler { upto, last, random: random(seed, 1) }
    }

    fn total_share(&self) -> f64 {
        self.classes.iter().map(|class| class.share).sum()
    }
}

impl fmt::Display for Mix {
    /// The notation that [`Mix::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, class) in self.classes.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{}:{}:{}", class.name, class.service, class.share)?;
        }
        Ok(())
    }
}

/// Draws the class and the service time of one request after another.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// Per class: the share of it and all before it, and its service times.
    upto: Vec<(f64, Service)>,
    /// The last class with a share: takes what rounding leaves of the shares' sum.
    last: usize,
    random: Random,
}

impl Sampler {
    /// The next request: index of its class, service time in nanoseconds.
    #[inline]
    pub fn draw(&mut self) -> (usize, u64) {
        let point = self.random.random::<f64>();
        let class = self.upto.iter().position(|&(upto, _)| point < upto).unwrap_or(self.last);
        (class, self.upto[class].1.sample(&mut self.random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parses_the_documented_form() {
        let mix = Mix::parse("short:0.5us:99.5,long:500us:0.5").unwrap();
        assert_eq!(mix.classes().len(), 2);
        assert_eq!(mix.classes()[0].service, Service::Constant(500));
        assert!((mix.fraction(1) - 0.005).abs() < 1e-12);
        assert!((mix.mean_ns() - 2_997.5).abs() < 1e-6);
        assert!((mix.rate_rps(0.7, 1) - 0.7e9 / 2_997.5).abs() < 1e-3);
        assert!((mix.load(mix.rate_rps(0.7, 3), 3) - 0.7).abs() < 1e-12);
    }

    #[test]
    fn names_the_bad_part() {
        for (text, says) in [
            ("", "``"),
            ("a:1us", "`a:1us`"),
            (":1us:1", "`:1us:1`"),
            ("a:1us:x", "`x`"),
            ("a:1us:-1", "`-1`"),
            ("a:1us:inf", "`inf`"),
            ("a:1us:0", "zero"),
            ("a:1uz:1", "`1uz`"),
            ("a:1us:1,a:2us:1", "`a`"),
            ("a:1us:1:1", "`a:1us:1:1`"),
        ] {
            let error = Mix::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn draws_by_share() {
        let mix = Mix::parse("a:1us:1,none:1us:0,b:2us:3").unwrap();
        let mut sampler = mix.sampler(7);
        let mut counts = [0u32; 3];
        for _ in 0..100_000 {
            let (class, ns) = sampler.draw();
            assert_eq!(ns, if class == 0 { 1_000 } else { 2_000 });
            counts[class] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((f64::from(counts[2]) / 75_000.0 - 1.0).abs() < 0.02, "{counts:?}");
    }

    #[test]
    fn a_seed_decides_everything() {
        let mix = Mix::parse("a:exp(1us):1,b:uniform(1us..9us):1").unwrap();
        let draw = |seed| {
            let mut sampler = mix.sampler(seed);
            (0..100).map(|_| sampler.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    proptest! {
        #[test]
        fn round_trip(classes in prop::collection::vec((0u64..1_000_000_000, 1u32..100_000), 1..6)) {
            let classes = classes.into_iter().enumerate().map(|(i, (ns, share))| Class {
                name: format!("class{i}"),
                share: f64::from(share) / 1_000.0,
                service: if i % 2 == 0 { Service::Constant(ns) } else { Service::Exponential(ns) },
            });
            let mix = Mix::new(classes.collect()).unwrap();
            prop_assert_eq!(Mix::parse(&mix.to_string()), Ok(mix));
        }

        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = Mix::parse(&text);
        }
    }
}
