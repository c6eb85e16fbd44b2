//! What is known of a request's class: by its handler, and by DARC of the time that it takes.

use crate::common;

use common::{Verbs, in_kernel, look, preset, serve, when};
use curtail::net::{
    Completion, Intake, Local, LocalClient, NoResponse, Peer, Reply, Status, Transport,
};
use curtail::{App, Class, ClassId, Response, Server, WorkerId};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

/// Answers with its class, and with that of a thread that it spawns.
struct Tells;

impl App for Tells {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        Verbs.classes()
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        assert_eq!(curtail::class(), None, "it is asked before there is one");
        match request {
            b"short" => ClassId(0),
            b"long" => ClassId(1),
            _ => ClassId::UNKNOWN,
        }
    }

    fn handle(&self, (): &(), _: &[u8], response: &mut Response) {
        let own = curtail::class().unwrap();
        assert_eq!(curtail::context().unwrap().class(), own);
        assert_eq!(curtail::spawn(curtail::class).join().unwrap(), Some(own));
        response.write(&own.0.to_le_bytes());
    }
}

#[test]
fn a_handler_knows_its_class() {
    assert_eq!(curtail::class(), None, "no request here");
    for policy in ["fcfs", "tq", "concord", "shenango"] {
        serve(
            Tells,
            |server| server.policy(preset(policy)).workers(1),
            |client, _| {
                for (request, class) in [("short", 0), ("long", 1), ("other", u16::MAX)] {
                    let answer = client.call(request.as_bytes().to_vec()).unwrap();
                    assert_eq!(answer, class.to_le_bytes(), "{request}");
                }
            },
        );
    }
}

/// Handlers that take no time to speak of: `loud` has an answer, `quiet` has none.
struct Loud;

impl App for Loud {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        ["loud", "quiet"].map(Class::named).to_vec()
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request == b"quiet"))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request != b"quiet" {
            response.write(request);
        }
    }
}

/// A transport whose answers take their worker a while.
struct Slow(Local);

struct SlowReply(Arc<dyn Reply>);

impl Reply for SlowReply {
    fn reply(&self, to: Peer, payload: &[u8]) {
        in_kernel(Duration::from_millis(5));
        self.0.reply(to, payload);
    }

    fn refuse(&self, to: Peer) {
        self.0.refuse(to);
    }

    fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

impl Transport for Slow {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        self.0.poll(now_tsc, into)
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(SlowReply(self.0.reply()))
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.0.wait_fds()
    }

    fn completed(&mut self, completion: &Completion) {
        self.0.completed(completion);
    }

    fn close(&mut self) {
        self.0.close();
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Sending is most of what the answered requests take of their worker, and DARC knows it. The others
/// go first, though they are the second class and their handler takes as long.
#[test]
fn sending_the_answer_is_a_workers_time() {
    let (local, user): (Local, LocalClient) = Local::new(64).unwrap();
    let mut spec = preset("darc");
    spec.darc.window = 40;
    let server = Server::builder(Loud).transport(Box::new(Slow(local))).policy(spec);
    let server = server.workers(2).build().unwrap();
    let end = common::End(server.handle());
    let client = std::thread::spawn(move || {
        for _ in 0..20 {
            assert_eq!(user.call(b"quiet".to_vec()), Err(NoResponse::Silent));
            assert_eq!(user.call(b"loud".to_vec()).unwrap(), b"loud");
        }
        when(&end.0, |it| it.classes.iter().all(|class| class.completed == 20));
        look(&end.0).decided.unwrap()
    });
    server.run().unwrap();
    let decided = client.join().unwrap();
    assert!(decided.starts_with("quiet (demand "), "{decided}");
    assert!(decided.contains("; loud (demand "), "two groups: {decided}");
}
