//! Requests whose connections go, and what requests know of themselves.

use crate::common;

use common::tasks::{POLICIES, Seen, Tasks};
use common::wire::{connect, frame, receive};
use common::{End, in_time, preset, serve, when};
use curtail::net::{Peer, Tcp, TcpConfig, Transport};
use curtail::{
    App, Cancelled, Cause, ClassId, Handle, Response, Server, ServerBuilder, WorkerId, check,
    context,
};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A server of connections.
fn over_tcp(
    policy: &'static str,
    client: impl FnOnce(SocketAddr, &Handle, &Seen) + Send + 'static,
) {
    in_time(move || {
        let tasks = Tasks::default();
        let seen = tasks.0.clone();
        let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
        let address = tcp.local_addrs()[0];
        let server = Server::builder(tasks).transport(Box::new(tcp)).safepoints_by_hand();
        let server = server.policy(preset(policy)).workers(1).build().unwrap();
        let end = End(server.handle());
        let client = thread::spawn(move || {
            let end = end;
            client(address, &end.0, &seen);
        });
        server.run().unwrap();
        client.join().unwrap();
    });
}

#[test]
fn a_connection_that_is_reset_cancels_its_requests() {
    for policy in POLICIES {
        over_tcp(policy, |address, handle, seen| {
            let mut goes = connect(address);
            let mut stays = connect(address);
            goes.write_all(&[frame(b"sleep"), frame(b"sleep")].concat()).unwrap();
            stays.write_all(&frame(b"sleep")).unwrap();
            seen.began(3);
            reset(goes);
            when(handle, |stats| stats.classes[0].cancelled_running == 2);
            assert_eq!(when(handle, |_| true).in_system, 1, "the others' go on");
            stays.write_all(&frame(b"echo")).unwrap();
            assert_eq!(receive(&mut stays), b"echo");
            reset(stays);
        });
    }
}

/// Closes it so that nothing under way is waited for.
fn reset(stream: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn a_context_knows_its_request_and_its_connection() {
    #[derive(Default)]
    struct Count(AtomicU64);
    struct Counts;
    impl App for Counts {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
            let context = context().unwrap();
            assert_eq!((context.class(), context.deadline()), (ClassId(0), None));
            assert!(matches!(context.peer(), Peer::Tcp { .. }));
            assert!(context.arrived() <= Instant::now() && context.check().is_ok());
            let count = context.connection::<Count>();
            let count = count.map_or(0, |count| count.0.fetch_add(1, SeqCst) + 1);
            response.write(count.to_string().as_bytes());
        }
    }
    for policy in POLICIES {
        in_time(move || {
            let tcp = Tcp::bind(&["127.0.0.1:0".parse().unwrap()], &TcpConfig::default()).unwrap();
            let address = tcp.local_addrs()[0];
            let server = Server::builder(Counts).transport(Box::new(tcp));
            let server = server.policy(preset(policy)).workers(1).build().unwrap();
            let end = End(server.handle());
            let client = thread::spawn(move || {
                let _end = end;
                for _ in 0..2 {
                    let mut stream = connect(address);
                    for expected in 1..=3_u64 {
                        stream.write_all(&frame(b"")).unwrap();
                        assert_eq!(receive(&mut stream), expected.to_string().as_bytes());
                    }
                }
            });
            server.run().unwrap();
            client.join().unwrap();
        });
    }
    assert!(context().is_none() && check().is_ok(), "no request here");
}

#[test]
fn an_error_of_io_says_why() {
    let told = std::io::Error::from(cancelled());
    assert_eq!(told.kind(), std::io::ErrorKind::Other);
    assert_eq!(Cancelled::of(&told).map(Cancelled::cause), Some(Cause::Deadline));
    assert_eq!(Cancelled::of(&std::io::ErrorKind::TimedOut.into()), None);
}

/// One that a request was told.
fn cancelled() -> Cancelled {
    struct Late(Arc<Mutex<Option<Cancelled>>>);
    impl App for Late {
        type Worker = ();
        fn setup_worker(&self, _: WorkerId) {}
        fn handle(&self, (): &(), _: &[u8], _: &mut Response) {
            let told = loop {
                if let Err(told) = check() {
                    break told;
                }
                curtail::yield_now();
            };
            *self.0.lock().unwrap() = Some(told);
        }
    }
    let told = Arc::new(Mutex::new(None));
    let app = Late(told.clone());
    let limit = |server: ServerBuilder| server.deadline("request", Duration::from_millis(1));
    let seen = told.clone();
    let ((), _) = serve(app, limit, move |client, _| {
        // One whose deadline passes before it begins is told nothing.
        while seen.lock().unwrap().is_none() {
            let _ = client.call(Vec::new());
        }
    });
    let told = *told.lock().unwrap();
    told.unwrap()
}
