//! `curtail bench`: the real runtime in this process, under an open-loop load.

mod phases;

use crate::args::{Json, Offered, Point, System};
use crate::failure::Failure;
#[cfg(feature = "kv")]
use crate::kv::{self, KvArgs};
use crate::measured::{self, Measured, found_line, named, verdict};
use crate::output;
use crate::serve::Bundled;
use crate::typed::{Changing, ClassifierArgs, phases_of};
use clap::Args;
use curtail::Preempt;
use curtail_experiment::runtime;
use curtail_policy::Spec;
use curtail_report::{Partial, Run};
use curtail_workload::spin::Calibration;
use curtail_workload::{Search, Slo, format_rate};
use indicatif::ProgressBar;
use kv_app::load::Mix;
use std::path::PathBuf;

/// `curtail bench`.
#[derive(Args)]
pub(crate) struct Bench {
    /// What serves the requests
    #[arg(long, default_value = "spin")]
    app: Bundled,
    /// The requests, by name (kv): get-scan-50, get-scan-0.5, zippydb
    #[arg(long, value_name = "NAME", value_parser = mix, required_if_eq("app", "kv"),
          conflicts_with_all = ["workload", "classes"])]
    mix: Option<Mix>,
    #[cfg(feature = "kv")]
    #[command(flatten)]
    kv: KvArgs,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    offered: Offered,
    /// A workload that changes: a FILE of phases, or a name (persephone), or
    /// '5s a:1us:50,b:100us:50; 5s tpcc'
    #[arg(long, value_name = "PHASES",
          conflicts_with_all = ["workload", "classes", "duration", "warmup", "rate", "slo"])]
    phases: Option<String>,
    /// Into how many parts each phase is cut, whose results stand apart
    #[arg(long, value_name = "N", default_value_t = 5, requires = "phases",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    parts: u32,
    #[command(flatten)]
    types: ClassifierArgs,
    /// An objective: '[CLASS:] p99.9 slowdown 50' or '[CLASS:] p99 sojourn 100us'
    #[arg(long, value_name = "OBJECTIVE", value_parser = Slo::parse)]
    slo: Option<Slo>,
    /// Record what the policy is told and decides into FILE, for `sim --replay`: one run only
    #[arg(long, value_name = "FILE", conflicts_with_all = ["find_max", "phases"])]
    record: Option<PathBuf>,
    /// Search the highest load at which the objective is met
    #[arg(long, requires = "slo")]
    find_max: bool,
    #[command(flatten)]
    json: Json,
}

fn mix(name: &str) -> Result<Mix, String> {
    Mix::named(name).ok_or_else(|| {
        let known = Mix::ALL.map(|mix| mix.name).join(", ");
        format!("there is no mix `{name}`, only {known}")
    })
}

impl Bench {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let specs = self.system.specs()?;
        if let Some(given) = &self.phases {
            let (_, phases) = phases_of(given)?;
            return match self.app {
                Bundled::Spin => self.run_phases(&specs, &Changing::new(phases, self.parts)),
                Bundled::Kv => Err(Failure::usage("--phases are for --app spin")),
            };
        }
        let setting = self.setting()?;
        let class =
            measured::slo_class(self.slo.as_ref(), &setting.real.workload, &setting.real.mix)?;
        if self.find_max {
            return self.search(&setting, &specs, class);
        }
        let points =
            self.offered.points(setting.real.mix.mean_ns(), Some(self.system.workers()))?;
        let preempts = self.system.preempts();
        let partial = output::partial(self.json.json.as_deref())?;
        let mut bar = Bar::new((specs.len() * points.len() * preempts.len()) as u64, partial);
        let all = specs.len() * points.len() * preempts.len();
        if self.record.is_some() && all > 1 {
            return Err(Failure::usage("--record: one policy, at one load"));
        }
        let mut runs = Vec::new();
        let mut verdicts = Vec::new();
        for spec in &specs {
            // What is to be compared runs one right after the other.
            for (&point, &preempt) in
                points.iter().flat_map(|point| preempts.iter().map(move |how| (point, how)))
            {
                let measured = bar.step(&setting, (spec, preempt), point)?;
                if let Some(slo) = &self.slo {
                    verdicts.push(verdict(slo, class, &measured));
                }
                runs.push(measured.run);
            }
        }
        bar.finish();
        let json = self.json.json.as_deref();
        output::beside(&setting.told, json)?;
        output::results(&runs, runs.len() > 1, json)?;
        output::beside(&verdicts, json)?;
        output::all_valid(&runs)
    }

    fn setting(&self) -> Result<Setting, Failure> {
        let warmup_ns = self.offered.warmup_ns()?;
        match (self.app, self.mix) {
            (Bundled::Spin, None) => self.spin(warmup_ns),
            (Bundled::Kv, Some(mix)) => self.kv(mix, warmup_ns),
            (Bundled::Spin, Some(_)) => Err(Failure::usage("--mix is for --app kv")),
            (Bundled::Kv, None) => Err(Failure::usage("--app kv needs --mix")),
        }
    }

    fn spin(&self, warmup_ns: u64) -> Result<Setting, Failure> {
        let (workload, mix) = self.offered.workload.mix()?;
        if mix.classes().len() > usize::from(u16::MAX) {
            return Err(Failure::usage("more classes than a request can name"));
        }
        let application = Application::Spin(Calibration::measure());
        Ok(self.with(workload, mix, warmup_ns, application))
    }

    #[cfg(feature = "kv")]
    fn kv(&self, mix: Mix, warmup_ns: u64) -> Result<Setting, Failure> {
        let options = self.kv.options();
        if options.keys == 0 {
            return Err(Failure::usage("--keys: requests need a key to ask for"));
        }
        let measured = kv::measure(&mix, &options)?;
        let told = measured.told(self.system.workers(), None);
        let kv::Measured { name, mix: workload, services } = measured;
        let application = Application::Kv { mix, options, services };
        let setting = self.with(name.to_owned(), workload, warmup_ns, application);
        Ok(Setting { told: vec![told], ..setting })
    }

    #[cfg(not(feature = "kv"))]
    fn kv(&self, _: Mix, _: u64) -> Result<Setting, Failure> {
        Err(crate::serve::without_kv())
    }

    fn with(
        &self,
        workload: String,
        mix: curtail_workload::Mix,
        warmup_ns: u64,
        application: Application,
    ) -> Setting {
        Setting {
            real: runtime::Bench {
                workload,
                mix,
                arrivals: self.offered.arrivals,
                duration_ns: self.offered.duration_ns(),
                warmup_ns,
                seed: self.offered.seed,
                system: self.system.runtime(),
                known: self.system.darc.knows(),
                record: self.record.clone(),
                classifier: self.types.classifier,
            },
            told: Vec::new(),
            application,
        }
    }

    fn search(
        &self,
        setting: &Setting,
        specs: &[Spec],
        class: Option<usize>,
    ) -> Result<(), Failure> {
        let slo = self.slo.as_ref().ok_or_else(|| Failure::usage("--find-max needs --slo"))?;
        if self.offered.asks_for_a_load() {
            return Err(Failure::usage("--find-max chooses the loads itself"));
        }
        let full_rps = setting.real.mix.rate_rps(1.0, self.system.workers());
        if !full_rps.is_finite() {
            return Err(Failure::usage("--find-max: requests without service make no load"));
        }
        let mut bar = Bar::endless(output::partial(self.json.json.as_deref())?);
        let mut runs: Vec<Run> = Vec::new();
        let mut lines = Vec::new();
        let preempts = self.system.preempts();
        for (spec, &preempt) in
            specs.iter().flat_map(|spec| preempts.iter().map(move |how| (spec, how)))
        {
            let found = Search::new(slo.limit).run(|load| {
                let point = Point { load: Some(load), rate_rps: load * full_rps };
                let measured = bar.step(setting, (spec, preempt), point)?;
                let measurement = measured.against(slo, class);
                runs.push(measured.run);
                Ok::<_, Failure>(measurement)
            })?;
            lines.push(found_line(&named(spec), slo, &found, full_rps));
        }
        bar.finish();
        let json = self.json.json.as_deref();
        output::beside(&setting.told, json)?;
        output::results(&runs, true, json)?;
        output::beside(&lines, json)
    }
}

/// What stays the same from run to run.
struct Setting {
    real: runtime::Bench,
    /// What the user is to know of it, in lines.
    told: Vec<String>,
    application: Application,
}

/// What serves the requests.
enum Application {
    Spin(Calibration),
    #[cfg(feature = "kv")]
    Kv {
        mix: Mix,
        options: kv_app::KvOptions,
        /// Service times by class.
        services: Vec<u32>,
    },
}

impl Setting {
    /// Runs one policy with one kind of pre-emption at one load, on a fresh application.
    fn measure(&self, how: (&Spec, Preempt), at: Point) -> Result<Measured, Failure> {
        let real = &self.real;
        match &self.application {
            Application::Spin(calibration) => Ok(real.spin(calibration, how, at)?),
            #[cfg(feature = "kv")]
            Application::Kv { mix, options, services } => {
                let app = kv_app::KvApp::open(options.clone()).map_err(Failure::failed)?;
                let schedule = real.arrivals.schedule(at.rate_rps, real.seed);
                let requests = kv::KvRequests::new(*mix, schedule, options, services, real.seed);
                Ok(real.drive(how, at, app, requests)?)
            }
        }
    }
}

/// Progress on standard error, if that is a terminal: drawn between runs only, as during a run the
/// cores have other things to do. Also says each of the runtime's notes once, and keeps what has ended.
struct Bar {
    bar: ProgressBar,
    partial: Partial,
    said: Vec<String>,
}

impl Bar {
    fn new(runs: u64, partial: Partial) -> Self {
        Self { bar: output::bar(Some(runs), output::RUNS), partial, said: Vec::new() }
    }

    fn endless(partial: Partial) -> Self {
        Self { bar: output::bar(None, "{pos} runs, {msg}"), partial, said: Vec::new() }
    }

    fn step(
        &mut self,
        setting: &Setting,
        (spec, preempt): (&Spec, Preempt),
        at: Point,
    ) -> Result<Measured, Failure> {
        self.bar.set_message(format!("{} at {}/s", named(spec), format_rate(at.rate_rps)));
        self.bar.tick();
        let measured = setting.measure((spec, preempt), at)?;
        self.bar.inc(1);
        self.partial.add(&measured.run)?;
        for note in &measured.notes {
            if !self.said.contains(note) {
                self.said.push(note.clone());
                self.bar.suspend(|| say!("note: {note}"));
            }
        }
        Ok(measured)
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
