//! Threads, sleep and parking inside of a server's handlers, under every policy.

use crate::common;

use common::{in_kernel, preset, presets, serve};
use curtail::{App, Response, WorkerId, current, park, scope, spawn, yield_now};
use std::time::Duration;

/// Requests name what the handler does.
struct Threaded;

impl App for Threaded {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        match request {
            b"spawn" => {
                let children: Vec<_> = (0..10_u32)
                    .map(|n| {
                        spawn(move || {
                            yield_now();
                            n
                        })
                    })
                    .collect();
                let sum: u32 = children.into_iter().map(|child| child.join().unwrap()).sum();
                response.write(sum.to_string().as_bytes());
            }
            b"scope" => {
                let mut parts = [0_u32; 4];
                scope(|s| {
                    for part in &mut parts {
                        s.spawn(move || {
                            curtail::time::sleep(Duration::from_micros(50));
                            *part = 1;
                        });
                    }
                });
                response.write(parts.iter().sum::<u32>().to_string().as_bytes());
            }
            b"sleep" => {
                curtail::time::sleep(Duration::from_millis(1));
                response.write(b"slept");
            }
            b"park" => {
                let me = current();
                let waker = spawn(move || me.unpark());
                park();
                waker.join().unwrap();
                response.write(b"parked");
            }
            b"timeout" => {
                let over = curtail::time::timeout(Duration::from_millis(1), park);
                response.write(if over.is_err() { b"over" } else { b"not" });
            }
            other => panic!("{other:?}"),
        }
    }
}

const QUESTIONS: [(&[u8], &[u8]); 5] = [
    (b"spawn", b"45"),
    (b"scope", b"4"),
    (b"sleep", b"slept"),
    (b"park", b"parked"),
    (b"timeout", b"over"),
];

#[test]
fn handlers_spawn_sleep_and_park_under_every_policy() {
    for name in presets() {
        let ((), report) = serve(
            Threaded,
            |builder| builder.policy(preset(name)).workers(2),
            move |client, _| {
                let tickets: Vec<_> = (0..100)
                    .map(|n| {
                        let (question, answer) = QUESTIONS[n % QUESTIONS.len()];
                        (client.submit(question.to_vec()).unwrap(), answer)
                    })
                    .collect();
                for (ticket, answer) in tickets {
                    assert_eq!(ticket.wait().unwrap(), answer, "{name}");
                }
            },
        );
        assert_eq!(report.classes[0].completed, 100, "{name}");
        assert_eq!(report.classes[0].failed, 0, "{name}");
    }
}

/// A handler that sleeps in the kernel, with another request behind it.
struct Stuck;

impl App for Stuck {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        in_kernel(Duration::from_millis(60)); // Time itself is what is tested.
        response.write(b"done");
    }
}

#[test]
fn a_stuck_worker_is_told_of_with_its_stack() {
    let stalls = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = stalls.clone();
    serve(
        Stuck,
        |builder| {
            let builder = builder.workers(1).watchdog(Some(Duration::from_millis(20)));
            builder.on_stall(move |stall| told.lock().unwrap().push(stall.clone()))
        },
        |client, _| {
            let tickets: Vec<_> = (0..3).map(|_| client.submit(Vec::new()).unwrap()).collect();
            tickets.into_iter().for_each(|ticket| assert_eq!(ticket.wait().unwrap(), b"done"));
        },
    );
    let stalls = stalls.lock().unwrap();
    let first = &stalls[0];
    assert_eq!(first.kthread, 0);
    assert!(first.stack.iter().any(|frame| frame.contains("Stuck")), "{first}");
}
