//! What a user writes: an [`App`].

use crate::Response;
use curtail_policy::{ClassId, Nanos, WorkerId};
use curtail_rt::cancel::Cause;
use std::any::Any;
use std::time::Duration;

/// A class of requests, as statistics and type-aware policies know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// A short name, for tables.
    pub name: String,
    /// Expected service time, where it is known.
    pub hint: Option<Nanos>,
}

impl Class {
    /// A class of which only the name is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), hint: None }
    }
}

/// An application: an ordinary blocking handler and what is around it (Concord §4.1 has the same
/// three callbacks; `classify` is Perséphone's, §4.2).
///
/// [`App::classify`], [`App::hint`] and [`App::overloaded`] run on the dispatcher's thread: what they
/// compute delays all requests. They may wait, as handlers and [`App::failed`] may: that delays their
/// own request alone. So may 256 requests at once, with a quarter of the memory that requests may have
/// ([`ServerBuilder::memory`](crate::ServerBuilder::memory)); those that come then are refused without
/// having been classified.
///
/// Handlers run on fibers. At any safepoint a handler may be interrupted and another request's
/// handler may run on the same thread, so a `Worker` is shared by reference.
pub trait App: Send + Sync + 'static {
    /// State of one worker, made on the worker's thread by [`App::setup_worker`].
    type Worker: 'static;

    /// The classes that [`App::classify`] answers with, by index. At least one.
    fn classes(&self) -> Vec<Class> {
        vec![Class::named("request")]
    }

    /// Called once, before any worker starts.
    ///
    /// # Errors
    /// A reason not to start at all.
    fn setup(&self) -> Result<(), String> {
        Ok(())
    }

    /// Called once on each worker's thread, and on each dispatcher's, which may run requests too: there
    /// with [`WorkerId::DISPATCHER`], whose number is 65,535. Workers are numbered from 0 through all
    /// dispatchers, so what is made here by a worker's number needs a case for that one. So it does for
    /// spare workers, whose numbers come after all others': one is started, and set up, when all
    /// others are stuck, and is there until the server ends.
    fn setup_worker(&self, worker: WorkerId) -> Self::Worker;

    /// The class of a request; called on the dispatcher, must be quick, must accept any bytes.
    /// [`ClassId::UNKNOWN`]: it is none of them (Perséphone §4.2). Another number beyond
    /// [`App::classes`] counts as the last class. [`Handle::classify_by`](crate::Handle::classify_by)
    /// puts another classifier in its place.
    fn classify(&self, request: &[u8]) -> ClassId {
        let _ = request;
        ClassId(0)
    }

    /// How much service the request will need, where that shows in its bytes; called on the
    /// dispatcher after [`App::classify`], under policies that ask for it (`sjf`, `srpt`). Default:
    /// what is known of its class.
    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        let _ = request;
        None
    }

    /// Within which time from its arrival a request is wanted, where that shows in its bytes (a header,
    /// say); called after [`App::classify`], for each request. Then it is cancelled. Default: no limit
    /// but that of its class ([`ServerBuilder::deadline`](crate::ServerBuilder::deadline)).
    fn deadline(&self, request: &[u8]) -> Option<Duration> {
        let _ = request;
        None
    }

    /// Serves one request. What is in `response` when it returns goes back; nothing in it: no
    /// answer. A panic fails this request alone. Of which class it is, [`class`](curtail_rt::class) says.
    fn handle(&self, worker: &Self::Worker, request: &[u8], response: &mut Response);

    /// The handler panicked: what to answer; on the fiber on which the handler ran. Default: nothing.
    fn failed(&self, request: &[u8], response: &mut Response) {
        let _ = (request, response);
    }

    /// There is no room for this request: what to answer, on the dispatcher; or no memory for a stack
    /// to serve it on: then on a worker, on a stack kept for that. Default: [`Response::refuse`], the
    /// transport's own way to say so.
    fn overloaded(&self, request: &[u8], response: &mut Response) {
        let _ = request;
        response.refuse();
    }

    /// The request was cancelled before it began, or its handler ended by [`Cancelled`]: what to
    /// answer, where its client is still there. On a fiber, as handlers are, or on the dispatcher, as
    /// [`App::overloaded`] is. Default: as [`App::overloaded`].
    ///
    /// [`Cancelled`]: curtail_rt::Cancelled
    fn cancelled(&self, request: &[u8], cause: Cause, response: &mut Response) {
        let _ = cause;
        self.overloaded(request, response);
    }
}

/// A classifier: as [`App::classify`].
pub type ClassifyFn = dyn Fn(&[u8]) -> ClassId + Send + Sync;

/// An [`App`] without its type, so that the runtime is compiled once, natively, and never in the
/// application's (instrumented) crate.
pub(crate) trait ErasedApp: Send + Sync {
    fn classes(&self) -> Vec<Class>;
    fn setup(&self) -> Result<(), String>;
    fn setup_worker(&self, worker: WorkerId) -> Box<dyn Any>;
    fn classify(&self, request: &[u8]) -> ClassId;
    fn hint(&self, request: &[u8]) -> Option<Nanos>;
    fn deadline(&self, request: &[u8]) -> Option<Duration>;
    fn handle(&self, worker: &dyn Any, request: &[u8], response: &mut Response);
    fn cancelled(&self, request: &[u8], cause: Cause, response: &mut Response);
    fn failed(&self, request: &[u8], response: &mut Response);
    fn overloaded(&self, request: &[u8], response: &mut Response);
}

impl<A: App> ErasedApp for A {
    fn classes(&self) -> Vec<Class> {
        let classes = App::classes(self);
        if classes.is_empty() { vec![Class::named("request")] } else { classes }
    }

    fn setup(&self) -> Result<(), String> {
        App::setup(self)
    }

    fn setup_worker(&self, worker: WorkerId) -> Box<dyn Any> {
        Box::new(App::setup_worker(self, worker))
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        App::classify(self, request)
    }

    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        App::hint(self, request)
    }

    fn deadline(&self, request: &[u8]) -> Option<Duration> {
        App::deadline(self, request)
    }

    fn cancelled(&self, request: &[u8], cause: Cause, response: &mut Response) {
        App::cancelled(self, request, cause, response);
    }

    fn handle(&self, worker: &dyn Any, request: &[u8], response: &mut Response) {
        let worker = worker.downcast_ref().expect("setup_worker made it, of this type");
        // By a pointer that the compiler cannot see through: this shim counts as Curtail's own and
        // is not instrumented, and a handler inlined into it would lose its safepoints.
        let handle: fn(&A, &A::Worker, &[u8], &mut Response) = std::hint::black_box(A::handle);
        handle(self, worker, request, response);
    }

    fn failed(&self, request: &[u8], response: &mut Response) {
        App::failed(self, request, response);
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        App::overloaded(self, request, response);
    }
}
