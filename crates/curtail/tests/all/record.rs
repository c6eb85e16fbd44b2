//! What the dispatcher records plays to the same decisions, over live switches too.

use crate::common;

use common::{PRESETS, Verbs, preset, serve};
use curtail::net::LocalClient;
use curtail::{Nanos, Server, StartError};
use curtail_sim::{Replay, replay};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// A file that goes when it is done with.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let file = format!("curtail-record-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(file))
    }

    fn replay(&self) -> Replay {
        replay(BufReader::new(File::open(&self.0).unwrap())).unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Some short and some long requests, all under way at once.
fn load(client: &LocalClient, requests: usize) {
    let request = |i: usize| match i % 5 {
        0 => b"spin 40000".to_vec(),
        _ => format!("echo {i}").into_bytes(),
    };
    let pending: Vec<_> = (0..requests).map(|i| client.submit(request(i)).unwrap()).collect();
    for answer in pending {
        answer.wait().unwrap();
    }
}

#[test]
fn every_policy_decides_the_same_again() {
    for name in PRESETS {
        let file = Temporary::new(name);
        let path = file.0.clone();
        let mut spec = preset(name);
        spec.darc.window = 50;
        let (_, report) = serve(
            Verbs,
            |server| server.policy(spec).workers(2).capacity(256).record(path),
            |client, handle| {
                load(client, 120);
                handle.set_quantum(Some(Nanos(3_000))).unwrap();
                load(client, 60);
            },
        );
        let served: u64 = report.classes.iter().map(|class| class.completed).sum();
        assert_eq!(served, 180, "{name}");
        assert!(
            report.notes.iter().any(|note| note.starts_with("recorded ")),
            "{:?}",
            report.notes
        );
        let found = file.replay();
        assert_eq!(found.difference, None, "{name}");
        assert_eq!((found.policies, found.cut_off), (vec![name.to_owned()], false));
        assert!(found.decisions >= 180 && found.calls >= 540, "{name}: {} calls", found.calls);
    }
}

#[test]
fn live_switches_are_played_too() {
    let file = Temporary::new("switches");
    let path = file.0.clone();
    let order = ["tq", "concord", "fcfs", "srpt", "steal", "ps"];
    serve(
        Verbs,
        |server| server.policy(preset("tq")).workers(2).capacity(256).record(path),
        move |client, handle| {
            for name in &order[1..] {
                let pending: Vec<_> =
                    (0..60).map(|_| client.submit(b"spin 20000".to_vec()).unwrap()).collect();
                handle.switch(preset(name)).unwrap();
                pending.into_iter().for_each(|answer| drop(answer.wait().unwrap()));
            }
        },
    );
    let found = file.replay();
    assert_eq!(found.difference, None);
    assert_eq!(found.policies, order);
}

/// With several dispatchers each has a record of its own.
#[test]
fn each_dispatcher_records() {
    let file = Temporary::new("several");
    let parts = [0, 1].map(|index| Temporary(format!("{}.{index}", file.0.display()).into()));
    let path = file.0.clone();
    let (_, report) = serve(
        Verbs,
        |server| server.policy(preset("tq")).workers(2).dispatchers(2).record(path),
        |client, _| load(client, 400),
    );
    assert_eq!(report.classes.iter().map(|class| class.completed).sum::<u64>(), 400);
    let recorded = report.notes.iter().filter(|note| note.starts_with("recorded "));
    assert_eq!(recorded.count(), 2, "{:?}", report.notes);
    let found = parts.each_ref().map(Temporary::replay);
    assert!(found.iter().all(|found| found.difference.is_none() && !found.cut_off));
    assert!(found.iter().map(|found| found.decisions).sum::<u64>() >= 400);
    assert!(!file.0.exists());
}

#[test]
fn a_file_that_cannot_be_written_is_said_at_the_start() {
    let (local, _client) = curtail::net::Local::new(4).unwrap();
    let server = Server::builder(Verbs).transport(Box::new(local)).workers(1);
    let Err(error) = server.record("/nonexistent/record").build() else { panic!("it starts") };
    assert!(matches!(error, StartError::Setting(_)));
    assert!(error.to_string().contains("/nonexistent/record"), "{error}");
}
