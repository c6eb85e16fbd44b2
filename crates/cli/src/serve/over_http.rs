//! An application of messages over HTTP: a request's body is one, and so is its answer's. The
//! status says whether it was served.

use curtail::{App, Cause, Class, Response};
use curtail_net::http;
use curtail_policy::{ClassId, Nanos, WorkerId};
use std::hint::black_box;
use std::time::Duration;

/// An application of messages, served over HTTP.
pub(super) struct OverHttp<A>(pub(super) A);

fn begin(status: u16, response: &mut Response) {
    response.write(&http::head(status, "application/octet-stream"));
}

impl<A: App> App for OverHttp<A> {
    type Worker = A::Worker;

    fn classes(&self) -> Vec<Class> {
        self.0.classes()
    }

    fn setup(&self) -> Result<(), String> {
        self.0.setup()
    }

    fn setup_worker(&self, worker: WorkerId) -> A::Worker {
        self.0.setup_worker(worker)
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        self.0.classify(http::body(request))
    }

    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        self.0.hint(http::body(request))
    }

    fn deadline(&self, request: &[u8]) -> Option<Duration> {
        self.0.deadline(http::body(request))
    }

    fn handle(&self, worker: &A::Worker, request: &[u8], response: &mut Response) {
        begin(200, response);
        // This crate is not instrumented: a handler inlined into it would lose its safepoints.
        let handle: fn(&A, &A::Worker, &[u8], &mut Response) = black_box(A::handle);
        handle(&self.0, worker, http::body(request), response);
    }

    fn failed(&self, request: &[u8], response: &mut Response) {
        begin(500, response);
        self.0.failed(http::body(request), response);
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        begin(503, response);
        self.0.overloaded(http::body(request), response);
    }

    fn cancelled(&self, request: &[u8], cause: Cause, response: &mut Response) {
        begin(504, response);
        self.0.cancelled(http::body(request), cause, response);
    }
}
