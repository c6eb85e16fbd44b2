//! `curtail sim`: the policies in virtual time.
//!
//! Runs are independent, and each is one thread's; a sweep uses all cores. Progress is drawn by a
//! thread that finishes a run, between runs.

mod costs;
mod offer;
mod replay;

use crate::args::{Json, Offered, Point, System, allowed_cores};
use crate::failure::Failure;
use crate::measured::{self, Measured, found_line, named, verdict};
use crate::output;
use crate::typed::{Changing, ClassifierArgs};
use clap::{Arg, Args};
pub(crate) use costs::CostArgs;
use curtail_experiment::Setting;
use curtail_experiment::figures::{Asked, ELSEWHERE};
use curtail_policy::{Balance, HotFlows, Spec};
use curtail_report::{Run, write_text};
use curtail_sim::{Config, Hints, Kthreads, sweep};
use curtail_workload::{Slo, duration_ns, format_rate};
use indicatif::ProgressBar;
use offer::OfferArgs;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// `curtail sim`.
#[derive(Args)]
#[command(mut_args(apart))]
pub(crate) struct Sim {
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    offered: Offered,
    #[command(flatten)]
    offer: OfferArgs,
    #[command(flatten)]
    types: ClassifierArgs,
    /// So many runs of each point, with seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    seeds: u32,
    #[command(flatten)]
    costs: CostArgs,
    /// How requests come to dispatchers: random, rss (by flow, as by sockets that share a port), jsq,
    /// power-of-two
    #[arg(long, value_name = "HOW", default_value_t)]
    balance: Balance,
    /// Flows that rss tells apart
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    flows: u32,
    /// Of these, so many that have so much of the requests, such as 2:0.9
    #[arg(long, value_name = "N:SHARE")]
    hot_flows: Option<HotFlows>,
    /// A request that has started stays on its worker, as in the runtime
    #[arg(long)]
    pinned: bool,
    /// Without a dispatcher: how long a worker without work searches before it sleeps
    #[arg(long, value_name = "DURATION", value_parser = duration_ns, default_value = "2us")]
    spin: u64,
    /// What policies are told of service times: none, class (means), exact
    #[arg(long, value_name = "WHAT", default_value_t)]
    hints: Hints,
    /// Runs at a time [default: as many as there are cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// An objective: '[CLASS:] p99.9 slowdown 50' or '[CLASS:] p99 sojourn 100us'
    #[arg(long, value_name = "OBJECTIVE", value_parser = Slo::parse)]
    slo: Option<Slo>,
    /// Search the highest load at which the objective is met
    #[arg(long, requires = "slo")]
    find_max: bool,
    /// Play again what `bench` or `serve` recorded with --record, and compare the decisions. Of the
    /// other options only --json goes with it
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Draw a paper's figure again: its name (a wrong one lists them), `simulated` (what the papers
    /// simulate), `measured` (what they measure, with ideal and calibrated costs), all; or `auto`: that
    /// policy beside the best of the others, on every workload at every load. --costs says what
    /// `calibrated` is; beside it only --jobs, --seed, --threads, --figures-dir, --markdown and --json
    /// go with it
    #[arg(long, value_name = "NAME")]
    figure: Option<String>,
    /// Where the figures' pictures, pages and JSON go
    #[arg(long, value_name = "DIR", default_value = "target/figures", requires = "figure")]
    figures_dir: PathBuf,
    /// What the papers say of measured figures, beside ours, as tables of Markdown; `-`: to standard
    /// output, instead of the text
    #[arg(long, value_name = "FILE", requires = "figure", conflicts_with = "json")]
    markdown: Option<String>,
    #[command(flatten)]
    json: Json,
}

/// What goes with a record, which says all the rest itself; and what with a figure, likewise.
const WITH_REPLAY: [&str; 2] = ["replay", "json"];
const WITH_FIGURE: [&str; 8] =
    ["figure", "figures_dir", "jobs", "seed", "threads", "costs", "markdown", "json"];

/// One run of a sweep.
struct Task<'a> {
    spec: &'a Spec,
    at: Point,
    seed: u64,
}

impl Sim {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if let Some(file) = &self.replay {
            return replay::run(file, self.json.json.as_deref());
        }
        if let Some(name) = &self.figure {
            return self.draw(name);
        }
        let specs = self.specs()?;
        let setting = self.setting()?;
        for spec in &specs {
            setting.config(spec, 0).validate().map_err(Failure::usage)?;
        }
        let class =
            measured::slo_class(self.slo.as_ref(), &setting.offer.name, setting.offer.mix())?;
        let start = Instant::now();
        let changing = self.offer.changing(&setting.offer)?;
        let (measured, lines) = if let Some(changing) = &changing {
            (self.sweep_phases(&setting, changing, &specs)?, Vec::new())
        } else if self.find_max {
            self.search(&setting, &specs, class)?
        } else {
            self.sweep(&setting, &specs, class)?
        };
        let took_s = start.elapsed().as_secs_f64();
        let runs: Vec<Run> = measured.into_iter().map(|measured| measured.run).collect();
        let many = self.find_max || runs.len() > 1;
        output::results(&runs, many, self.json.json.as_deref())?;
        output::beside(&lines, self.json.json.as_deref())?;
        let events = setting.events.load(Ordering::Relaxed) as f64;
        let said = format!(
            "{} events in {took_s:.1} s, {}/s",
            format_rate(events),
            format_rate(events / took_s.max(1e-9))
        );
        output::beside(&[said], self.json.json.as_deref())?;
        if self.find_max { Ok(()) } else { output::all_valid(&runs) }
    }

    /// A figure, or all: as text, and as JSON where that was asked for.
    fn draw(&self, name: &str) -> Result<(), Failure> {
        let asked = Asked {
            name,
            jobs: self.offer.jobs(),
            seed: self.offered.seed,
            threads: self.threads(),
            costs: self.costs.named(),
            dir: &self.figures_dir,
            markdown: self.markdown.as_deref(),
        };
        let json = self.json.json.as_deref();
        let show = |text: &str| match json.or(asked.markdown) {
            Some("-") => Ok(()),
            _ => write_text("-", text),
        };
        let bar = progress(asked.count()? as u64);
        let ran = |what: &str| {
            bar.set_message(what.to_owned());
            bar.inc(1);
        };
        let figures = asked.draw(ran, |text| Ok(bar.suspend(|| show(&format!("{text}\n")))?))?;
        bar.finish_and_clear();
        if figures.len() > 1 {
            show(&format!("{ELSEWHERE}\n"))?;
        }
        if let Some(file) = json {
            write_text(file, &format!("{:#}\n", Value::from(figures)))?;
        }
        Ok(show(&format!("pictures and pages: {}\n", self.figures_dir.display()))?)
    }

    fn specs(&self) -> Result<Vec<Spec>, Failure> {
        let specs = self.system.specs()?;
        Ok(specs.iter().flat_map(|spec| self.system.preempted(spec)).collect())
    }

    fn setting(&self) -> Result<Setting, Failure> {
        let capacity = self.system.capacity_asked_for();
        Ok(Setting {
            offer: self.offer.offer(&self.offered, self.types.classifier)?,
            workers: self.system.workers(),
            dispatchers: self.system.dispatchers(),
            balance: self.balance,
            flows: self.flows as usize,
            hot: self.hot_flows,
            capacity: capacity.map_or(Config::DEFAULT_CAPACITY, |n| n as usize),
            pinned: self.pinned,
            hints: self.hints,
            known: self.system.darc.knows(),
            kthreads: Kthreads { spin_ns: self.spin, ..Kthreads::default() },
            costs: self.costs.costs("ideal")?,
            events: AtomicU64::new(0),
            stop: Arc::default(),
        })
    }

    fn threads(&self) -> usize {
        self.threads.map_or_else(allowed_cores, usize::from)
    }

    fn sweep(
        &self,
        setting: &Setting,
        specs: &[Spec],
        class: Option<usize>,
    ) -> Result<(Vec<Measured>, Vec<String>), Failure> {
        let points = setting.offer.points(self.offered.asked(), setting.workers)?;
        let mut tasks = Vec::new();
        for spec in specs {
            for &at in &points {
                let seeds = (0..u64::from(self.seeds)).map(|i| self.offered.seed.wrapping_add(i));
                tasks.extend(seeds.map(|seed| Task { spec, at, seed }));
            }
        }
        let bar = progress(tasks.len() as u64);
        let partial = output::partial(self.json.json.as_deref())?;
        let measured = sweep(&tasks, self.threads(), |task| {
            let measured = setting.measure(task.spec, task.at, task.seed)?;
            partial.add(&measured.run)?;
            bar.set_message(format!("{} at {}/s", named(task.spec), format_rate(task.at.rate_rps)));
            bar.inc(1);
            Ok::<_, Failure>(measured)
        })?;
        bar.finish_and_clear();
        let lines = self
            .slo
            .iter()
            .flat_map(|slo| measured.iter().map(move |measured| verdict(slo, class, measured)));
        let lines = lines.collect();
        Ok((measured, lines))
    }

    /// Every policy at every load under the changing workload.
    fn sweep_phases(
        &self,
        setting: &Setting,
        changing: &Changing,
        specs: &[Spec],
    ) -> Result<Vec<Measured>, Failure> {
        let points = setting.offer.points(self.offered.asked(), setting.workers)?;
        let tasks: Vec<_> =
            specs.iter().flat_map(|spec| points.iter().map(move |at| (spec, at))).collect();
        let bar = progress(tasks.len() as u64);
        let partial = output::partial(self.json.json.as_deref())?;
        let results = sweep(&tasks, self.threads(), |&(spec, at)| {
            let load = at.load.unwrap_or(1.0);
            let results = setting.measure_phases(changing, spec, load, self.offered.seed)?;
            bar.inc(1);
            results.iter().try_for_each(|one| partial.add(&one.run))?;
            Ok::<_, Failure>(results)
        })?;
        bar.finish_and_clear();
        Ok(results.into_iter().flatten().collect())
    }

    fn search(
        &self,
        setting: &Setting,
        specs: &[Spec],
        class: Option<usize>,
    ) -> Result<(Vec<Measured>, Vec<String>), Failure> {
        let slo = self.slo.as_ref().ok_or_else(|| Failure::usage("--find-max needs --slo"))?;
        if self.offered.asks_for_a_load() {
            return Err(Failure::usage("--find-max chooses the loads itself"));
        }
        let full_rps = setting.offer.point(1.0, setting.workers).rate_rps;
        let bar = progress(specs.len() as u64);
        let partial = output::partial(self.json.json.as_deref())?;
        let searched = sweep(specs, self.threads(), |spec| {
            let (runs, found) = setting.find_max(spec, (slo, class), self.offered.seed, |run| {
                let rate = format_rate(run.offered_rps);
                bar.set_message(format!("{} at {rate}/s", named(spec)));
                bar.tick();
            })?;
            bar.inc(1);
            runs.iter().try_for_each(|one| partial.add(&one.run))?;
            Ok::<_, Failure>((runs, found_line(&named(spec), slo, &found, full_rps)))
        })?;
        bar.finish_and_clear();
        let (runs, lines): (Vec<_>, Vec<_>) = searched.into_iter().unzip();
        Ok((runs.into_iter().flatten().collect(), lines))
    }
}

/// Says of each option with which of --replay and --figure it does not go. (`exclusive` would refuse
/// --json, too.)
fn apart(option: Arg) -> Arg {
    let others = [("replay", &WITH_REPLAY[..]), ("figure", &WITH_FIGURE)];
    others.into_iter().fold(option, |option, (other, goes)| {
        let goes = goes.contains(&option.get_id().as_str());
        if goes { option } else { option.conflicts_with(other) }
    })
}

fn progress(runs: u64) -> ProgressBar {
    output::bar(Some(runs), "{bar:20} {pos}/{len} {msg} {eta}")
}
