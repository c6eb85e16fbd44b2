//! Runs of one client against one server, one after the other: what is asked for, or a search for
//! the highest load that meets an objective.

use super::Load;
use super::progress::Progress;
use crate::args::Point;
use crate::failure::Failure;
use crate::measured::{Measured, found_line, verdict};
use curtail_load::client::{Client, Plan, Seen, judge, result, told};
use curtail_report::{Partial, Run};
use curtail_workload::{Metric, Mix, Search, Slo, format_duration, format_rate};
use std::time::Duration;

/// What stays the same from run to run. Its bar is gone from the terminal when it is.
pub(super) struct Series<'a> {
    pub(super) load: &'a Load,
    pub(super) client: Client,
    pub(super) workload: String,
    pub(super) mix: Mix,
    /// Service times by class, 0: as the request says (spin), or unknown.
    pub(super) services: Vec<u32>,
    pub(super) warmup_ns: u64,
    /// The class that the objective is about, if it is about one.
    pub(super) class: Option<usize>,
    pub(super) progress: Progress,
    /// Has the runs that have ended.
    pub(super) partial: Partial,
}

impl Series<'_> {
    /// One run at each point, and how each stands against the objective, where there is one.
    pub(super) fn sweep(mut self, points: &[Point]) -> Result<(Vec<Run>, Vec<String>), Failure> {
        let (mut runs, mut lines) = (Vec::new(), Vec::new());
        for (number, &point) in points.iter().enumerate() {
            let number = format!("{} of {}", number + 1, points.len());
            let measured = self.measure(point, &number)?;
            if let Some(slo) = &self.load.slo {
                lines.push(verdict(slo, self.class, &measured));
            }
            runs.push(measured.run);
        }
        Ok((runs, lines))
    }

    /// The runs of a search between loads of 0.01 and 1, which is that rate; and what it found.
    pub(super) fn search(
        mut self,
        slo: &Slo,
        full_rps: f64,
    ) -> Result<(Vec<Run>, Vec<String>), Failure> {
        let mut runs: Vec<Run> = Vec::new();
        let found = Search::new(slo.limit).run(|load| {
            let point = Point { load: Some(load), rate_rps: load * full_rps };
            let measured = self.measure(point, &format!("{} (load {load:.3})", runs.len() + 1))?;
            let measurement = measured.against(slo, self.class);
            runs.push(measured.run);
            Ok::<_, Failure>(measurement)
        })?;
        let line = found_line(&self.load.url.to_string(), slo, &found, full_rps);
        Ok((runs, vec![line]))
    }

    fn measure(&mut self, point: Point, number: &str) -> Result<Measured, Failure> {
        let load = self.load;
        let offered = &load.offered;
        let duration_ns = offered.duration_ns();
        let plan = Plan {
            requests: offered.requests(&self.mix, point),
            services: self.services.clone(),
            seed: offered.seed,
            duration_ns,
            warmup_ns: self.warmup_ns,
            timeout_ns: load.timeout,
            spin: load.spin,
        };
        let rate = format_rate(point.rate_rps);
        let what = format!("run {number}: {rate}/s for {}", format_duration(duration_ns));
        let Self { progress, client, .. } = self;
        let long = Duration::from_nanos(duration_ns);
        let seen = progress.during(what, long, || client.drive(plan))?;
        self.progress.say(&told(&seen));
        let by_slowdown = load.slo.as_ref().is_some_and(|slo| slo.metric == Metric::Slowdown);
        if by_slowdown && seen.unknown_service {
            return Err(Failure::failed(
                "--slo: the server does not tell what its service takes, say it with --service",
            ));
        }
        let run = self.result(point, &seen);
        self.partial.add(&run)?;
        Ok(Measured { run, recorder: seen.tally.recorder, notes: Vec::new() })
    }

    fn result(&self, point: Point, seen: &Seen) -> Run {
        let mut run = result(&self.mix, seen);
        (run.offered_rps, run.load) = (point.rate_rps, point.load);
        run.verb = "load".to_owned();
        run.policy = self.load.policy.clone();
        run.preempt = "unknown".to_owned();
        run.workers = self.load.workers.map(u32::from);
        run.workload = self.workload.clone();
        judge(&mut run, seen, self.load.max_lateness);
        run
    }
}
