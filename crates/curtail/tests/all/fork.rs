//! A handler that forks: its child does its own work and no other.

use crate::common;

use common::{preset, serve, spin};
use curtail::{App, Class, ClassId, Nanos, Response, WorkerId};

const CHILD_ENDED: i32 = 7;
const CHILD_WENT_ON: i32 = 9;

struct Forks {
    parent: u32,
}

impl App for Forks {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("any")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, _: &[u8]) -> ClassId {
        ClassId(0)
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        let status = if request == b"fork" { forked() } else { self.work() };
        response.write(status.to_string().as_bytes());
    }
}

impl Forks {
    /// The parent's work, whichever process runs it.
    fn work(&self) -> i32 {
        for _ in 0..20_000 {
            spin(100);
            if std::process::id() != self.parent {
                // SAFETY: ends the child.
                unsafe { libc::_exit(CHILD_WENT_ON) };
            }
        }
        0
    }
}

/// How the child ended, which works for many quanta.
fn forked() -> i32 {
    // SAFETY: the child only counts, and ends.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1);
    if child == 0 {
        spin(1_000_000);
        // SAFETY: ends the child.
        unsafe { libc::_exit(CHILD_ENDED) };
    }
    let mut status = 0;
    // SAFETY: our child, and a word for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}

#[test]
fn a_child_goes_on_with_nobody_elses_request() {
    let spec = preset("tq").with_quantum(Nanos(1_000)).unwrap();
    let app = Forks { parent: std::process::id() };
    let (answers, report) = serve(
        app,
        |server| server.policy(spec).workers(1),
        |client, _| {
            let requests = [&b"work"[..], b"fork", b"work"];
            let tickets = requests.map(|request| client.submit(request.to_vec()).unwrap());
            tickets.map(|ticket| String::from_utf8(ticket.wait().unwrap()).unwrap())
        },
    );
    assert_eq!(answers, ["0", "7", "0"]);
    assert!(report.preemptions > 0);
}
