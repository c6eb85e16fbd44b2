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

/// What `f` says in a child; `None`: it does not end.
fn in_child(f: impl FnOnce() -> bool) -> Option<bool> {
    // SAFETY: the child calls `f`, and ends.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1);
    if child == 0 {
        let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(false);
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!fine)) };
    }
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let mut status = 0;
    // SAFETY: our child, and a word for its status.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if std::time::Instant::now() > end {
            // SAFETY: our child.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
            }
            return None;
        }
        std::thread::yield_now();
    }
    Some(status == 0)
}

#[test]
fn a_childs_calls_end_though_the_threads_are_its_parents() {
    use curtail::pool::{self, Error, Pool, Refused, Why};
    let build = || Pool::builder().workers(1).class(pool::Class::named("any")).build().unwrap();
    let pool = build();
    let gate = std::sync::Arc::new(std::sync::Barrier::new(2));
    let (held, free) = (gate.clone(), gate);
    assert_eq!(pool.run(ClassId(0), || 1).wait().unwrap(), 1);
    assert_eq!(curtail::run(|| curtail::blocking(|| 2)), 2);
    let job = pool.run(ClassId(0), move || held.wait().is_leader());
    let refused = |job: Result<i32, Error>| {
        matches!(job, Err(Error::Refused(Refused { why: Why::Forked, .. })))
    };
    let new_job = || refused(pool.run(ClassId(0), || 3).wait());
    assert_eq!(in_child(new_job), Some(true), "a job of the child's");
    let ends = || pool.shutdown(std::time::Duration::from_secs(1)) == 0;
    assert_eq!(in_child(ends), Some(true), "the pool's end");
    let anew = || build().run(ClassId(0), || 4).wait().is_ok_and(|four| four == 4);
    assert_eq!(in_child(anew), Some(true), "a pool of the child's own");
    let blocks = || curtail::run(|| curtail::blocking(|| 5) + curtail::blocking(|| 6)) == 11;
    assert_eq!(in_child(blocks), Some(true), "what blocks");
    free.wait();
    assert!(job.wait().is_ok());
    assert_eq!(pool.run(ClassId(0), || 7).wait().unwrap(), 7);
}
