//! One run in this process: the runtime, an application and the generator.

use super::result::fill_runtime;
use crate::{Classifier, Error, Measured, Point, any_class, informed};
use curtail::{App, Class, DispatcherMode, Handle, Preempt, Report, Server, ServerBuilder};
use curtail_load::inside::{Generator, Offer, Outbox, Requests, Slice, SpinRequests};
use curtail_load::{Slowdowns, fill_undisturbed};
use curtail_policy::{ClassId, Nanos, Spec};
use curtail_report::Run;
use curtail_workload::spin::Calibration;
use curtail_workload::{self as workload, Arrivals, Mix, Until};
use spin::Spin;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What runs the requests, but for the policy.
#[derive(Clone, Debug)]
pub struct System {
    /// How many workers, of all dispatchers.
    pub workers: usize,
    /// How many dispatchers.
    pub dispatchers: usize,
    /// How a dispatcher waits for work.
    pub dispatcher: DispatcherMode,
    /// How many requests it holds at most.
    pub capacity: u32,
    /// Cores to run on: first the dispatchers', then the workers'. `None`: any.
    pub cores: Option<Vec<usize>>,
    /// Bytes of a request's stack. `None`: the runtime's own choice.
    pub stack_bytes: Option<usize>,
}

impl System {
    /// A server of this kind, with that policy and that pre-emption. How many workers it has is for
    /// the caller to say.
    #[must_use]
    pub fn configure(&self, server: ServerBuilder, spec: &Spec, preempt: Preempt) -> ServerBuilder {
        let mut server = server
            .policy(spec.clone())
            .preempt(preempt)
            .dispatchers(self.dispatchers)
            .dispatcher(self.dispatcher)
            .capacity(self.capacity as usize);
        if let Some(cores) = &self.cores {
            server = server.cores(cores.clone());
        }
        if let Some(bytes) = self.stack_bytes {
            server = server.stack_size(bytes);
        }
        server
    }
}

/// What stays the same from run to run.
#[derive(Clone, Debug)]
pub struct Bench {
    /// What to call it.
    pub workload: String,
    /// The classes, and what their requests take.
    pub mix: Mix,
    /// By which process requests arrive.
    pub arrivals: Arrivals,
    /// How long they arrive.
    pub duration_ns: u64,
    /// What arrives before this is not counted.
    pub warmup_ns: u64,
    /// Of the random numbers.
    pub seed: u64,
    /// What runs them.
    pub system: System,
    /// Policies that profile know the workload from the start.
    pub known: bool,
    /// Where to record what the policy is told and decides.
    pub record: Option<PathBuf>,
    /// What says of which class a request is.
    pub classifier: Classifier,
}

impl Bench {
    /// Runs one policy with one kind of pre-emption at one load, on requests that turn the
    /// calibrated loop.
    ///
    /// # Errors
    /// The runtime does not run it.
    pub fn spin(
        &self,
        calibration: &Calibration,
        how: (&Spec, Preempt),
        at: Point,
    ) -> Result<Measured, Error> {
        let until = Until::Time(self.duration_ns);
        let (arrivals, seed) = (self.arrivals, self.seed);
        let requests = workload::Requests::new(&self.mix, arrivals, at.rate_rps, seed, until);
        let class = |class: &workload::Class| Class {
            name: class.name.clone(),
            hint: Some(Nanos(class.service.mean_ns().round() as u64)),
        };
        let classes = self.mix.classes().iter().map(class).collect();
        let app = Spin::new(classes, calibration.iterations_per_us());
        self.drive(how, at, app, SpinRequests(requests))
    }

    /// Runs the bench on a fresh application, with requests of its own.
    ///
    /// # Errors
    /// The runtime does not run it.
    pub fn drive(
        &self,
        how: (&Spec, Preempt),
        at: Point,
        app: impl App,
        requests: impl Requests + 'static,
    ) -> Result<Measured, Error> {
        let offer = self.offer(at.rate_rps, requests);
        let spec = if self.known { informed(how.0.clone(), &self.mix) } else { how.0.clone() };
        let record = self.record.as_deref();
        let how = Launch { system: &self.system, spec: &spec, preempt: how.1, record };
        let classes = self.mix.classes().len();
        let steer = |handle: &Handle| misclassify(self.classifier, handle, classes, self.seed);
        let (report, mut slices) = launch(&how, app, offer, steer)?;
        let slice = slices.pop().ok_or_else(|| Error::failed("nothing was counted"))?;
        Ok(self.result(at, report, slice))
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

    fn result(&self, at: Point, report: Report, slice: Slice) -> Measured {
        let names: Vec<String> =
            self.mix.classes().iter().map(|class| class.name.clone()).collect();
        let mut run = Run {
            verb: "bench".to_owned(),
            workload: self.workload.clone(),
            offered_rps: at.rate_rps,
            load: at.load,
            ..Run::default()
        };
        fill_runtime(&mut run, &report);
        let window = self.warmup_ns..self.duration_ns;
        slice.tally.fill(&mut run, &names, &window, Slowdowns::Known);
        fill_undisturbed(&mut run, &slice.tally.recorder, &names);
        judge(&mut run, &slice, report.abandoned, self.system.capacity);
        let notes = report.preempt_note.into_iter().chain(report.notes).collect();
        Measured { run, recorder: slice.tally.recorder, notes }
    }
}

/// Marks a run as not valid where its figures may not be trusted.
pub fn judge(run: &mut Run, slice: &Slice, abandoned: usize, capacity: u32) {
    let Slice { tally, most_waiting } = slice;
    let stranded = tally.lost();
    if stranded > 0 {
        run.invalidate(&format!(
            "the generator fell behind: {stranded} due requests were never handed over"
        ));
    } else if *most_waiting > u64::from(capacity) {
        run.invalidate(&format!(
            "the generator fell behind: about {most_waiting} due requests waited for room in a \
             system of {capacity}"
        ));
    }
    if tally.failed > 0 {
        run.invalidate(&format!("{} handlers failed", tally.failed));
    }
    if abandoned > 0 {
        run.invalidate(&format!("{abandoned} requests were abandoned at the end"));
    }
    run.judge_drops();
    if run.completed == 0 {
        run.invalidate("no request completed after the warm-up");
    }
}

/// How a generator's requests are to be served.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What runs them.
    pub system: &'a System,
    /// The policy.
    pub spec: &'a Spec,
    /// How they are made to yield.
    pub preempt: Preempt,
    /// Where to record what the policy is told and decides.
    pub record: Option<&'a Path>,
}

/// Serves what is offered, to its end: what the runtime says of it, and what was counted. `steer` is
/// called before the first request.
///
/// # Errors
/// The runtime does not run it, or what `steer` says.
pub fn launch(
    how: &Launch<'_>,
    app: impl App,
    offer: Offer<impl Requests + 'static>,
    steer: impl FnOnce(&Handle) -> Result<(), Error> + Send,
) -> Result<(Report, Vec<Slice>), Error> {
    let outbox = Outbox::default();
    let generator = Generator::new(offer, outbox.clone());
    let serve = || {
        let server = Server::builder(app).transport(Box::new(generator));
        let mut server = how.system.configure(server, how.spec, how.preempt);
        server = server.workers(how.system.workers);
        if let Some(file) = how.record {
            server = server.record(file);
        }
        let server = server.build().map_err(Error::failed)?;
        steer(&server.handle())?;
        server.run().map_err(Error::failed)
    };
    // A thread of its own: the runtime pins the one it runs on.
    let report = std::thread::scope(|scope| {
        let dispatcher = std::thread::Builder::new().name("dispatcher".to_owned());
        let thread = dispatcher.spawn_scoped(scope, serve).map_err(Error::failed)?;
        thread.join().map_err(|_| Error::failed("the dispatcher's thread panicked"))?
    })?;
    let slices = outbox.lock().unwrap_or_else(PoisonError::into_inner).take();
    let slices = slices.ok_or_else(|| Error::failed("the runtime kept the generator"))?;
    Ok((report, slices))
}

/// Puts another classifier in the application's place, where that was asked for.
///
/// # Errors
/// The server has ended.
pub fn misclassify(
    classifier: Classifier,
    handle: &Handle,
    classes: usize,
    seed: u64,
) -> Result<(), Error> {
    if classifier == Classifier::Own {
        return Ok(());
    }
    let draw = Mutex::new(any_class(classes, seed));
    let draw = move || (draw.lock().unwrap_or_else(PoisonError::into_inner))();
    let classify = move |_: &[u8]| ClassId(draw());
    handle.classify_by(Some(Box::new(classify))).map_err(Error::failed)
}
