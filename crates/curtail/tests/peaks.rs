//! What a peak of requests needed is freed when they have left. It is the process's memory that
//! is looked at, so this file has one test.

mod common;

use common::{Does, STUCK, in_time, preset, serve, when};
use curtail::{Response, sync};
use std::hint::black_box;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const REQUESTS: usize = 1_000;
/// That each touches of its stack.
const BYTES: usize = 32 << 10;
/// Of a stack, thread-locals stay, and what lies beside them on their pages.
const STAYS: usize = 12 << 10;

#[derive(Default)]
struct Gate {
    is_open: sync::Mutex<bool>,
    changed: sync::Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut is_open = self.is_open.lock().unwrap();
        while !*is_open {
            is_open = self.changed.wait(is_open).unwrap();
        }
    }
}

/// Memory of this process that lies in RAM.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

fn a_peak(policy: &str) {
    let gate = Arc::new(Gate::default());
    let opened = gate.clone();
    let app = Does(move |_: &[u8], response: &mut Response| {
        let deep = [1_u8; BYTES];
        black_box(&deep);
        gate.pass();
        response.write(black_box(&deep[..1]));
    });
    let settings = |server: curtail::ServerBuilder| server.policy(preset(policy)).workers(1);
    let policy = policy.to_owned();
    serve(app, settings, move |client, handle| {
        let before = resident();
        let tickets: Vec<_> =
            (0..REQUESTS).map(|_| client.submit(vec![1; 2_000]).unwrap()).collect();
        when(handle, |stats| stats.workers[0].holds == REQUESTS);
        // All have begun, and wait.
        let begun = Instant::now();
        while resident() < before + REQUESTS * BYTES / 2 {
            assert!(begun.elapsed() < STUCK / 4, "{policy}: they need no memory");
            thread::sleep(Duration::from_millis(1));
        }
        *opened.is_open.lock().unwrap() = true;
        opened.changed.notify_all();
        tickets.into_iter().for_each(|ticket| assert_eq!(ticket.wait().unwrap(), [1]));
        let begun = Instant::now();
        while resident() > before + REQUESTS * (BYTES / 4 + STAYS) {
            assert!(begun.elapsed() < STUCK / 4, "{policy}: {} of {before}", resident());
            thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn stacks_of_a_peak_are_given_back() {
    for policy in ["tq", "shenango"] {
        in_time(move || a_peak(policy));
    }
}
