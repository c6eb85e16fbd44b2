//! Requests for which there is no memory for a stack. The process has one limit, so this file has one
//! test.

mod common;

use common::{in_time, preset, serve, when};
use curtail::net::NoResponse;
use curtail::{App, Response, WorkerId, sync};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Requests `wait` until one that does not comes.
#[derive(Default)]
struct Waits {
    turn: sync::Mutex<u64>,
    changed: sync::Condvar,
    waiting: AtomicUsize,
    says_so: bool,
}

impl App for Waits {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request == b"wait" {
            let mut turn = self.turn.lock().unwrap();
            let since = *turn;
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while *turn == since {
                turn = self.changed.wait(turn).unwrap();
            }
        }
        response.write(b"done");
    }
    fn overloaded(&self, _: &[u8], response: &mut Response) {
        if self.says_so {
            // It may wait, as on any fiber.
            drop(self.turn.lock());
            response.write(b"no room");
        }
    }
}

/// What the process has mapped, in bytes.
fn mapped() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').next().unwrap().parse().unwrap();
    pages * 4_096
}

/// No more than so many bytes.
fn limit(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: a valid limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[test]
fn who_finds_no_stack_is_refused_and_nobody_else() {
    // More than a slab of stacks has.
    const REQUESTS: usize = 150;
    for says_so in [true, false] {
        let (refused, report) = in_time(move || {
            let app = Shared(Arc::new(Waits { says_so, ..Waits::default() }));
            let wakes = app.0.clone();
            let stacks = |server: curtail::ServerBuilder| {
                // A slab is 64 GiB of addresses, and next to no memory.
                server.policy(preset("fcfs")).workers(1).stack_size(1 << 30)
            };
            serve(app, stacks, move |client, handle| {
                assert_eq!(client.call(b"go".to_vec()).unwrap(), b"done");
                // Room for all but stacks.
                limit(mapped() + (1 << 30));
                let tickets: Vec<_> =
                    (0..REQUESTS).map(|_| client.submit(b"wait".to_vec()).unwrap()).collect();
                let refused = |stats: &curtail::Stats| stats.classes[0].dropped as usize;
                when(handle, |stats| {
                    wakes.waiting.load(Ordering::SeqCst) + refused(stats) == REQUESTS
                });
                // Every request that is answered by now has been refused.
                let mut answers = Vec::new();
                let (mut ended, mut waits) = (0, Vec::new());
                for ticket in tickets {
                    match ticket.try_take() {
                        Ok(answer) => {
                            ended += 1;
                            answers.push(answer);
                        }
                        Err(ticket) => waits.push(ticket),
                    }
                }
                for answer in answers {
                    match says_so {
                        true => assert_eq!(answer.unwrap(), b"no room"),
                        false => assert_eq!(answer, Err(NoResponse::Dropped)),
                    }
                }
                *wakes.turn.lock().unwrap() += 1;
                wakes.changed.notify_all();
                for ticket in waits {
                    assert_eq!(ticket.wait().unwrap(), b"done");
                }
                // Their stacks are free again.
                assert_eq!(client.call(b"go".to_vec()).unwrap(), b"done");
                limit(libc::RLIM_INFINITY);
                ended
            })
        });
        assert!(refused > 0 && refused < REQUESTS, "{refused}");
        let class = &report.classes[0];
        assert_eq!((class.failed, class.dropped as usize), (0, refused));
        assert_eq!(class.completed as usize, REQUESTS - refused + 2);
    }
}

/// The test has a hand in it, too.
struct Shared(Arc<Waits>);

impl App for Shared {
    type Worker = ();
    fn setup_worker(&self, _: WorkerId) {}
    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        self.0.handle(&(), request, response);
    }
    fn overloaded(&self, request: &[u8], response: &mut Response) {
        self.0.overloaded(request, response);
    }
}
