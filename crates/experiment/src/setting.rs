//! Simulated runs, and their results.

use crate::{Error, Measured, Offer, Point, informed};
use curtail_load::{Slowdowns, fill, lateness};
use curtail_policy::{HotFlows, Nanos, Spec};
use curtail_report::{Cpu, Run};
use curtail_sim::{Balance, Config, Costs, Hints, Kthreads, Outcome};
use curtail_workload::{Class, Found, Search, Slo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What stays the same from run to run.
#[derive(Debug)]
pub struct Setting {
    /// What arrives.
    pub offer: Offer,
    /// How many workers.
    pub workers: usize,
    /// How many dispatchers, each with its share of the workers.
    pub dispatchers: usize,
    /// How requests come to dispatchers.
    pub balance: Balance,
    /// Flows that [`Balance::Rss`] tells apart.
    pub flows: usize,
    /// Of these, some that have most of the requests.
    pub hot: Option<HotFlows>,
    /// How many jobs each dispatcher's part of the system holds at most.
    pub capacity: usize,
    /// A job that has started stays on its worker.
    pub pinned: bool,
    /// What policies are told of service times.
    pub hints: Hints,
    /// Policies know the classes' mean service times and shares from the start.
    pub known: bool,
    /// What kthreads do where there is no dispatcher.
    pub kthreads: Kthreads,
    /// What everything costs.
    pub costs: Costs,
    /// Events of all runs so far.
    pub events: AtomicU64,
    /// Set, by whomever: runs under way end early, with [`Error::Stopped`].
    pub stop: Arc<AtomicBool>,
}

impl Setting {
    /// One dispatcher, no costs.
    #[must_use]
    pub fn ideal(offer: Offer, workers: usize) -> Self {
        Self {
            offer,
            workers,
            dispatchers: 1,
            balance: Balance::default(),
            flows: 1_024,
            hot: None,
            capacity: Config::DEFAULT_CAPACITY,
            pinned: false,
            hints: Hints::default(),
            known: false,
            kthreads: Kthreads::default(),
            costs: Costs::IDEAL,
            events: AtomicU64::new(0),
            stop: Arc::default(),
        }
    }

    /// A system with that policy.
    #[must_use]
    pub fn config(&self, spec: &Spec, seed: u64) -> Config {
        let mix = self.offer.mix();
        let spec = if self.known { informed(spec.clone(), mix) } else { spec.clone() };
        let mean_ns = |class: &Class| class.service.mean_ns().round() as u64;
        let classes = mix.classes().iter();
        let known = classes.clone().map(|class| {
            let service = (self.hints == Hints::Class).then(|| Nanos(mean_ns(class)));
            (class.name.clone(), service)
        });
        Config {
            dispatchers: self.dispatchers,
            balance: self.balance,
            flows: self.flows,
            hot: self.hot,
            costs: self.costs,
            capacity: self.capacity,
            pinned: self.pinned,
            hints: self.hints,
            kthreads: self.kthreads,
            class_means_ns: classes.map(mean_ns).collect(),
            ..Config::ideal(spec.knowing(known), self.workers, seed)
        }
    }

    /// Simulates one policy at one load.
    ///
    /// # Errors
    /// The system makes no sense, a trace's file has changed, or the run was stopped.
    pub fn measure(&self, spec: &Spec, at: Point, seed: u64) -> Result<Measured, Error> {
        let config = self.config(spec, seed);
        let outcome = self.offer.simulate(&config, at, &self.stop)?;
        self.events.fetch_add(outcome.events, Ordering::Relaxed);
        let run = self.result(spec, at, seed, &outcome);
        Ok(Measured { run, recorder: outcome.recorder, notes: Vec::new() })
    }

    /// Searches the highest load at which the policy meets the objective (of that class). Tells
    /// `ran` of each run, and gives all of them.
    ///
    /// # Errors
    /// As [`Setting::measure`], and where requests without service make no load.
    pub fn find_max(
        &self,
        spec: &Spec,
        (slo, class): (&Slo, Option<usize>),
        seed: u64,
        mut ran: impl FnMut(&Run),
    ) -> Result<(Vec<Measured>, Found), Error> {
        if !self.offer.point(1.0, self.workers).rate_rps.is_finite() {
            return Err(Error::usage("--find-max: requests without service make no load"));
        }
        let mut runs: Vec<Measured> = Vec::new();
        let found = Search::new(slo.limit).run(|load| {
            let at = self.offer.point(load, self.workers);
            // A close load is tried again with other requests.
            let tried = runs.iter().filter(|it| it.run.offered_rps == at.rate_rps).count();
            let measured = self.measure(spec, at, seed.wrapping_add(tried as u64))?;
            let measurement = measured.against(slo, class);
            ran(&measured.run);
            runs.push(measured);
            Ok::<_, Error>(measurement)
        })?;
        Ok((runs, found))
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
            decided: outcome.decided.clone(),
            preempt_late_ns: outcome.late.as_ref().and_then(lateness),
            cpu: Some(Cpu {
                app: shares.app,
                switch: shares.overhead,
                idle: shares.idle,
                busy_s: None,
            }),
            ..Run::default()
        };
        let slowdowns = Slowdowns::Known;
        fill(&mut run, &outcome.recorder, &names, &outcome.dropped, slowdowns);
        // An overloaded system goes on for a while after the last arrival.
        let took_ns = window_ns.max(outcome.until_drained_ns).max(1);
        run.achieved_rps = run.completed as f64 * 1e9 / took_ns as f64;
        run.judge_drops();
        if run.completed == 0 {
            run.invalidate("no request completed after the warm-up");
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, Source};
    use curtail_workload::{Arrivals, Mix};

    fn setting(jobs: u64) -> Setting {
        let mix = Mix::parse("a:1us:1,b:9us:1").unwrap();
        let length = Length::Jobs(jobs);
        Setting::ideal(Offer::new("x".into(), Source::Mix(mix), Arrivals::Poisson, length), 2)
    }

    #[test]
    fn a_run_that_is_stopped_has_no_result() {
        // Had it gone on, it would have for days.
        let setting = setting(u64::MAX);
        setting.stop.store(true, Ordering::Relaxed);
        let at = setting.offer.point(0.5, 2);
        let measured = setting.measure(&Spec::preset("tq").unwrap(), at, 1);
        assert_eq!(measured.err(), Some(Error::Stopped));
    }

    #[test]
    fn the_highest_load_is_between_one_that_does_and_one_that_does_not() {
        let setting = setting(20_000);
        let slo = Slo::parse("b: p99 sojourn 60us").unwrap();
        let class = crate::class_of(&slo, "x", setting.offer.mix()).unwrap();
        assert_eq!(class, Some(1));
        let mut told = 0;
        let spec = Spec::preset("fcfs").unwrap();
        let (runs, found) = setting.find_max(&spec, (&slo, class), 1, |_| told += 1).unwrap();
        let (max, fails) = (found.max_load.unwrap(), found.fails_at.unwrap());
        assert!(max < fails && fails - max <= 0.011, "{max} {fails}");
        assert_eq!(told, runs.len());
        let meets = |run: &Measured| run.against(&slo, class).value <= slo.limit;
        assert!(runs.iter().any(|run| run.run.load == Some(max) && meets(run)));
        assert!(runs.iter().any(|run| run.run.load == Some(fails) && !meets(run)));
    }

    #[test]
    fn objectives_of_classes_that_are_not_there_are_refused() {
        let slo = Slo::parse("c: p99 sojourn 60us").unwrap();
        let error = crate::class_of(&slo, "x", setting(1).offer.mix()).unwrap_err();
        assert!(error.to_string().ends_with("no class `c`, it has a, b"), "{error}");
    }
}
