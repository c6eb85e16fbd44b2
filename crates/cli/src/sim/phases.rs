//! `curtail sim --phases`: the policies under a workload that changes, results by slices of time.

use super::Sim;
use crate::failure::Failure;
use crate::measured::Measured;
use crate::result::{self, Slowdowns};
use crate::typed::{Changing, reclassified};
use curtail_experiment::Setting;
use curtail_policy::{AnyPolicy, Spec};
use curtail_report::Run;
use curtail_sim::{Done, Observer, run_observed};
use curtail_workload::{Recorder, Request, Until};
use std::sync::atomic::Ordering;

/// What is seen of a run, by slice.
struct Watch<'a> {
    changing: &'a Changing,
    recorders: &'a mut [Recorder],
    decided: &'a mut Vec<Option<String>>,
}

impl Observer for Watch<'_> {
    fn completed(&mut self, done: &Done) {
        let slices = &self.changing.slices;
        let slice = slices.partition_point(|(_, time)| time.end <= done.arrived_ns);
        let class = usize::from(done.class.0);
        self.recorders[slice].record(class, done.sojourn_ns(), done.service_ns, false);
    }

    fn wants_to_look_ns(&self) -> u64 {
        self.changing.slices.get(self.decided.len()).map_or(u64::MAX, |(_, time)| time.end)
    }

    fn look(&mut self, policy: &AnyPolicy) {
        let decided = self.explain(policy);
        self.decided.push(decided);
    }
}

impl Watch<'_> {
    fn explain(&self, policy: &AnyPolicy) -> Option<String> {
        let names = self.changing.phases.classes();
        policy.explain(|class| {
            names.get(usize::from(class.0)).map_or_else(|| "unknown".into(), |&name| name.into())
        })
    }
}

impl Sim {
    /// One policy at one load under the changing workload: its slices.
    pub(super) fn measure_phases(
        &self,
        setting: &Setting,
        changing: &Changing,
        (spec, load, seed): (&Spec, f64, u64),
    ) -> Result<Vec<Measured>, Failure> {
        let phases = &changing.phases;
        let classes = phases.classes().len();
        let requests = phases.source(setting.offer.arrivals, load, setting.workers, seed);
        let requests = requests.map(|it| Request {
            at_ns: it.at_ns,
            class: it.class as u16,
            service_ns: it.service_ns,
        });
        let requests = reclassified(requests, self.types.classifier, classes, seed);
        let mut recorders: Vec<_> =
            changing.slices.iter().map(|_| Recorder::new(classes)).collect();
        let mut decided = Vec::new();
        let watch = Watch { changing, recorders: &mut recorders, decided: &mut decided };
        let config = setting.config(spec, seed);
        let outcome = run_observed(&config, requests, classes, Until::Jobs(0), watch)
            .map_err(Failure::usage)?;
        setting.events.fetch_add(outcome.events, Ordering::Relaxed);
        // After the last request there is no look at it, and it decides nothing else.
        decided.resize(changing.slices.len(), outcome.decided.clone());
        let slices = recorders.into_iter().zip(decided).enumerate();
        let measured = slices.map(|(slice, (recorder, decided))| {
            let mut run = Run {
                verb: "sim".to_owned(),
                policy: spec.name.clone(),
                preempt: spec.preempt.to_string(),
                quantum_ns: spec.quantum.map(|quantum| quantum.0),
                workers: u32::try_from(setting.workers).ok(),
                seed: Some(seed),
                decided,
                ..changing.run(slice, load, setting.workers)
            };
            result::fill(&mut run, &recorder, &changing.names(), &[], Slowdowns::Known);
            run.offered = run.completed;
            run.achieved_rps = run.completed as f64 / run.duration_s;
            if outcome.refused > 0 {
                run.invalidate(&format!("{} requests were dropped in all", outcome.refused));
            }
            Measured { run, recorder, notes: Vec::new() }
        });
        Ok(measured.collect())
    }
}
