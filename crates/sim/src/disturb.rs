//! What happens to jobs and workers beside service: jobs that block in their middle, and workers that
//! lose their cores for a time.

use curtail_workload::{Service, ServiceSampler, numbers};

/// Jobs that block for a time in the middle of their service. Meanwhile their workers do others; they
/// stay where they have started. Going away from one costs a switch, as a pre-emption does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blocking {
    /// How likely a job is to block, from 0 to 1. It does so once.
    pub chance: f64,
    /// After what share of its service, from 0 to 1.
    pub after: f64,
    /// For how long.
    pub wait: Service,
}

/// Times in which a worker has no core, each worker by itself. What it runs stands still; what it holds
/// waits there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outages {
    /// From the end of one to the beginning of the next.
    pub every: Service,
    /// How long one lasts.
    pub lasts: Service,
    /// The scheduler is told at once when a worker loses its core, and when it has it back.
    pub told: bool,
}

impl Blocking {
    pub(crate) fn is_valid(&self) -> bool {
        (0.0..=1.0).contains(&self.chance) && (0.0..=1.0).contains(&self.after)
    }
}

/// Draws which jobs block, and for how long.
pub(crate) struct Blocker {
    blocking: Blocking,
    wait: ServiceSampler,
    random: Box<dyn FnMut() -> u64 + Send>,
}

impl Blocker {
    pub(crate) fn new(blocking: Blocking, seed: u64) -> Self {
        let random = Box::new(numbers(seed.rotate_left(17)));
        Self { blocking, wait: blocking.wait.sampler(seed.rotate_left(29)), random }
    }

    /// What a job of that length will still have to run when it blocks; 0: it does not.
    pub(crate) fn draw(&mut self, length: u64) -> u64 {
        let unit = (self.random)() as f64 / u64::MAX as f64;
        let left = length - (length as f64 * self.blocking.after) as u64;
        if unit < self.blocking.chance { left.clamp(1, length.max(1)) } else { 0 }
    }

    pub(crate) fn wait(&mut self) -> u64 {
        self.wait.draw()
    }
}

/// Draws when workers lose their cores, and for how long.
pub(crate) struct Thief {
    pub(crate) told: bool,
    every: ServiceSampler,
    lasts: ServiceSampler,
}

impl Thief {
    pub(crate) fn new(outages: &Outages, seed: u64) -> Self {
        let every = outages.every.sampler(seed.rotate_left(41));
        Self { told: outages.told, every, lasts: outages.lasts.sampler(seed.rotate_left(53)) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.every.draw()
    }

    pub(crate) fn length(&mut self) -> u64 {
        self.lasts.draw()
    }
}
