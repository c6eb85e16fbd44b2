//! `--costs` and the options that change single costs.

use crate::failure::Failure;
use clap::Args;
use curtail_sim::Costs;
use curtail_workload::{Service, duration_ns};

/// What things cost.
#[derive(Args, Clone, Debug)]
pub(crate) struct CostArgs {
    /// What everything costs: ideal (nothing), calibrated (as `curtail calibrate` measured it on
    /// this machine), or a FILE [default: ideal; in comparisons: calibrated]
    #[arg(long, value_name = "COSTS", help_heading = "Costs")]
    costs: Option<String>,
    /// Dispatcher: to take a request in
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    receive_cost: Option<u64>,
    /// Dispatcher: to decide on a request and send it to a worker
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    dispatch_cost: Option<u64>,
    /// Dispatcher: to take in that a request completed or came back
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    hear_cost: Option<u64>,
    /// Dispatcher: to ask a worker to yield
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    signal_cost: Option<u64>,
    /// From core to core through a ring, each way
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    ring_delay: Option<u64>,
    /// Until a worker that was asked to yield notices
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    notify_delay: Option<u64>,
    /// Worker: to start a request
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    start_cost: Option<u64>,
    /// Worker: to pre-empt a request
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    switch_cost: Option<u64>,
    /// Worker: after a request completed
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    finish_cost: Option<u64>,
    /// Without a dispatcher: to steal from another worker
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    steal_cost: Option<u64>,
    /// Without a dispatcher: to go to sleep
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    park_cost: Option<u64>,
    /// Without a dispatcher: from a sleeping worker's being woken until it looks for work
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, help_heading = "Costs")]
    wake_delay: Option<u64>,
    /// How much longer than its quantum a request runs: 80ns, exp(80ns), uniform(0..160ns), half-normal(80ns)
    #[arg(long, value_name = "SERVICE", value_parser = Service::parse, help_heading = "Costs")]
    overshoot: Option<Service>,
    /// By what fraction safepoints make requests longer: 0.02
    #[arg(long, value_name = "FRACTION", value_parser = fraction, help_heading = "Costs")]
    instrumentation: Option<f64>,
}

fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
    number.ok_or_else(|| format!("`{text}` is no fraction: write 0.02 for 2%"))
}

impl CostArgs {
    /// What `--costs` says.
    pub(crate) fn named(&self) -> Option<&str> {
        self.costs.as_deref()
    }

    /// What was asked for, or `otherwise`.
    pub(crate) fn costs(&self, otherwise: &str) -> Result<Costs, Failure> {
        let named = self.costs.as_deref().unwrap_or(otherwise);
        let mut costs = curtail_experiment::costs(named)?;
        for (cost, given) in [
            (&mut costs.receive, self.receive_cost),
            (&mut costs.dispatch, self.dispatch_cost),
            (&mut costs.hear, self.hear_cost),
            (&mut costs.signal, self.signal_cost),
            (&mut costs.ring, self.ring_delay),
            (&mut costs.notify, self.notify_delay),
            (&mut costs.start, self.start_cost),
            (&mut costs.switch, self.switch_cost),
            (&mut costs.finish, self.finish_cost),
            (&mut costs.steal, self.steal_cost),
            (&mut costs.park, self.park_cost),
            (&mut costs.wake, self.wake_delay),
        ] {
            *cost = given.unwrap_or(*cost);
        }
        costs.overshoot = self.overshoot.unwrap_or(costs.overshoot);
        costs.instrumentation = self.instrumentation.unwrap_or(costs.instrumentation);
        Ok(costs)
    }
}
