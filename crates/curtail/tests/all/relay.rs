//! Handlers that ask another server: one that waits leaves its worker to other requests.

use crate::common;

use common::{STUCK, preset, serve};
use curtail::net::{TcpStream, UnixListener, UnixStream};
use curtail::{App, Response, WorkerId, block_on, blocking};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Barrier};
use std::time::Duration;

const TOGETHER: usize = 24;

struct Relay {
    backend: SocketAddr,
    together: Arc<Barrier>,
}

impl App for Relay {
    type Worker = ();

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        match request.split_first() {
            Some((b'r', text)) => {
                let mut stream = TcpStream::connect(self.backend).unwrap();
                stream.write_all(text).unwrap();
                let mut answer = vec![0; text.len()];
                stream.read_exact(&mut answer).unwrap();
                response.write(&answer);
            }
            Some((b'b', text)) => {
                blocking(|| self.together.wait());
                response.write(text);
            }
            Some((b'f', text)) => response.write(&block_on(async { text.to_vec() })),
            Some((b't', _)) => {
                let (mut one, _other) = UnixStream::pair().unwrap();
                one.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
                response.write(format!("{:?}", one.read(&mut [0]).unwrap_err().kind()).as_bytes());
            }
            _ => panic!("no such request"),
        }
    }
}

/// Answers when `TOGETHER` peers have asked: more than there are workers.
fn backend(listener: &TcpListener, rounds: usize) {
    for _ in 0..rounds {
        let mut peers: Vec<_> = (0..TOGETHER).map(|_| listener.accept().unwrap().0).collect();
        for peer in &mut peers {
            let mut text = [0; 4];
            peer.read_exact(&mut text).unwrap();
            peer.write_all(&text).unwrap();
        }
    }
}

#[test]
fn requests_wait_for_sockets_and_calls_beside_each_other() {
    for (policy, workers) in [("fcfs", 1), ("tq", 2), ("dfcfs", 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = Relay {
            backend: listener.local_addr().unwrap(),
            together: Arc::new(Barrier::new(TOGETHER)),
        };
        let serving = std::thread::spawn(move || backend(&listener, 3));
        let settings =
            |builder: curtail::ServerBuilder| builder.policy(preset(policy)).workers(workers);
        serve(app, settings, move |client, _| {
            for verb in [b'r', b'b', b'r', b'f', b'r', b't'] {
                let tickets: Vec<_> = (0..TOGETHER)
                    .map(|n| client.submit(format!("{}{n:04}", verb as char).into()).unwrap())
                    .collect();
                for (n, ticket) in tickets.into_iter().enumerate() {
                    let Ok(answer) = ticket.wait_timeout(STUCK) else {
                        panic!("no answer to {} {n} under {policy}", verb as char);
                    };
                    let answer = String::from_utf8(answer.unwrap()).unwrap();
                    let expected = match verb {
                        b't' => "WouldBlock".to_owned(),
                        _ => format!("{n:04}"),
                    };
                    assert_eq!(answer, expected);
                }
            }
        });
        serving.join().unwrap();
    }
}

#[test]
fn what_handlers_spawn_serves_sockets() {
    struct Spawns(std::path::PathBuf);
    impl App for Spawns {
        type Worker = ();

        fn setup_worker(&self, _: WorkerId) {}

        fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
            let listener = UnixListener::bind(&self.0).unwrap();
            let asked = request.to_vec();
            let path = self.0.clone();
            let client = curtail::spawn(move || {
                let mut stream = UnixStream::connect(path).unwrap();
                stream.write_all(&asked).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).unwrap();
                answer
            });
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = Vec::new();
            stream.read_to_end(&mut text).unwrap();
            text.reverse();
            stream.write_all(&text).unwrap();
            drop(stream);
            response.write(&client.join().unwrap());
            std::fs::remove_file(&self.0).unwrap();
        }
    }
    let path = std::env::temp_dir().join(format!("curtail-relay-{}", std::process::id()));
    serve(
        Spawns(path),
        |builder| builder.workers(1),
        |client, _| {
            for _ in 0..20 {
                assert_eq!(client.call(b"abc".to_vec()).unwrap(), b"cba");
            }
        },
    );
}
