//! One run: the runtime, an application and the generator, in this process.

use super::generator::{Generator, Offer, Outbox, Tally};
use super::requests::{Requests, SpinRequests};
use crate::args::{Point, System};
use crate::failure::Failure;
use crate::measured::Measured;
use crate::result::{self, Slowdowns};
use crate::typed::{Classifier, any_class};
use curtail::{App, Class, Handle, Preempt, Report, Server};
use curtail_policy::{ClassId, Nanos, Spec};
use curtail_report::Run;
use curtail_workload::spin::Calibration;
use curtail_workload::{Arrivals, Mix, Schedule};
use spin::Spin;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What stays the same from run to run.
pub(crate) struct Setting {
    pub(crate) workload: String,
    pub(crate) mix: Mix,
    /// What the user is to know of it, in lines.
    pub(crate) told: Vec<String>,
    pub(crate) arrivals: Arrivals,
    pub(crate) duration_ns: u64,
    pub(crate) warmup_ns: u64,
    pub(crate) seed: u64,
    pub(crate) workers: usize,
    pub(crate) system: System,
    pub(crate) record: Option<PathBuf>,
    pub(crate) classifier: Classifier,
    pub(crate) application: Application,
}

/// What serves the requests.
pub(crate) enum Application {
    Spin(Calibration),
    #[cfg(feature = "kv")]
    Kv {
        mix: kv_app::load::Mix,
        options: kv_app::KvOptions,
        /// Service times by class.
        services: Vec<u32>,
    },
}

impl Setting {
    /// Runs one policy with one kind of pre-emption at one load, on a fresh application.
    pub(crate) fn measure(
        &self,
        spec: &Spec,
        preempt: Preempt,
        point: Point,
    ) -> Result<Measured, Failure> {
        match &self.application {
            Application::Spin(calibration) => {
                let requests = SpinRequests::new(&self.mix, self.schedule(point), self.seed);
                self.drive((spec, preempt), point, self.spin(calibration), requests)
            }
            #[cfg(feature = "kv")]
            Application::Kv { mix, options, services } => {
                let app = kv_app::KvApp::open(options.clone()).map_err(Failure::failed)?;
                let schedule = self.schedule(point);
                let requests =
                    super::requests::KvRequests::new(*mix, schedule, options, services, self.seed);
                self.drive((spec, preempt), point, app, requests)
            }
        }
    }

    fn drive(
        &self,
        how: (&Spec, Preempt),
        point: Point,
        app: impl App,
        requests: impl Requests + 'static,
    ) -> Result<Measured, Failure> {
        let offer = self.offer(point.rate_rps, requests);
        let spec = self.system.darc.inform(how.0.clone(), &self.mix);
        let record = self.record.as_deref();
        let how = Launch { system: &self.system, spec: &spec, preempt: how.1, record };
        let classes = self.mix.classes().len();
        let steer = |handle: &Handle| misclassify(self.classifier, handle, classes, self.seed);
        let (report, mut tallies) = launch(&how, app, offer, steer)?;
        let tally = tallies.pop().ok_or_else(|| Failure::failed("nothing was counted"))?;
        Ok(self.result(point, report, tally))
    }

    fn spin(&self, calibration: &Calibration) -> Spin {
        let class = |class: &curtail_workload::Class| Class {
            name: class.name.clone(),
            hint: Some(Nanos(class.service.mean_ns().round() as u64)),
        };
        let classes = self.mix.classes().iter().map(class).collect();
        Spin::new(classes, calibration.iterations_per_us())
    }

    fn offer<R>(&self, rate_rps: f64, requests: R) -> Offer<R> {
        Offer {
            rate_rps,
            requests,
            classes: self.mix.classes().len(),
            duration_ns: self.duration_ns,
            slices: std::iter::once(self.warmup_ns..self.duration_ns).collect(),
            ended: None,
        }
    }

    fn schedule(&self, point: Point) -> Schedule {
        self.arrivals.schedule(point.rate_rps, self.seed)
    }

    fn result(&self, point: Point, report: Report, tally: Tally) -> Measured {
        let names: Vec<String> =
            self.mix.classes().iter().map(|class| class.name.clone()).collect();
        let window_ns = self.duration_ns - self.warmup_ns;
        let mut run = Run {
            verb: "bench".to_owned(),
            workload: self.workload.clone(),
            offered_rps: point.rate_rps,
            load: point.load,
            duration_s: window_ns as f64 / 1e9,
            offered: tally.offered,
            ..Run::default()
        };
        result::fill_runtime(&mut run, &report);
        result::fill(&mut run, &tally.recorder, &names, &tally.dropped, Slowdowns::Known);
        result::fill_undisturbed(&mut run, &tally.recorder, &names);
        // An overloaded system goes on for a while after the last arrival.
        let took_ns = window_ns.max(tally.last_finish_ns.saturating_sub(self.warmup_ns));
        run.achieved_rps = run.completed as f64 * 1e9 / took_ns as f64;
        Self::judge(&mut run, &tally, report.abandoned, self.system.capacity());
        let notes = report.preempt_note.into_iter().chain(report.notes).collect();
        Measured { run, recorder: tally.recorder, notes }
    }

    /// Whether the figures may be trusted.
    pub(super) fn judge(run: &mut Run, tally: &Tally, abandoned: usize, capacity: u32) {
        if tally.stranded > 0 {
            run.invalidate(&format!(
                "the generator fell behind: {} due requests were never handed over",
                tally.stranded
            ));
        } else if tally.most_waiting > u64::from(capacity) {
            run.invalidate(&format!(
                "the generator fell behind: about {} due requests waited for room in a system of {}",
                tally.most_waiting, capacity
            ));
        }
        if tally.failed > 0 {
            run.invalidate(&format!("{} handlers failed", tally.failed));
        }
        if abandoned > 0 {
            run.invalidate(&format!("{abandoned} requests were abandoned at the end"));
        }
        if run.completed == 0 {
            run.invalidate("no request completed after the warm-up");
        }
    }
}

/// How a generator's requests are to be served.
pub(super) struct Launch<'a> {
    pub(super) system: &'a System,
    pub(super) spec: &'a Spec,
    pub(super) preempt: Preempt,
    /// Where to record what the policy is told and decides.
    pub(super) record: Option<&'a Path>,
}

/// Serves what is offered, to its end: what the runtime says of it, and what was counted. `steer` is
/// called before the first request.
pub(super) fn launch(
    how: &Launch<'_>,
    app: impl App,
    offer: Offer<impl Requests + 'static>,
    steer: impl FnOnce(&Handle) -> Result<(), Failure> + Send,
) -> Result<(Report, Vec<Tally>), Failure> {
    let outbox = Outbox::default();
    let generator = Generator::new(offer, outbox.clone());
    let serve = || {
        let server = Server::builder(app).transport(Box::new(generator));
        let mut server = how.system.configure(server, how.spec, how.preempt);
        server = server.workers(how.system.workers());
        if let Some(file) = how.record {
            server = server.record(file);
        }
        let server = server.build().map_err(Failure::failed)?;
        steer(&server.handle())?;
        server.run().map_err(Failure::failed)
    };
    // A thread of its own: the runtime pins the one it runs on.
    let report = std::thread::scope(|scope| {
        let dispatcher = std::thread::Builder::new().name("dispatcher".to_owned());
        let thread = dispatcher.spawn_scoped(scope, serve).map_err(Failure::failed)?;
        thread.join().map_err(|_| Failure::failed("the dispatcher's thread panicked"))?
    })?;
    let tallies = outbox.lock().unwrap_or_else(PoisonError::into_inner).take();
    let tallies = tallies.ok_or_else(|| Failure::failed("the runtime kept the generator"))?;
    Ok((report, tallies))
}

/// Puts another classifier in the application's place, where that was asked for.
pub(super) fn misclassify(
    classifier: Classifier,
    handle: &Handle,
    classes: usize,
    seed: u64,
) -> Result<(), Failure> {
    if classifier == Classifier::Own {
        return Ok(());
    }
    let draw = Mutex::new(any_class(classes, seed));
    let draw = move || (draw.lock().unwrap_or_else(PoisonError::into_inner))();
    let classify = move |_: &[u8]| ClassId(draw());
    handle.classify_by(Some(Box::new(classify))).map_err(Failure::failed)
}
