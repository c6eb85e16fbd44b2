//! What is simulated.

use crate::{Blocking, Costs, Kthreads, Outages};
use curtail_policy::{Balance, HotFlows, Spec, SpecError};
use std::fmt;
use std::str::FromStr;

/// What policies are told of a job's service time when it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// Nothing.
    None,
    /// Its class's mean, as an application may declare it.
    Class,
    /// Itself, as only an oracle knows it.
    #[default]
    Exact,
}

impl Hints {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Class, Self::Exact];

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Class => "class",
            Self::Exact => "exact",
        }
    }
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Hints {
    type Err = String;
    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|it| it.name() == given).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown hints `{given}` (known: {known})")
        })
    }
}

/// A simulated system.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Its policy.
    pub spec: Spec,
    /// Its workers, at most [`Config::MAX_WORKERS`].
    pub workers: usize,
    /// Its dispatchers, at most as many as workers; each has its share of these.
    pub dispatchers: usize,
    /// How requests come to dispatchers; of no effect with one. Without any they come to the workers,
    /// by [`Balance::Rss`] or else to any, all equally likely.
    pub balance: Balance,
    /// How many flows [`Balance::Rss`] tells apart.
    pub flows: usize,
    /// Of these, some that have most of the requests.
    pub hot: Option<HotFlows>,
    /// What everything costs.
    pub costs: Costs,
    /// How many jobs each dispatcher's part of the system holds at most; others are dropped.
    pub capacity: usize,
    /// Half of these places are kept for the classes, each as much as another, as in servers.
    pub keeps_room: bool,
    /// A job that has started stays on its worker.
    pub pinned: bool,
    /// What policies know in advance.
    pub hints: Hints,
    /// Mean service time of each class in nanoseconds, for [`Hints::Class`]; may be empty
    /// otherwise.
    pub class_means_ns: Vec<u64>,
    /// What kthreads do where there is no dispatcher.
    pub kthreads: Kthreads,
    /// Jobs block in their middle.
    pub blocking: Option<Blocking>,
    /// Workers lose their cores now and then.
    pub outages: Option<Outages>,
    /// Of all that is random in the system. (The requests come from outside.)
    pub seed: u64,
}

/// A [`Config`] that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The policy has an objection.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// More workers than are simulated.
    #[error("{0} workers are more than the {max} simulated", max = Config::MAX_WORKERS)]
    Workers(usize),
    /// No dispatcher, or one without a worker.
    #[error("{dispatchers} dispatchers cannot share {workers} workers")]
    Dispatchers {
        /// Of so many.
        dispatchers: usize,
        /// Over so many.
        workers: usize,
    },
    /// A policy without a dispatcher, and several of them.
    #[error("policy `{0}` has no dispatcher to have several of")]
    Dispatcherless(String),
    /// Jobs that block, or workers without cores, where there is no dispatcher.
    #[error("policy `{0}` has no dispatcher: blocking and lost cores are simulated with one only")]
    Undisturbed(String),
    /// A chance or a share beyond 0 to 1.
    #[error("a chance to block, and the share of service before it, are from 0 to 1")]
    Blocking,
    /// Room for no job, or for more than ids can name.
    #[error("a system holds between 1 and {max} jobs", max = Config::MAX_CAPACITY)]
    Capacity,
    /// Receive-side scaling without flows.
    #[error("rss needs at least one flow")]
    Flows,
    /// Hot flows without others.
    #[error("hot flows are a part of all flows")]
    HotFlows,
}

impl Config {
    /// As many workers as are simulated.
    pub const MAX_WORKERS: usize = 1_024;
    /// As many jobs as one dispatcher's part of a system may hold.
    pub const MAX_CAPACITY: usize = 1 << 24;
    /// As many jobs as it holds unless told otherwise.
    pub const DEFAULT_CAPACITY: usize = 1 << 17;

    /// An ideal system: one dispatcher, no costs.
    #[must_use]
    pub fn ideal(spec: Spec, workers: usize, seed: u64) -> Self {
        Self {
            spec,
            workers,
            dispatchers: 1,
            balance: Balance::default(),
            flows: 1_024,
            hot: None,
            costs: Costs::IDEAL,
            capacity: Self::DEFAULT_CAPACITY,
            keeps_room: false,
            pinned: false,
            hints: Hints::default(),
            class_means_ns: Vec::new(),
            kthreads: Kthreads::default(),
            blocking: None,
            outages: None,
            seed,
        }
    }

    /// Whether it makes sense.
    ///
    /// # Errors
    /// The first thing that does not.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let (workers, dispatchers) = (self.workers, self.dispatchers);
        if workers > Self::MAX_WORKERS {
            return Err(ConfigError::Workers(workers));
        }
        self.spec.validate(workers)?;
        if dispatchers == 0 || dispatchers > workers {
            return Err(ConfigError::Dispatchers { dispatchers, workers });
        }
        if self.spec.is_dispatcherless() && dispatchers > 1 {
            return Err(ConfigError::Dispatcherless(self.spec.name.clone()));
        }
        let disturbed = self.blocking.is_some() || self.outages.is_some();
        if self.spec.is_dispatcherless() && disturbed {
            return Err(ConfigError::Undisturbed(self.spec.name.clone()));
        }
        if self.blocking.is_some_and(|blocking| !blocking.is_valid()) {
            return Err(ConfigError::Blocking);
        }
        // The smallest part must do, too.
        self.spec.validate(workers / dispatchers)?;
        if self.capacity == 0 || self.capacity > Self::MAX_CAPACITY {
            return Err(ConfigError::Capacity);
        }
        if self.hot.is_some_and(|hot| hot.flows >= self.flows) {
            return Err(ConfigError::HotFlows);
        }
        if self.flows == 0 {
            return Err(ConfigError::Flows);
        }
        Ok(())
    }
}
