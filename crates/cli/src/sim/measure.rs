//! One simulated run, and its result.

use super::offer::Offer;
use crate::args::Point;
use crate::failure::Failure;
use crate::measured::Measured;
use crate::result::{self, Slowdowns};
use crate::typed::DarcArgs;
use curtail_policy::{Nanos, Spec};
use curtail_report::{Cpu, Run};
use curtail_sim::{Balance, Config, Costs, Hints, Outcome};
use std::sync::atomic::{AtomicU64, Ordering};

/// What stays the same from run to run.
pub(crate) struct Setting {
    pub(crate) offer: Offer,
    pub(crate) workers: usize,
    pub(crate) dispatchers: usize,
    pub(crate) balance: Balance,
    pub(crate) flows: usize,
    pub(crate) capacity: usize,
    pub(crate) pinned: bool,
    pub(crate) hints: Hints,
    pub(crate) darc: DarcArgs,
    pub(crate) costs: Costs,
    /// Events of all runs so far.
    pub(crate) events: AtomicU64,
}

impl Setting {
    /// A system with that policy.
    pub(crate) fn config(&self, spec: &Spec, seed: u64) -> Config {
        let mean_ns = |class: &curtail_workload::Class| class.service.mean_ns().round() as u64;
        let classes = self.offer.mix().classes().iter();
        let known = classes.clone().map(|class| {
            let service = (self.hints == Hints::Class).then(|| Nanos(mean_ns(class)));
            (class.name.clone(), service)
        });
        Config {
            dispatchers: self.dispatchers,
            balance: self.balance,
            flows: self.flows,
            costs: self.costs,
            capacity: self.capacity,
            pinned: self.pinned,
            hints: self.hints,
            class_means_ns: classes.map(mean_ns).collect(),
            ..Config::ideal(
                self.darc.inform(spec.clone(), self.offer.mix()).knowing(known),
                self.workers,
                seed,
            )
        }
    }

    /// Simulates one policy at one load.
    pub(crate) fn measure(&self, spec: &Spec, at: Point, seed: u64) -> Result<Measured, Failure> {
        let config = self.config(spec, seed);
        let outcome = self.offer.simulate(&config, at)?;
        self.events.fetch_add(outcome.events, Ordering::Relaxed);
        let run = self.result(spec, at, seed, &outcome);
        Ok(Measured { run, recorder: outcome.recorder, notes: Vec::new() })
    }

    fn result(&self, spec: &Spec, at: Point, seed: u64, outcome: &Outcome) -> Run {
        let classes = self.offer.mix().classes().iter();
        let names: Vec<String> = classes.map(|class| class.name.clone()).collect();
        let window_ns = self.offer.window_ns().unwrap_or(outcome.window_ns);
        let shares = outcome.shares;
        let mut run = Run {
            verb: "sim".to_owned(),
            policy: spec.name.clone(),
            preempt: spec.preempt.to_string(),
            quantum_ns: spec.quantum.map(|quantum| quantum.0),
            workers: u32::try_from(self.workers).ok(),
            workload: self.offer.name.clone(),
            offered_rps: at.rate_rps,
            load: self.offer.load(at),
            duration_s: window_ns as f64 / 1e9,
            offered: outcome.offered,
            seed: Some(seed),
            preemptions: outcome.preemptions,
            preempt_late_ns: outcome.late.as_ref().and_then(result::distribution_lateness),
            cpu: Some(Cpu {
                app: shares.app,
                switch: shares.overhead,
                idle: shares.idle,
                busy_s: None,
            }),
            ..Run::default()
        };
        let slowdowns = Slowdowns::Known;
        result::fill(&mut run, &outcome.recorder, &names, &outcome.dropped, slowdowns);
        // An overloaded system goes on for a while after the last arrival.
        let took_ns = window_ns.max(outcome.until_drained_ns).max(1);
        run.achieved_rps = run.completed as f64 * 1e9 / took_ns as f64;
        if run.completed == 0 {
            run.invalidate("no request completed after the warm-up");
        }
        run
    }
}
