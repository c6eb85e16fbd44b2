//! Options that several verbs share, and what they mean together.

mod cores;
mod policy;

use crate::failure::Failure;
use crate::typed::DarcArgs;
use clap::{Args, ValueEnum};
pub(crate) use cores::CoresArgs;
use curtail::{DispatcherMode, Preempt};
pub(crate) use curtail_experiment::Point;
use curtail_experiment::{Asked, DEFAULT_DURATION_NS, runtime};
use curtail_policy::{PreemptKind, Spec};
use curtail_workload::{self as workload, Arrivals, Mix, ParseError, Requests, Until};
use policy::Policies;

/// A list given as one argument. (Clap would take a plain `Vec` for an argument given repeatedly.)
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

pub(crate) fn names(text: &str) -> Result<List<String>, ParseError> {
    workload::names(text).map(List)
}

pub(crate) fn cores(text: &str) -> Result<List<usize>, ParseError> {
    workload::cores(text).map(List)
}

fn durations(text: &str) -> Result<List<u64>, ParseError> {
    // Durations are below 2^53 ns, so that the way through floating point is exact.
    let values = workload::list(text, |item| workload::duration_ns(item).map(|ns| ns as f64))?;
    Ok(List(values.into_iter().map(|ns| ns as u64).collect()))
}

fn preempts(text: &str) -> Result<List<Preempt>, String> {
    text.split(',').map(str::parse).collect::<Result<_, _>>().map(List)
}

pub(crate) fn loads(text: &str) -> Result<List<f64>, ParseError> {
    workload::list(text, workload::load).map(List)
}

fn rates(text: &str) -> Result<List<f64>, ParseError> {
    workload::list(text, workload::rate_rps).map(List)
}

/// `--dispatcher`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DispatcherArg {
    /// As fits the machine and the transports
    Auto,
    /// It polls all the time
    Busy,
    /// It sleeps when there is nothing to do
    Blocking,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Json {
    /// Write the result as JSON to FILE; `-`: to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<String>,
}

/// What runs the requests.
#[derive(Args, Clone, Debug)]
pub(crate) struct System {
    #[command(flatten)]
    policies: Policies,
    #[command(flatten)]
    pub(crate) darc: DarcArgs,
    /// Dispatchers, each with its share of the workers and a policy of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    dispatchers: u16,
    /// Worker threads; by default one for each core allowed but the dispatchers'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Cores to run on: first the dispatchers', then the workers'
    #[arg(long, value_name = "LIST", value_parser = cores)]
    cores: Option<List<usize>>,
    /// How a request is made to give up its core: auto (as the policy wants it), never, flag, clock,
    /// signal
    #[arg(long, value_name = "HOW", value_parser = preempts, default_value = "auto")]
    preempt: List<Preempt>,
    /// How the dispatcher waits for work
    #[arg(long, value_name = "HOW", default_value = "auto")]
    dispatcher: DispatcherArg,
    /// Requests that the system holds at most [default: 16384; simulated: 131072]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    capacity: Option<u32>,
    /// Size of a request's stack in KiB; by default the runtime's
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(16..=65_536))]
    stack_kib: Option<u32>,
}

impl System {
    /// Every policy at every quantum, without repeating those that have no use for one.
    pub(crate) fn specs(&self) -> Result<Vec<Spec>, Failure> {
        let specs = self.policies.specs(self.workers())?;
        Ok(specs.into_iter().map(|spec| self.darc.apply(spec)).collect())
    }

    /// How the runtime is to pre-empt, one after another.
    pub(crate) fn preempts(&self) -> &[Preempt] {
        &self.preempt.0
    }

    /// How the runtime is to pre-empt, where only one way is possible.
    pub(crate) fn only_preempt(&self) -> Result<Preempt, Failure> {
        match self.preempt.0[..] {
            [preempt] => Ok(preempt),
            _ => Err(Failure::usage("--preempt: several ways are for bench only")),
        }
    }

    /// How many dispatchers.
    pub(crate) fn dispatchers(&self) -> usize {
        usize::from(self.dispatchers)
    }

    /// How many workers.
    pub(crate) fn workers(&self) -> usize {
        let spare = |cores: usize| cores.saturating_sub(self.dispatchers()).max(self.dispatchers());
        match (self.workers, &self.cores) {
            (Some(n), _) => usize::from(n),
            (None, Some(cores)) => spare(cores.0.len()),
            (None, None) => spare(allowed_cores()),
        }
    }

    /// How many workers, where that was said.
    pub(crate) fn asked_workers(&self) -> Option<usize> {
        self.workers.map(usize::from)
    }

    /// How many requests the system holds at most.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity.unwrap_or(16_384)
    }

    /// How many requests the system holds at most, if that was given.
    pub(crate) fn capacity_asked_for(&self) -> Option<u32> {
        self.capacity
    }

    /// The policy, pre-empted in each way asked for: what the runtime does at its start, for
    /// simulations.
    pub(crate) fn preempted(&self, spec: &Spec) -> Vec<Spec> {
        let by = |preempt: &Preempt| match preempt {
            Preempt::Auto => spec.clone(),
            Preempt::Never => spec.clone().with_preempt(PreemptKind::Never),
            Preempt::Flag => spec.clone().with_preempt(PreemptKind::Flag),
            Preempt::Clock => spec.clone().with_preempt(PreemptKind::Clock),
            Preempt::Signal => spec.clone().with_preempt(PreemptKind::Signal),
        };
        self.preempts().iter().map(by).collect()
    }

    /// The system as the runtime is to be.
    pub(crate) fn runtime(&self) -> runtime::System {
        runtime::System {
            workers: self.workers(),
            dispatchers: self.dispatchers(),
            dispatcher: match self.dispatcher {
                DispatcherArg::Auto => DispatcherMode::Auto,
                DispatcherArg::Busy => DispatcherMode::Busy,
                DispatcherArg::Blocking => DispatcherMode::Blocking,
            },
            capacity: self.capacity(),
            cores: self.cores.as_ref().map(|cores| cores.0.clone()),
            stack_bytes: self.stack_kib.map(|kib| kib as usize * 1024),
        }
    }
}

/// How many cores this process may use.
pub(crate) fn allowed_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the requests are.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkloadArgs {
    /// A workload by name; see `curtail workloads`
    #[arg(
        long,
        value_name = "NAME",
        default_value = "extreme-bimodal",
        conflicts_with = "classes"
    )]
    workload: String,
    /// A workload of one's own: name:service:share, …; service is 0.5us, exp(1us) or
    /// uniform(1us..3us)
    #[arg(long, value_name = "CLASSES", value_parser = Mix::parse)]
    classes: Option<Mix>,
}

impl WorkloadArgs {
    /// The workload and its name.
    pub(crate) fn mix(&self) -> Result<(String, Mix), Failure> {
        match &self.classes {
            Some(mix) => Ok((mix.to_string(), mix.clone())),
            None => {
                let named = workload::named(&self.workload).map_err(Failure::usage)?;
                Ok((named.name.to_owned(), named.mix()))
            }
        }
    }
}

/// What is offered to the system.
#[derive(Args, Clone, Debug)]
pub(crate) struct Offered {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// When requests arrive: poisson, uniform, bursty:PEAK:BURST
    #[arg(long, value_name = "PROCESS", default_value = "poisson", value_parser = Arrivals::parse)]
    pub(crate) arrivals: Arrivals,
    /// Offered load as a fraction of the workers' total capacity [default: 0.7]
    #[arg(long, value_name = "FRACTIONS", value_parser = loads, conflicts_with = "rate")]
    load: Option<List<f64>>,
    /// Offered load in requests per second
    #[arg(long, value_name = "RATES", value_parser = rates)]
    rate: Option<List<f64>>,
    /// How long requests arrive, the warm-up included [default: 5s; simulated: --jobs 1000000]
    #[arg(long, value_name = "DURATION", value_parser = workload::duration_ns)]
    duration: Option<u64>,
    /// Requests that arrive before this are not counted [default: a tenth]
    #[arg(long, value_name = "DURATION", value_parser = workload::duration_ns)]
    warmup: Option<u64>,
    /// Of the random numbers: the same seed offers the same requests at the same times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Offered {
    /// The loads asked for, on so many workers (`None`: unknown) with this mean service time.
    pub(crate) fn points(
        &self,
        mean_ns: f64,
        workers: Option<usize>,
    ) -> Result<Vec<Point>, Failure> {
        Ok(self.asked().points(mean_ns, workers)?)
    }

    /// The loads asked for, or the usual one.
    pub(crate) fn loads(&self) -> &[f64] {
        self.asked().loads()
    }

    /// Which loads were asked for.
    pub(crate) fn asked(&self) -> Asked<'_> {
        match (&self.rate, &self.load) {
            (Some(rates), _) => Asked::Rates(&rates.0),
            (None, Some(loads)) => Asked::Loads(&loads.0),
            (None, None) => Asked::Nothing,
        }
    }

    /// Whether loads or rates were given at all.
    pub(crate) fn asks_for_a_load(&self) -> bool {
        self.load.is_some() || self.rate.is_some()
    }

    /// The requests of a mix at that rate, for as long as they arrive.
    pub(crate) fn requests(&self, mix: &Mix, at: Point) -> Requests {
        let until = Until::Time(self.duration_ns());
        Requests::new(mix, self.arrivals, at.rate_rps, self.seed, until)
    }

    /// How long requests arrive.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.duration.unwrap_or(DEFAULT_DURATION_NS)
    }

    /// Whether a duration or a warm-up in time was given at all.
    pub(crate) fn asks_for_a_time(&self) -> bool {
        self.duration.is_some() || self.warmup.is_some()
    }

    /// The warm-up, shorter than the duration.
    pub(crate) fn warmup_ns(&self) -> Result<u64, Failure> {
        Ok(curtail_experiment::warmup_ns(self.duration_ns(), self.warmup)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Both {
        #[command(flatten)]
        system: System,
        #[command(flatten)]
        offered: Offered,
    }

    fn parse(line: &str) -> Both {
        Both::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).unwrap()
    }

    #[test]
    fn loads_and_rates_are_two_views() {
        let both = parse("--load 0.5,1 --classes a:10us:1");
        let points = both.offered.points(10_000.0, Some(2)).unwrap();
        assert_eq!(points[0], Point { load: Some(0.5), rate_rps: 100_000.0 });
        assert_eq!(points[1].rate_rps, 200_000.0);
        let points = parse("--rate 100k").offered.points(10_000.0, Some(2)).unwrap();
        assert_eq!(points, [Point { load: Some(0.5), rate_rps: 100_000.0 }]);
        assert!(parse("--load 0.5").offered.points(10_000.0, None).is_err());
        assert!(parse("--load 0.5").offered.points(0.0, Some(1)).is_err());
    }

    #[test]
    fn warm_up_is_a_tenth() {
        assert_eq!(parse("--duration 10s").offered.warmup_ns().unwrap(), 1_000_000_000);
        assert_eq!(parse("--duration 10s --warmup 0").offered.warmup_ns().unwrap(), 0);
        assert!(parse("--duration 1s --warmup 1s").offered.warmup_ns().is_err());
        assert!(parse("--duration 0").offered.warmup_ns().is_err());
    }

    #[test]
    fn mechanisms_may_stand_side_by_side() {
        let several = parse("--preempt never,signal").system;
        assert_eq!(several.preempts(), [Preempt::Never, Preempt::Signal]);
        assert!(matches!(several.only_preempt(), Err(Failure::Usage(_))));
        assert_eq!(parse("").system.only_preempt().unwrap(), Preempt::Auto);
    }
}
