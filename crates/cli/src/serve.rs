//! `curtail serve`: one of the bundled servers on the runtime.
//!
//! The main thread becomes the dispatcher; a second one waits for signals. The first SIGINT or
//! SIGTERM drains, the second one ends at once.

mod over_http;

use crate::args::{CoresArgs, Json, System, WorkloadArgs};
use crate::failure::Failure;
#[cfg(feature = "kv")]
use crate::kv::KvArgs;
use crate::output;
use clap::{Args, ValueEnum};
use curtail::{App, Class, Handle, Report, Server, ServerBuilder};
use curtail_experiment::runtime::{fill_runtime, histogram_quantiles};
use curtail_net::OpenError;
use curtail_observe::Observable;
use curtail_policy::{Nanos, Spec};
use curtail_report::Run;
use curtail_workload::Mix;
use curtail_workload::spin::Calibration;
use over_http::OverHttp;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use spin::Spin;
use std::path::PathBuf;
use std::time::Instant;

/// `curtail serve`.
#[derive(Args)]
pub(crate) struct Serve {
    /// What to serve
    #[arg(long)]
    app: Bundled,
    /// Where: udp://IP:PORT,tcp://IP:PORT,shm:///FILE (shared memory, for clients on this host),
    /// xdp://IFACE/IP:PORT or dpdk://DEVICE/IP:PORT (UDP past the kernel's network), or http://IP:PORT
    /// (bodies of requests and answers are what is sent by the others); port 0: the kernel chooses.
    /// daemon+udp://IP:PORT, daemon+xdp://… or daemon+dpdk://…: the core allocator receives the
    /// datagrams and sends the answers (with --daemon)
    #[arg(long, value_name = "URLS")]
    listen: String,
    #[command(flatten)]
    system: System,
    /// The classes' names, and with --profile known their shares (spin)
    #[command(flatten)]
    workload: WorkloadArgs,
    #[cfg(feature = "kv")]
    #[command(flatten)]
    kv: KvArgs,
    #[command(flatten)]
    cores: CoresArgs,
    /// Record what the policy is told and decides into FILE, for `sim --replay`; with several dispatchers
    /// into FILE.0 and so on
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

/// What a URL begins with whose port the core allocator has.
const DAEMONS: &str = "daemon+";

/// The bundled servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bundled {
    /// Serves as long as the request says
    Spin,
    /// LevelDB
    Kv,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let specs = self.system.specs()?;
        let [spec] = specs.as_slice() else {
            return Err(Failure::usage("a server has one policy and one quantum at a time"));
        };
        match self.app {
            Bundled::Spin => {
                let (_, mix) = self.workload.mix()?;
                let spec = self.system.darc.inform(spec.clone(), &mix);
                self.serve("spin", Self::spin(&mix), &spec)
            }
            Bundled::Kv if self.system.darc.knows() => Err(Failure::usage(
                "--profile known: what is sent to kv is not known beforehand; it is measured",
            )),
            Bundled::Kv => self.serve_kv(spec),
        }
    }

    fn spin(mix: &Mix) -> Spin {
        let class = |class: &curtail_workload::Class| Class {
            name: class.name.clone(),
            hint: Some(Nanos(class.service.mean_ns().round() as u64)),
        };
        let classes = mix.classes().iter().map(class).collect();
        Spin::new(classes, Calibration::measure().iterations_per_us())
    }

    #[cfg(feature = "kv")]
    fn serve_kv(&self, spec: &Spec) -> Result<(), Failure> {
        self.serve("kv", kv_app::KvApp::open(self.kv.options()).map_err(Failure::failed)?, spec)
    }

    #[cfg(not(feature = "kv"))]
    fn serve_kv(&self, _: &Spec) -> Result<(), Failure> {
        Err(without_kv())
    }

    fn serve(&self, name: &str, app: impl App, spec: &Spec) -> Result<(), Failure> {
        let builder = match self.is_over_http() {
            true => Server::builder(OverHttp(app)),
            false => Server::builder(app),
        };
        let builder = self.listening(builder)?.observable(name);
        let builder = self.system.runtime().configure(builder, spec, self.system.only_preempt()?);
        let mut builder = self.cores.configure(builder, &self.system);
        if let Some(file) = &self.record {
            builder = builder.record(file);
        }
        let server = builder.build().map_err(Failure::failed)?;
        // With the ports that the kernel chose.
        let addresses = server.listens();
        let signals = on_signals(server.handle())?;
        say!("listening on {addresses} ({spec})", spec = spec.name);
        let start = Instant::now();
        let report = server.run().map_err(Failure::failed);
        signals.close();
        let report = report?;
        self.summary(&report, start.elapsed().as_secs_f64())
    }

    /// Whether `--listen` names HTTP; then it names nothing else ([`Serve::listening`]).
    fn is_over_http(&self) -> bool {
        self.listen.split(',').any(|url| url.trim().starts_with("http"))
    }

    /// With all ways in that `--listen` names.
    fn listening(&self, mut builder: ServerBuilder) -> Result<ServerBuilder, Failure> {
        let is_daemons = |url: &&str| url.starts_with(DAEMONS);
        let (ports, urls): (Vec<&str>, Vec<&str>) =
            self.listen.split(',').map(str::trim).partition(is_daemons);
        if let [url, more @ ..] = &ports[..] {
            if !more.is_empty() {
                return Err(Failure::usage(
                    "--listen: the core allocator has one port for a server",
                ));
            }
            if self.is_over_http() {
                return Err(Failure::usage(
                    "--listen: the core allocator's port is for datagrams, which HTTP has none of",
                ));
            }
            builder = self.cores.daemon_port(builder, &url[DAEMONS.len()..])?;
            if urls.is_empty() {
                return Ok(builder);
            }
        }
        let transport = curtail_net::open(&urls.join(",")).map_err(|error| match error {
            OpenError::Url { .. } => Failure::usage(format!("--listen: {error}")),
            error => Failure::failed(error),
        })?;
        Ok(builder.transport(transport))
    }

    fn summary(&self, report: &Report, seconds: f64) -> Result<(), Failure> {
        for note in report.preempt_note.iter().chain(&report.notes) {
            say!("note: {note}");
        }
        if report.malformed + report.unsent > 0 {
            say!("{} malformed requests, {} responses not sent", report.malformed, report.unsent);
        }
        let run = summary(report, seconds);
        output::results(std::slice::from_ref(&run), false, self.json.json.as_deref())?;
        output::all_valid(&[run])
    }
}

/// This program has no LevelDB.
#[cfg(not(feature = "kv"))]
pub(crate) fn without_kv() -> Failure {
    Failure::failed("this curtail was built without kv: build it with `--features kv`")
}

/// What a server did, as a result. Its requests' un-instrumented service times are unknown, so
/// there are no slowdowns.
fn summary(report: &Report, seconds: f64) -> Run {
    let sum = |of: fn(&curtail::ClassStats) -> u64| report.classes.iter().map(of).sum::<u64>();
    let (completed, dropped, failed) =
        (sum(|class| class.completed), sum(|class| class.dropped), sum(|class| class.failed));
    let mut all = hdrhistogram::Histogram::<u64>::new(2).expect("two digits are allowed");
    for class in &report.classes {
        // A histogram that resizes itself takes every value.
        let _ = all.add(&class.sojourn_ns);
    }
    let mut run = Run {
        verb: "serve".to_owned(),
        workload: "requests".to_owned(),
        offered_rps: (completed + dropped + failed) as f64 / seconds,
        achieved_rps: completed as f64 / seconds,
        duration_s: seconds,
        offered: completed + dropped + failed,
        completed,
        dropped,
        sojourn_ns: histogram_quantiles(&all),
        classes: report.classes.iter().map(class).collect(),
        ..Run::default()
    };
    fill_runtime(&mut run, report);
    if report.abandoned > 0 {
        run.invalidate(&format!("{} requests were abandoned at the end", report.abandoned));
    }
    run
}

fn class(stats: &curtail::ClassStats) -> curtail_report::Class {
    curtail_report::Class {
        name: stats.name.clone(),
        count: stats.completed,
        service_ns_mean: if stats.completed == 0 { 0.0 } else { stats.service_ns.mean() },
        sojourn_ns: histogram_quantiles(&stats.sojourn_ns),
        slowdown: None,
        dropped: Some(stats.dropped),
    }
}

/// Starts the thread that waits for signals; closing the handle ends it.
fn on_signals(server: Handle) -> Result<signal_hook::iterator::Handle, Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let handle = signals.handle();
    let wait = move || {
        let mut pending = signals.forever();
        if pending.next().is_some() {
            server.shutdown();
        }
        if pending.next().is_some() {
            say!("curtail: interrupted while draining");
            std::process::exit(1);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(wait).map_err(Failure::failed)?;
    Ok(handle)
}
