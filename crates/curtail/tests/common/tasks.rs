//! An application whose requests wait, compute and look whether they are cancelled.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use super::{STUCK, in_time, preset, serve, spin};
use curtail::{
    App, Cause, Class, ClassId, Handle, RequestId, Response, ServerBuilder, WorkerId, check,
    context, shield, spawn, time,
};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

pub const POLICIES: [&str; 4] = ["shenango-ps", "tq", "ps", "fcfs"];
/// Those whose requests run in turn.
pub const IN_TURN: [&str; 3] = ["shenango-ps", "tq", "ps"];
const FOR_EVER: Duration = Duration::from_secs(3_600);

#[derive(Default)]
pub struct Seen {
    pub began: AtomicUsize,
    pub dropped: AtomicUsize,
    pub steps: AtomicU64,
    pub open: AtomicBool,
    pub ids: Mutex<Vec<RequestId>>,
    pub told: Mutex<Vec<String>>,
}

impl Seen {
    pub fn until(&self, is: impl Fn(&Self) -> bool) {
        let end = Instant::now() + STUCK;
        while !is(self) {
            assert!(Instant::now() < end, "it does not come");
            thread::sleep(Duration::from_micros(200));
        }
    }

    pub fn began(&self, count: usize) {
        self.until(|seen| seen.began.load(SeqCst) >= count);
    }

    pub fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

/// Requests of two classes, by their first letter.
#[derive(Clone, Default)]
pub struct Tasks(pub Arc<Seen>);

struct Dropped<'a>(&'a Seen);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

impl App for Tasks {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("short"), Class::named("long")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request.starts_with(b"L")))
    }

    fn deadline(&self, request: &[u8]) -> Option<Duration> {
        request.ends_with(b" at once").then_some(Duration::ZERO)
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let seen = &*self.0;
        let _dropped = Dropped(seen);
        seen.ids.lock().unwrap().push(context().unwrap().id());
        seen.began.fetch_add(1, SeqCst);
        match request {
            b"echo" => response.write(request),
            b"live" => {
                spin(2_000);
                let steps = seen.steps.load(SeqCst).to_string();
                response.write(steps.as_bytes());
            }
            b"Lsleep" | b"sleep" => time::sleep(FOR_EVER),
            b"shielded" => shield(|| {
                while !seen.open.load(SeqCst) {
                    time::sleep(Duration::from_micros(100));
                }
                response.write(b"whole");
            }),
            b"Lcheck" => {
                let told = loop {
                    spin(64);
                    if let Err(told) = check() {
                        break told;
                    }
                };
                seen.told.lock().unwrap().push(told.to_string());
            }
            b"child" => {
                let id = context().unwrap().id();
                let child = spawn(move || {
                    assert_eq!(context().unwrap().id(), id);
                    while check().is_ok() {
                        time::sleep(Duration::from_micros(100));
                    }
                });
                // It cannot fail, and is waited for.
                shield(|| child.join()).unwrap();
            }
            b"Lspin" => {
                while !seen.open.load(SeqCst) {
                    spin(32);
                    seen.steps.fetch_add(1, SeqCst);
                }
            }
            b"hold" => {
                while !seen.open.load(SeqCst) {
                    super::in_kernel(Duration::from_micros(50));
                }
            }
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }

    fn failed(&self, _: &[u8], response: &mut Response) {
        response.write(b"failed");
    }

    fn cancelled(&self, _: &[u8], cause: Cause, response: &mut Response) {
        response.write(cause.to_string().as_bytes());
    }
}

pub fn with<R: Send + 'static>(
    policy: &str,
    settings: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static,
    client: impl FnOnce(&curtail::net::LocalClient, &Handle, &Seen) -> R + Send + 'static,
) -> (R, curtail::Report) {
    let (policy, tasks) = (policy.to_owned(), Tasks::default());
    let seen = tasks.0.clone();
    in_time(move || {
        let settings = |server: ServerBuilder| {
            let server = server.policy(preset(&policy)).workers(1).drain(STUCK);
            settings(server)
        };
        serve(tasks, settings, move |user, handle| client(user, handle, &seen))
    })
}
