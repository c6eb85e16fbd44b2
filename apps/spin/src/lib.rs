//! `spin`: a server whose requests ask for so much service and get it, by turning a chain of
//! integer operations for as long. It is what the papers call the synthetic server (Concord §5.1,
//! Shenango §7.1).
//!
//! The crate is instrumented like any application, so the loop lives here, as ordinary code. It
//! does the same steps as [`curtail_workload::spin`], which is not instrumented: slowdowns are
//! against that one. The work is counted in steps, not read off a clock, so a request that is
//! pre-empted still does all of its own.
//!
//! [`curtail_workload::spin`]: https://docs.rs/curtail-workload
#![forbid(unsafe_code)]

pub mod protocol;

use curtail::{App, Class, Response};
use curtail_policy::{ClassId, Nanos, WorkerId};
use protocol::{Answer, Request, Status};
use std::hint::black_box;

/// The server.
#[derive(Debug)]
pub struct Spin {
    classes: Vec<Class>,
    iterations_per_ns: f64,
}

impl Spin {
    /// A server with these classes (at least one), on a machine that does so many un-instrumented
    /// steps of the chain in a microsecond.
    ///
    /// # Panics
    /// Without a class, or where the calibration is not positive and finite.
    #[must_use]
    pub fn new(classes: Vec<Class>, iterations_per_us: f64) -> Self {
        assert!(!classes.is_empty(), "requests have a class");
        assert!(
            iterations_per_us > 0.0 && iterations_per_us.is_finite(),
            "no calibration: {iterations_per_us}"
        );
        Self { classes, iterations_per_ns: iterations_per_us / 1_000.0 }
    }

    /// Steps for a request; 0, the empty handler, for a service time of 0.
    fn iterations(&self, request: &Request) -> u64 {
        (f64::from(request.service_ns) * self.iterations_per_ns).round() as u64
    }
}

impl App for Spin {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        self.classes.clone()
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        let last = self.classes.len() as u16 - 1;
        Request::decode(request).map_or(ClassId(last), |r| ClassId(r.class.min(last)))
    }

    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        Request::decode(request).map(|request| Nanos(u64::from(request.service_ns)))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let Some(request) = Request::decode(request) else {
            response.write(&Answer::to_garbage(request).encode());
            return;
        };
        let iterations = self.iterations(&request);
        if iterations > 0 {
            chain(iterations);
        }
        response.write(&Answer::to(&request, Status::Done).encode());
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        if let Some(request) = Request::decode(request) {
            response.write(&Answer::to(&request, Status::Overloaded).encode());
        }
    }
}

/// Runs the chain for so many steps and returns its end.
#[inline(never)]
pub fn chain(iterations: u64) -> u64 {
    let mut x: u64 = black_box(0x9e37_79b9_7f4a_7c15);
    for _ in 0..iterations {
        x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    black_box(x)
}
