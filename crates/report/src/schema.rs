//! The result of one run, field for field as it stands in the JSON.
//!
//! Statistics over no samples are `None` and stand as `{}` in the JSON, never as zeros: a reader
//! must be able to tell "nothing was measured" from "it took no time".

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The version of the schema that this crate writes, and the newest that it reads.
pub const SCHEMA: u32 = 1;

/// The result of one run. `Run::default()` is a valid run in which nothing happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`].
    #[serde(default = "schema")]
    pub schema: u32,
    /// The command's verb that measured it: `bench`, `sim`, `load` …
    #[serde(default)]
    pub verb: String,
    /// The policy's name; for a peer, the peer's.
    pub policy: String,
    /// `never`, `flag`, `clock` or `signal`.
    #[serde(default)]
    pub preempt: String,
    /// Length of a quantum; `None`: to completion.
    #[serde(default)]
    pub quantum_ns: Option<u64>,
    /// How many workers; `None` where a remote server does not tell.
    #[serde(default)]
    pub workers: Option<u32>,
    /// The workload's name.
    pub workload: String,
    /// Requests per second that were to arrive.
    #[serde(default, deserialize_with = "number")]
    pub offered_rps: f64,
    /// Requests per second that were completed.
    #[serde(default, deserialize_with = "number")]
    pub achieved_rps: f64,
    /// Offered load as a fraction of the workers' total capacity (`demo`: of what the server served in
    /// order of arrival); `None` where that is unknown.
    #[serde(default)]
    pub load: Option<f64>,
    /// Length of the measured part, in seconds.
    #[serde(default, deserialize_with = "number")]
    pub duration_s: f64,
    /// Requests that were to arrive.
    pub offered: u64,
    /// Requests that were answered.
    pub completed: u64,
    /// Requests refused for want of room, all classes together.
    #[serde(default)]
    pub dropped: u64,
    /// How often answers had which status, where a client asked any server: `200`, `miss`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statuses: BTreeMap<String, u64>,
    /// The figures may be trusted; else `invalid_reason` says why not.
    pub valid: bool,
    /// Why the run is not valid.
    #[serde(default)]
    pub invalid_reason: Option<String>,
    /// Sojourn times of all requests, in nanoseconds.
    #[serde(default, with = "maybe")]
    pub sojourn_ns: Option<Quantiles>,
    /// Slowdowns of all requests.
    #[serde(default, with = "maybe")]
    pub slowdown: Option<Slowdown>,
    /// Figures of each class, in the application's order.
    #[serde(default)]
    pub classes: Vec<Class>,
    /// What the machine took away meanwhile.
    #[serde(default)]
    pub noise: Noise,
    /// The figures over requests that no gap of the machine overlapped.
    #[serde(default)]
    pub undisturbed: Undisturbed,
    /// The seed of the random numbers; `None` where that is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How often a request was pre-empted.
    #[serde(default)]
    pub preemptions: u64,
    /// How long after the end of its quantum a request yielded, in nanoseconds.
    #[serde(default, with = "maybe")]
    pub preempt_late_ns: Option<Lateness>,
    /// Pre-emption by signal: what became of the signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Ticks>,
    /// What the policy had decided for itself, such as workers reserved for classes, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<String>,
    /// What the workers' time went into.
    #[serde(default, with = "maybe")]
    pub cpu: Option<Cpu>,
    /// Where it was measured.
    #[serde(default)]
    pub machine: Machine,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            verb: String::new(),
            policy: String::new(),
            preempt: String::new(),
            quantum_ns: None,
            workers: None,
            workload: String::new(),
            offered_rps: 0.0,
            achieved_rps: 0.0,
            load: None,
            duration_s: 0.0,
            offered: 0,
            completed: 0,
            dropped: 0,
            statuses: BTreeMap::new(),
            valid: true,
            invalid_reason: None,
            sojourn_ns: None,
            slowdown: None,
            classes: Vec::new(),
            noise: Noise::default(),
            undisturbed: Undisturbed::default(),
            seed: None,
            preemptions: 0,
            preempt_late_ns: None,
            ticks: None,
            decided: None,
            cpu: None,
            machine: Machine::default(),
        }
    }
}

impl Run {
    /// Marks the run as not to be trusted; several reasons are joined.
    pub fn invalidate(&mut self, reason: &str) {
        self.valid = false;
        match &mut self.invalid_reason {
            Some(reasons) => {
                reasons.push_str("; ");
                reasons.push_str(reason);
            }
            none => *none = Some(reason.to_owned()),
        }
    }

    /// Marks the run where so many requests were dropped that its p99 is of others than the worst:
    /// what was dropped is in no quantile.
    pub fn judge_drops(&mut self) {
        if self.dropped > 0 && self.dropped as f64 > 0.01 * self.offered as f64 {
            let share = 100.0 * self.dropped as f64 / self.offered.max(self.dropped) as f64;
            let (dropped, offered) = (self.dropped, self.offered);
            self.invalidate(&format!(
                "{dropped} of {offered} requests were dropped ({share:.1}%), and are in no quantile"
            ));
        }
    }
}

/// Quantiles of times, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// The longest.
    pub max: u64,
    /// Arithmetic mean.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
}

/// Quantiles of slowdowns: sojourn time over the request's own un-instrumented service time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Slowdown {
    /// Median.
    #[serde(deserialize_with = "number")]
    pub p50: f64,
    /// 99th percentile.
    #[serde(deserialize_with = "number")]
    pub p99: f64,
    /// 99.9th percentile.
    #[serde(deserialize_with = "number")]
    pub p99_9: f64,
    /// The largest.
    #[serde(deserialize_with = "number")]
    pub max: f64,
    /// Arithmetic mean.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
}

/// One class of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Requests of it that were completed in the measured part.
    #[serde(default)]
    pub count: u64,
    /// Mean un-instrumented service time, in nanoseconds.
    #[serde(default, deserialize_with = "number")]
    pub service_ns_mean: f64,
    /// Sojourn times, in nanoseconds.
    #[serde(default, with = "maybe")]
    pub sojourn_ns: Option<Quantiles>,
    /// Slowdowns.
    #[serde(default, with = "maybe")]
    pub slowdown: Option<Slowdown>,
    /// Requests of it that were refused for want of room, where that is counted by class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// What the machine took away during the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Noise {
    /// From this length on, a hole in the time-stamp counter counts as a gap.
    pub gap_threshold_ns: u64,
    /// How many, on all watched cores.
    pub gaps: u64,
    /// Share of the watched cores' time that went into gaps.
    #[serde(deserialize_with = "number")]
    pub lost_share: f64,
    /// Share of the requests that a gap overlapped.
    #[serde(deserialize_with = "number")]
    pub disturbed_share: f64,
}

/// The figures over requests that no gap overlapped: beside those over all, never instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Undisturbed {
    /// Sojourn times, in nanoseconds.
    #[serde(default, with = "maybe")]
    pub sojourn_ns: Option<Quantiles>,
    /// Slowdowns.
    #[serde(default, with = "maybe")]
    pub slowdown: Option<Slowdown>,
    /// Figures of each class.
    #[serde(default)]
    pub classes: Vec<Class>,
}

/// How late pre-emptions came, in nanoseconds after the end of the quantum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lateness {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// What became of the signals that were to pre-empt requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ticks {
    /// All that came.
    pub received: u64,
    /// Those that ended a quantum.
    pub taken: u64,
    /// Those that came while none was over.
    pub early: u64,
    /// Those that came at a place where a request may not yield, by reason.
    pub refused: Refused,
}

/// Why signals did not end a quantum that was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// In a critical section.
    pub critical: u64,
    /// In a library.
    pub library: u64,
    /// In code of the program that is not the application's.
    pub runtime: u64,
    /// Not on the request's stack, or near its end.
    pub stack: u64,
    /// Registers were in use that are not saved.
    pub registers: u64,
}

/// Shares of the workers' time; they sum to one or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// In handlers.
    #[serde(deserialize_with = "number")]
    pub app: f64,
    /// In switching between them and in the worker's loop.
    #[serde(deserialize_with = "number")]
    pub switch: f64,
    /// With nothing to do.
    #[serde(deserialize_with = "number")]
    pub idle: f64,
    /// Seconds of processor time that the workers' threads were given, less what they spun away
    /// waiting; left out where no threads ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_s: Option<f64>,
}

/// Where a run was measured; what is unknown is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Cores that the process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Runs under a hypervisor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_machine: Option<bool>,
    /// The kernel's name and release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Frequency of the time-stamp counter, in hertz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tsc_hz: Option<u64>,
    /// Release of the compiler that built the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rustc: Option<String>,
    /// Version of that compiler's LLVM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llvm: Option<String>,
}

pub(crate) fn schema() -> u32 {
    SCHEMA
}

/// JSON has no NaN: it is written as `null`, and read as NaN again.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// `None` stands as `{}`; `null` is read as `None` too.
pub(crate) mod maybe {
    use serde::de::{DeserializeOwned, Error};
    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::{Map, Value};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => value.serialize(to),
            None => to.serialize_map(Some(0))?.end(),
        }
    }

    pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let fields = Option::<Map<String, Value>>::deserialize(from)?.unwrap_or_default();
        if fields.is_empty() {
            return Ok(None);
        }
        serde_json::from_value(Value::Object(fields)).map(Some).map_err(D::Error::custom)
    }
}
