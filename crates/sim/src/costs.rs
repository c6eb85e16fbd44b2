//! What everything costs in a simulated system, and the files that say so.
//!
//! A file is TOML or JSON with the keys of [`Costs`]'s fields, durations as `"50ns"`; what it leaves
//! out costs nothing. `curtail calibrate` writes one.
//!
//! ```toml
//! dispatch = "100ns"
//! ring = "150ns"
//! switch = "40ns"
//! overshoot = "exp(80ns)"
//! instrumentation = 0.02
//! ```

use curtail_workload::{Service, duration_ns, format_duration};
use serde::de::{Deserializer, Error as _};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// Costs and delays, in nanoseconds. All zero: an ideal system.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Dispatcher's time to take a request in.
    #[serde(with = "duration")]
    pub receive: u64,
    /// Dispatcher's time to decide on a job and send it to a worker.
    #[serde(with = "duration")]
    pub dispatch: u64,
    /// Dispatcher's time to take in that a job completed or came back.
    #[serde(with = "duration")]
    pub hear: u64,
    /// Dispatcher's time to ask a worker to yield.
    #[serde(with = "duration")]
    pub signal: u64,
    /// From a core to another through a ring, each way.
    #[serde(with = "duration")]
    pub ring: u64,
    /// From the dispatcher's asking a worker to yield until that notices.
    #[serde(with = "duration")]
    pub notify: u64,
    /// Worker's time to start a new job.
    #[serde(with = "duration")]
    pub start: u64,
    /// Worker's time for a pre-emption: from the end of the quantum until the job is back in a queue
    /// and the worker free.
    #[serde(with = "duration")]
    pub switch: u64,
    /// Worker's time after a job completes, until it is free.
    #[serde(with = "duration")]
    pub finish: u64,
    /// Worker's time to steal from another one, where there is no dispatcher: from its look at the
    /// victim's load until what it took is in its own queue.
    #[serde(with = "duration")]
    pub steal: u64,
    /// Its time to go to sleep when it has found nothing.
    #[serde(with = "duration")]
    pub park: u64,
    /// From its being woken until it looks for work.
    #[serde(with = "duration")]
    pub wake: u64,
    /// How much longer than its quantum a job runs: until it comes by a safepoint.
    #[serde(with = "distribution")]
    pub overshoot: Service,
    /// By what fraction safepoints make service longer: 0.02 is 2%.
    pub instrumentation: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self::IDEAL
    }
}

/// A file of costs that says nothing we understand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CostError(String);

impl Costs {
    /// Nothing costs anything.
    pub const IDEAL: Self = Self {
        receive: 0,
        dispatch: 0,
        hear: 0,
        signal: 0,
        ring: 0,
        notify: 0,
        start: 0,
        switch: 0,
        finish: 0,
        steal: 0,
        park: 0,
        wake: 0,
        overshoot: Service::Constant(0),
        instrumentation: 0.0,
    };

    /// Reads a file's text, TOML or (where it starts with a brace) JSON; `name` is what errors call
    /// it.
    ///
    /// # Errors
    /// It is neither, names a cost that there is none of, or has a value that is none.
    pub fn parse(name: &str, text: &str) -> Result<Self, CostError> {
        let costs: Self = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|e| CostError(format!("{name}: {e}")))?
        } else {
            toml::from_str(text).map_err(|e| {
                let at = e.span().map_or(0, |span| span.start).min(text.len());
                let line = text[..at].matches('\n').count() + 1;
                CostError(format!("{name}:{line}: {}", e.message()))
            })?
        };
        costs.validate().map_err(|e| CostError(format!("{name}: {e}")))
    }

    /// The costs, if they make sense.
    ///
    /// # Errors
    /// Instrumentation that makes code faster, or 100 times slower.
    pub fn validate(self) -> Result<Self, CostError> {
        if !(0.0..=100.0).contains(&self.instrumentation) {
            return Err(CostError(format!(
                "instrumentation is a fraction between 0 and 100, not {}",
                self.instrumentation
            )));
        }
        Ok(self)
    }

    /// As a file's text, in TOML.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("strings and a number")
    }

    /// A service time with the safepoints that it comes by.
    #[inline]
    pub(crate) fn inflated(&self, service_ns: u64) -> u64 {
        if self.instrumentation > 0.0 {
            (service_ns as f64 * (1.0 + self.instrumentation)).round() as u64
        } else {
            service_ns
        }
    }

    /// The dispatcher takes no time for anything, and nothing is on the way for any.
    pub(crate) fn is_instant(&self) -> bool {
        [self.receive, self.dispatch, self.hear, self.signal, self.ring].iter().all(|&ns| ns == 0)
    }
}

mod duration {
    use super::*;

    pub(super) fn serialize<S: Serializer>(ns: &u64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format_duration(*ns))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        duration_ns(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

mod distribution {
    use super::*;

    pub(super) fn serialize<S: Serializer>(service: &Service, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&service.to_string())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Service, D::Error> {
        Service::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_notations_say_the_same() {
        let costs = Costs {
            dispatch: 100,
            ring: 150,
            overshoot: Service::Exponential(80),
            instrumentation: 0.02,
            ..Costs::IDEAL
        };
        let toml = "dispatch = \"100ns\"\nring = \"0.15us\"\novershoot = \"exp(80ns)\"\n\
                    instrumentation = 0.02\n";
        assert_eq!(Costs::parse("c", toml), Ok(costs));
        let json = r#"{"dispatch": "100ns", "ring": "150ns", "overshoot": "exp(80ns)",
                       "instrumentation": 0.02}"#;
        assert_eq!(Costs::parse("c", json), Ok(costs));
        assert_eq!(Costs::parse("c", &costs.to_toml()), Ok(costs));
        assert_eq!(Costs::parse("c", ""), Ok(Costs::IDEAL));
    }

    #[test]
    fn errors_say_where() {
        for (text, says) in [
            ("ring = \"1ns\"\nswich = \"1ns\"", "c:2: unknown field `swich`"),
            ("ring = \"1\"", "c:1: `1` is no duration"),
            ("ring = 5", "c:1:"),
            ("instrumentation = -1.0", "c: instrumentation"),
            ("{\"ring\": \"x\"}", "c: `x` is no duration"),
            ("overshoot = \"gauss(1us)\"", "c:1: `gauss(1us)`"),
        ] {
            let error = Costs::parse("c", text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
