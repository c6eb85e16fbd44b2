//! Servers over shared memory, with a dispatcher and without, awake and asleep.

use crate::common;

use common::{End, STUCK, in_time, preset, when};
use curtail::net::{NoResponse, ShmClient, open};
use curtail::{App, Class, ClassId, DispatcherMode, Handle, Report, Response, Server, WorkerId};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const POLICIES: [&str; 3] = ["tq", "fcfs", "shenango"];

struct Words;

impl App for Words {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("word"), Class::named("until-gone")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request == b"until-gone"))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        match request {
            b"nothing" => {}
            b"panic" => panic!("as asked"),
            b"big" => (0..2_000).for_each(|_| response.write(&[b'x'; 64])),
            b"until-gone" => {
                while curtail::check().is_ok() {
                    curtail::yield_now();
                }
            }
            _ => response.write(request),
        }
    }
}

/// Runs a server beside UDP while `client` talks to it by that file.
fn over_shm(
    policy: &'static str,
    mode: DispatcherMode,
    client: impl FnOnce(&PathBuf, &Handle) + Send + 'static,
) -> Report {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("curtail-words-{}-{number}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    in_time(move || {
        let url = format!("udp://127.0.0.1:0,shm://{}", path.display());
        let server = Server::builder(Words).transport(open(&url).unwrap()).dispatcher(mode);
        let server = server.policy(preset(policy)).workers(1).build().unwrap();
        let end = End(server.handle());
        let client = thread::spawn(move || {
            let end = end;
            client(&path, &end.0);
        });
        let report = server.run().unwrap();
        client.join().unwrap();
        report
    })
}

#[test]
fn answers_and_why_there_is_none() {
    for policy in POLICIES {
        for mode in [DispatcherMode::Busy, DispatcherMode::Blocking] {
            let report = over_shm(policy, mode, |path, _| {
                let mut client = ShmClient::connect(path).unwrap();
                for round in (0..300_u32).map(|round| round * 7) {
                    let question = [&round.to_le_bytes()[..], &vec![7; round as usize]].concat();
                    assert_eq!(client.call(&question).unwrap(), question);
                }
                assert_eq!(client.call(b"nothing"), Err(NoResponse::Silent));
                assert_eq!(client.call(b"panic"), Err(NoResponse::Failed));
                assert_eq!(client.call(b"big").unwrap(), [b'x'; 128_000]);
            });
            assert_eq!(report.classes[0].completed, 302, "{policy} {mode:?}");
            assert_eq!(report.unsent + report.malformed, 0, "{policy} {mode:?}");
        }
    }
}

#[test]
fn several_clients_with_many_requests_each() {
    for policy in POLICIES {
        let report = over_shm(policy, DispatcherMode::Blocking, |path, _| {
            let clients = (0..4_u8).map(|id| {
                let mut client = ShmClient::connect(path).unwrap();
                thread::spawn(move || {
                    let (mut sent, mut come) = (0_u32, 0);
                    while come < 2_000 {
                        while sent < 2_000 && sent - come < 100 {
                            client.submit(&[id; 100]).unwrap();
                            sent += 1;
                        }
                        let mut take = |_, answer: Result<&[u8], NoResponse>| {
                            assert_eq!(answer, Ok(&[id; 100][..]));
                        };
                        let count = client.receive(&mut take).unwrap();
                        come += count as u32;
                        if count == 0 {
                            client.wait(Some(STUCK)).unwrap();
                        }
                    }
                })
            });
            clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().unwrap());
        });
        assert_eq!(report.classes[0].completed, 8_000, "{policy}");
    }
}

#[test]
fn a_client_that_goes_takes_its_requests_along() {
    for policy in POLICIES {
        let report = over_shm(policy, DispatcherMode::Blocking, |path, handle| {
            let mut goes = ShmClient::connect(path).unwrap();
            for _ in 0..3 {
                goes.submit(b"until-gone").unwrap();
            }
            when(handle, |stats| stats.in_system == 3);
            drop(goes);
            when(handle, |stats| stats.in_system == 0);
            let mut stays = ShmClient::connect(path).unwrap();
            assert_eq!(stays.call(b"well").unwrap(), b"well");
        });
        let class = &report.classes[1];
        let ended = class.completed + class.orphaned + class.cancelled_running;
        assert_eq!(ended, 3, "{policy}: {class:?}");
    }
}
