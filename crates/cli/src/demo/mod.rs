//! `curtail demo`: LevelDB on the runtime, driven over shared memory or UDP under several policies, so
//! that a newcomer sees in about a minute what pre-emption is for.
//!
//! Server and client share the process and nothing else: they talk as two processes would, each on
//! threads of their own ([`crate::kv::server`]). The main thread only waits for them and shows
//! what came of it. All files appear at the end, whole, under `--out`; an interrupt leaves nothing
//! behind.

mod mixes;
mod progress;
mod sentence;
mod watch;

use crate::args::{List, Point, loads, names};
use crate::failure::Failure;
use crate::kv::server::{self, WORKERS, Way};
use crate::kv::{self, Measured};
use crate::output;
use clap::Args;
use curtail::{Report, SafepointKind};
use curtail_chart::SvgOptions;
use curtail_experiment::runtime::fill_runtime;
use curtail_load::client::{self, Client, Plan, Seen};
use curtail_policy::{Nanos, Spec};
use curtail_report::{HtmlOptions, Run};
use curtail_workload::{Arrivals, Requests, Until, duration_ns, format_duration};
use kv_app::KvOptions;
use mixes::Mix;
use progress::Progress;
use std::path::{Path, PathBuf};

/// Requests in the worker's inbox under `fcfs`.
const FCFS_INBOX: u16 = 64;
/// The usual loads.
const LOADS: [f64; 3] = [0.3, 0.5, 0.7];
/// Of the random numbers: every policy gets the same requests at the same times.
const SEED: u64 = 1;
/// How late 99% of the requests must have been sent for a run to be valid.
const MAX_LATENESS_NS: u64 = 1_000_000;
/// How long, and at which load by service times alone, requests arrive to find out what load 1 is.
const CAPACITY_NS: u64 = 300_000_000;
const CAPACITY_RUNS: u32 = 3;
const MORE_THAN_ALL: f64 = 1.1;
/// How long answers are waited for after the last one.
const TIMEOUT_NS: u64 = 1_000_000_000;
/// Share of a run for which others may keep the worker from its core before the run is not valid.
const MAX_WAITED: f64 = 0.02;

/// `curtail demo`.
#[derive(Args)]
pub(crate) struct Demo {
    /// Where report.html, results.json and demo.svg go; made where it is missing
    #[arg(long, value_name = "DIR", default_value = "target/demo")]
    out: PathBuf,
    /// Policies, by name; the sentence at the end compares the first with the last
    #[arg(long, value_name = "NAMES", value_parser = names, default_value = "fcfs,concord,tq")]
    policies: List<String>,
    /// Offered loads as fractions of what the server does at most in order of arrival [default:
    /// 0.3,0.5,0.7]
    #[arg(long, value_name = "FRACTIONS", value_parser = loads)]
    loads: Option<List<f64>>,
    /// Mixes of requests: get-scan-50, zippydb
    #[arg(long, value_name = "NAMES", value_parser = names, default_value = "get-scan-50,zippydb")]
    mix: List<String>,
    /// How long requests arrive in each run, a tenth of it for warming up [default: 3s for
    /// get-scan-50, 1s for zippydb]
    #[arg(long, value_name = "DURATION", value_parser = duration_ns)]
    duration: Option<u64>,
    /// How client and server talk
    #[arg(long, value_enum, default_value_t)]
    transport: Way,
    /// Also write the results as JSON to FILE; `-`: to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

impl Demo {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mixes = mixes::named(&self.mix.0)?;
        let plan = mixes
            .iter()
            .map(|mix| Ok((*mix, self.specs(mix)?)))
            .collect::<Result<Vec<_>, Failure>>()?;
        if self.duration == Some(0) {
            return Err(Failure::usage("--duration: nothing arrives in no time"));
        }
        // Before anything is measured: where nothing can be written, nothing is to be lost.
        std::fs::create_dir_all(&self.out)
            .map_err(|error| Failure::failed(format!("{}: {error}", self.out.display())))?;
        let mut shown = Shown::default();
        if curtail::safepoint_kind() == SafepointKind::None {
            shown.preemption_is_off = true;
            shown.note("pre-emption is off: this program is not instrumented (./x build makes one that is)");
        }
        let total = plan.iter().map(|(_, specs)| specs.len() * self.loads().len()).sum();
        let mut progress = Progress::new(total);
        for (mix, specs) in &plan {
            progress.say(&format!("{}: service times on an idle server", mix.kv.name));
            let measured = kv::measure(&mix.kv, &KvOptions::default())?;
            progress.say(&format!("{}: what the machine can do", mix.kv.name));
            let capacity = self.capacity(mix, &measured)?;
            shown.services.push(measured.told(WORKERS, Some(capacity)));
            let duration_ns = self.duration.unwrap_or(mix.duration_ns);
            for &load in self.loads() {
                for spec in specs {
                    progress.next(&format!("{}: {} at load {load}", mix.kv.name, named(spec)));
                    let at = (load, duration_ns);
                    shown.runs.push(self.one((&measured, capacity), spec, at, &mut shown.notes)?);
                }
            }
        }
        progress.finish();
        self.show(&shown)
    }

    fn loads(&self) -> &[f64] {
        self.loads.as_ref().map_or(&LOADS, |loads| &loads.0)
    }

    /// The policies, with the quantum that the mix is measured with.
    fn specs(&self, mix: &Mix) -> Result<Vec<Spec>, Failure> {
        self.policies.0.iter().map(|name| spec(name, mix.quantum)).collect()
    }

    /// How many requests a second of the mix this machine serves in order of arrival, the network and the
    /// server's own work counted: what came of a few more than service times alone allow, at the best of
    /// some times, since other programs only make it less.
    fn capacity(&self, mix: &Mix, measured: &Measured) -> Result<f64, Failure> {
        let spec = spec("fcfs", mix.quantum)?;
        let rate_rps = measured.mix.rate_rps(MORE_THAN_ALL, WORKERS);
        let mut most = 0.0_f64;
        for _ in 0..CAPACITY_RUNS {
            let (seen, ..) = self.drive(measured, &spec, rate_rps, (CAPACITY_NS, 0))?;
            most = most.max(client::result(&measured.mix, &seen).achieved_rps);
        }
        if most > 0.0 { Ok(most) } else { Err(Failure::failed("nothing was served")) }
    }

    /// One policy at one load.
    fn one(
        &self,
        (measured, capacity): (&Measured, f64),
        spec: &Spec,
        (load, duration_ns): (f64, u64),
        notes: &mut Vec<String>,
    ) -> Result<Run, Failure> {
        let point = Point { load: Some(load), rate_rps: load * capacity };
        let times = (duration_ns, duration_ns / 10);
        let (seen, waited, report) = self.drive(measured, spec, point.rate_rps, times)?;
        for note in report.preempt_note.iter().chain(&report.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        Ok(result(measured, point, &seen, &report, waited))
    }

    /// On a fresh server and a fresh store: what a run writes changes nothing for the next.
    fn drive(
        &self,
        measured: &Measured,
        spec: &Spec,
        rate_rps: f64,
        (duration_ns, warmup_ns): (u64, u64),
    ) -> Result<(Seen, Option<f64>, Report), Failure> {
        let until = Until::Time(duration_ns);
        let plan = Plan {
            requests: Requests::new(&measured.mix, Arrivals::Poisson, rate_rps, SEED, until),
            services: measured.services.clone(),
            seed: SEED,
            duration_ns,
            warmup_ns,
            timeout_ns: TIMEOUT_NS,
            spin: false,
        };
        let options = KvOptions::default();
        let connect = |url: &_| server::client(url, &measured.mix, &options);
        let drive = |mut client: Client| {
            let watch = watch::Watch::start(WORKERS);
            let seen = client.drive(plan)?;
            Ok((seen, watch.waited_share()))
        };
        let ((seen, waited), report) =
            server::with((spec, self.transport), &options, connect, drive)?;
        Ok((seen, waited, report))
    }

    fn show(&self, shown: &Shown) -> Result<(), Failure> {
        let runs = &shown.runs;
        let sentence = sentence::of(runs, shown.preemption_is_off);
        let before = shown.services.join("\n");
        // JSON on standard output stands there alone.
        if self.json.as_deref() == Some("-") {
            say!("{before}");
        } else {
            output::text(&format!("{before}\n\n"))?;
        }
        output::results(runs, true, self.json.as_deref())?;
        let written = self.write(shown, &sentence)?;
        if self.json.as_deref() == Some("-") {
            say!("{sentence}");
        } else {
            output::text(&format!("\n{sentence}\n"))?;
        }
        for note in &shown.notes {
            say!("note: {note}");
        }
        say!("wrote {written}");
        Ok(())
    }

    fn write(&self, shown: &Shown, sentence: &str) -> Result<String, Failure> {
        let Shown { runs, services, notes, .. } = shown;
        let file = |name: &str| path(&self.out.join(name));
        let mut summary = vec![sentence.to_owned()];
        summary.extend(services.iter().chain(notes).cloned());
        let title = "LevelDB on Curtail, under several policies".to_owned();
        let page = HtmlOptions { title: Some(title), summary, ..HtmlOptions::default() };
        curtail_report::write_runs(&file("results.json")?, runs)?;
        let report = file("report.html")?;
        curtail_report::write_text(&report, &curtail_report::html(runs, &page))?;
        let class = sentence::CLASS.to_owned();
        let picture = SvgOptions { class: Some(class), ..SvgOptions::default() };
        // Where nothing was answered there is nothing to draw; the table says so.
        match curtail_chart::svg(runs, &picture) {
            Ok(svg) => curtail_report::write_text(&file("demo.svg")?, &svg)?,
            Err(error) => say!("note: {error}"),
        }
        Ok(report)
    }
}

fn spec(name: &str, quantum: Nanos) -> Result<Spec, Failure> {
    let spec = Spec::preset(name).map_err(Failure::usage)?;
    let spec = spec.with_quantum(quantum).map_err(Failure::usage)?;
    // One worker has one order of arrival, however many of them wait in its inbox; with an inbox of one,
    // each would wait for the dispatcher to wake up besides.
    let is_fcfs = WORKERS == 1 && spec.name == "fcfs";
    let spec = if is_fcfs { spec.with_jbsq(FCFS_INBOX) } else { Ok(spec) };
    let spec = spec.map_err(Failure::usage)?;
    spec.validate(WORKERS).map_err(Failure::usage).map(|()| spec)
}

/// What there is to show at the end.
#[derive(Default)]
struct Shown {
    runs: Vec<Run>,
    /// A line for each mix.
    services: Vec<String>,
    notes: Vec<String>,
    preemption_is_off: bool,
}

impl Shown {
    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}

fn path(path: &Path) -> Result<String, Failure> {
    let text = path.to_str();
    text.map(str::to_owned).ok_or_else(|| Failure::usage("--out: a path that is no UTF-8"))
}

fn named(spec: &Spec) -> String {
    match spec.quantum {
        Some(Nanos(ns)) => format!("{} {}", spec.name, format_duration(ns)),
        None => spec.name.clone(),
    }
}

/// The client's figures and the server's, as one result. `waited`: the share of the run for which
/// the worker was ready and others had its core, where the kernel tells.
fn result(
    measured: &Measured,
    point: Point,
    seen: &Seen,
    report: &Report,
    waited: Option<f64>,
) -> Run {
    let mut run = client::result(&measured.mix, seen);
    (run.offered_rps, run.load) = (point.rate_rps, point.load);
    run.verb = "demo".to_owned();
    run.workload = measured.name.to_owned();
    fill_runtime(&mut run, report);
    client::judge(&mut run, seen, MAX_LATENESS_NS);
    if let Some(waited) = waited.filter(|waited| *waited > MAX_WAITED) {
        run.invalidate(&format!(
            "other programs kept the worker from its core for {:.0}% of the time",
            waited * 100.0
        ));
    }
    if report.abandoned > 0 {
        run.invalidate(&format!("{} requests were abandoned at the end", report.abandoned));
    }
    run
}
