//! What is offered to a scheduler and how the outcome is judged: the papers' service-time mixes by
//! name, arrival processes, histograms, service-level objectives and the search for the highest
//! load that meets one, a calibrated spin loop, and the notation for all of them on a command line.
//!
//! Nothing here knows a runtime or a simulator; both are driven by it. Times are nanoseconds from
//! an epoch of the caller's. The same seed gives every caller the same requests at the same times.
#![forbid(unsafe_code)]

mod arrival;
mod histogram;
mod list;
mod mix;
mod named;
mod phases;
mod request;
mod search;
mod service;
mod slo;
pub mod spin;
mod trace;
mod units;

pub use arrival::{Arrivals, Schedule};
pub use curtail_notation::{ParseError, cores, duration_ns};
pub use histogram::{ClassRecord, Distribution, Recorder, SLOWDOWN_ONE};
pub use list::{MAX_LIST, list, names};
pub use mix::{Class, Mix, Sampler};
pub use named::{NAMED, Named, named};
pub use phases::{Arrival, Phase, Phases, Source};
pub use request::{Request, Requests, Until};
pub use search::{Found, Measurement, Probe, Search};
pub use service::{Service, ServiceSampler};
pub use slo::{Metric, Quantile, Slo};
pub use trace::{Trace, TraceRequests};
pub use units::{count, format_duration, format_rate, load, rate_rps};

use rand::{Rng, SeedableRng};

/// The generator of all random numbers here: small, quick, the same on every machine.
pub(crate) type Random = rand_pcg::Pcg64Mcg;

/// A stream of random numbers; different `stream`s of one seed are independent.
pub(crate) fn random(seed: u64, stream: u64) -> Random {
    Random::seed_from_u64(seed.wrapping_add(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Uniformly distributed numbers for programs that draw more than classes, service times and
/// arrivals; independent of those. The same seed gives the same ones.
pub fn numbers(seed: u64) -> impl FnMut() -> u64 + Send {
    let mut random = random(seed, 2);
    move || random.random()
}

/// A draw from the exponential distribution with mean 1, by inversion.
pub(crate) fn exponential(random: &mut Random) -> f64 {
    // `random` is in [0, 1): the logarithm's argument never reaches zero.
    -(1.0 - random.random::<f64>()).ln()
}
