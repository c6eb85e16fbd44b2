//! A running server, shown to `curtail top`: looks at it, over a socket.
//!
//! The socket is a Unix one in the abstract namespace, called after the process: it leaves no file, and
//! is gone with the process, however that ends. A line break from the peer asks for a look, which is
//! one line of JSON ([`curtail_report::Live`]); anything else that comes is ignored. Only the server's
//! own user and root are answered.
//!
//! One thread waits for peers, and each peer has one; they see the server through its [`Handle`], as
//! anybody may, so nothing here is on a request's way. They end with the process.

use crate::result::{histogram_quantiles, ticks};
use curtail::{ClassStats, Handle, Stats};
use curtail_report::{Counted, Live, LiveClass, LiveWorker, SCHEMA};
use hdrhistogram::Histogram;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Peers at a time; more are turned away.
const PEERS: usize = 8;
/// A peer that takes no more is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the sockets are called, but for the process's number.
pub(crate) const NAME: &str = "curtail-top-";

/// Where a process shows itself.
pub(crate) fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{pid}"))
}

/// Whether that user may be told, and may be believed.
pub(crate) fn is_trusted(user: Uid) -> bool {
    user == geteuid() || user.is_root()
}

/// What does not change.
struct Shown {
    server: Handle,
    app: String,
    listen: String,
    start: Instant,
}

/// Shows this process's server from now on.
pub(crate) fn expose(server: Handle, app: &str, listen: &str) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
    let (app, listen) = (app.to_owned(), listen.to_owned());
    let shown = Arc::new(Shown { server, app, listen, start: Instant::now() });
    let wait = move || {
        for stream in listener.incoming() {
            // Each peer's thread has a count of its own.
            match stream {
                Ok(stream) if Arc::strong_count(&shown) <= PEERS => {
                    let shown = shown.clone();
                    let tell = move || drop(tell(&shown, stream));
                    // Without a thread for it, the peer sees its line closed.
                    let _ = Builder::new().name("look".to_owned()).spawn(tell);
                }
                Ok(_) => {}
                // Out of descriptors, perhaps: others may give some back meanwhile.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    Builder::new().name("looks".to_owned()).spawn(wait).map(drop)
}

/// One peer's thread.
fn tell(shown: &Shown, mut stream: UnixStream) -> io::Result<()> {
    if !is_trusted(socket_peercred(&stream)?.uid) {
        return Ok(());
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut before = None;
    let mut asked = [0; 64];
    loop {
        let length = stream.read(&mut asked)?;
        if length == 0 {
            return Ok(());
        }
        if asked[..length].contains(&b'\n') {
            // No statistics: the server has ended.
            let Some(now) = Moment::now(shown) else { return Ok(()) };
            let line = now.since(before.as_ref(), shown).line().map_err(io::Error::other)?;
            stream.write_all(line.as_bytes())?;
            before = Some(now);
        }
    }
}

/// What was counted up to a moment.
struct Moment {
    at: Instant,
    stats: Stats,
    threads: HashMap<u16, Thread>,
}

/// A worker's thread, as the kernel counts.
#[derive(Clone, Copy, Default)]
struct Thread {
    core: Option<u32>,
    on_core_ns: u64,
    kept_ns: u64,
}

impl Moment {
    fn now(shown: &Shown) -> Option<Self> {
        let stats = shown.server.stats()?;
        Some(Self { at: Instant::now(), stats, threads: threads() })
    }

    fn since(&self, before: Option<&Self>, shown: &Shown) -> Live {
        let Self { at, stats, .. } = self;
        let since = before.map_or(shown.start, |before| before.at);
        let recent_s = at.duration_since(since).as_secs_f64();
        let earlier: Vec<_> = before.into_iter().flat_map(|before| rows(&before.stats)).collect();
        let class = |(index, class)| live_class(class, earlier.get(index).copied());
        Live {
            schema: SCHEMA,
            verb: "top".to_owned(),
            pid: std::process::id(),
            app: shown.app.clone(),
            listen: shown.listen.clone(),
            uptime_s: at.duration_since(shown.start).as_secs_f64(),
            recent_s,
            policy: stats.policy.clone(),
            quantum_ns: stats.quantum.map(|quantum| quantum.0),
            preempt: stats.preempt.to_string(),
            preempt_note: stats.preempt_note.clone(),
            decided: stats.decided.clone(),
            in_system: stats.in_system as u64,
            waiting: stats.waiting as u64,
            malformed: stats.malformed,
            unsent: stats.unsent,
            preemptions: stats.preemptions,
            ticks: ticks(&stats.ticks),
            classes: rows(stats).enumerate().map(class).collect(),
            workers: self.workers(before, recent_s),
            allocator: None,
        }
    }

    fn workers(&self, before: Option<&Self>, recent_s: f64) -> Vec<LiveWorker> {
        let share = |now: u64, before: u64| {
            (recent_s > 0.0).then(|| now.saturating_sub(before) as f64 / 1e9 / recent_s)
        };
        let look = |(index, now): (usize, &curtail::WorkerStats)| {
            let number = now.worker.0;
            let was = before.and_then(|before| before.stats.workers.get(index));
            let thread = self.threads.get(&number);
            let earlier = before.and_then(|before| before.threads.get(&number).copied());
            let earlier = earlier.unwrap_or_default();
            LiveWorker {
                worker: number,
                core: thread.and_then(|thread| thread.core).filter(|_| now.has_core),
                holds: now.holds as u64,
                preemptions: now.preemptions,
                recent_preemptions: now.preemptions - was.map_or(0, |was| was.preemptions),
                cpu_share: thread.and_then(|now| share(now.on_core_ns, earlier.on_core_ns)),
                kept_share: thread.and_then(|now| share(now.kept_ns, earlier.kept_ns)),
            }
        };
        self.stats.workers.iter().enumerate().map(look).collect()
    }
}

/// All classes, and requests of none of them.
fn rows(stats: &Stats) -> impl Iterator<Item = &ClassStats> {
    stats.classes.iter().chain([&stats.unknown])
}

fn live_class(now: &ClassStats, before: Option<&ClassStats>) -> LiveClass {
    let total = counted(now);
    let recent = before.map_or(total, |before| {
        let less = |now: &Histogram<u64>, before: &Histogram<u64>| {
            let mut less = now.clone();
            // What was counted stays counted, so there is always something to take it from.
            let _ = less.subtract(before);
            histogram_quantiles(&less)
        };
        Counted {
            completed: now.completed - before.completed,
            failed: now.failed - before.failed,
            dropped: now.dropped - before.dropped,
            sojourn_ns: less(&now.sojourn_ns, &before.sojourn_ns),
            queueing_ns: less(&now.queueing_ns, &before.queueing_ns),
            service_ns: less(&now.service_ns, &before.service_ns),
        }
    });
    LiveClass { name: now.name.clone(), total, recent }
}

fn counted(class: &ClassStats) -> Counted {
    Counted {
        completed: class.completed,
        failed: class.failed,
        dropped: class.dropped,
        sojourn_ns: histogram_quantiles(&class.sojourn_ns),
        queueing_ns: histogram_quantiles(&class.queueing_ns),
        service_ns: histogram_quantiles(&class.service_ns),
    }
}

/// The worker threads of this process, by number. What the kernel does not tell is left out.
fn threads() -> HashMap<u16, Thread> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let look = |task: std::fs::DirEntry| {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        let number = read("comm")?.trim_end().strip_prefix("curtail-")?.parse().ok()?;
        let (on_core_ns, kept_ns) = schedstat(&read("schedstat")?)?;
        Some((number, Thread { core: read("stat").and_then(|s| core(&s)), on_core_ns, kept_ns }))
    };
    tasks.filter_map(look).collect()
}

/// Of "time on a core, time waiting for one, time slices", in nanoseconds.
fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut figures = text.split_whitespace().map(str::parse);
    Some((figures.next()?.ok()?, figures.next()?.ok()?))
}

/// The 39th field of proc(5)'s `stat`. The second one is a name in parentheses, which may contain
/// anything.
fn core(text: &str) -> Option<u32> {
    text.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        assert_eq!(schedstat("7 1500 3\n"), Some((7, 1_500)));
        assert_eq!(schedstat("7"), None);
        let after: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        assert_eq!(core(&format!("12 (a) b) {}\n", after.join(" "))), Some(39));
        assert_eq!(core("12 (a) R 1"), None);
        assert_eq!(core(""), None);
    }

    #[test]
    fn recent_is_what_came_since() {
        let histogram = |values: &[u64]| {
            let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 2).unwrap();
            values.iter().for_each(|&value| histogram.record(value).unwrap());
            histogram
        };
        let class = |completed, values: &[u64]| ClassStats {
            name: "a".to_owned(),
            completed,
            failed: 0,
            dropped: 1,
            orphaned: 0,
            cancelled_queued: 0,
            cancelled_running: 0,
            abandoned: 0,
            sojourn_ns: histogram(values),
            queueing_ns: histogram(&[]),
            service_ns: histogram(values),
        };
        let live = live_class(&class(3, &[1_000, 1_000, 9]), Some(&class(2, &[1_000, 1_000])));
        assert_eq!((live.total.completed, live.total.dropped), (3, 1));
        assert_eq!((live.recent.completed, live.recent.dropped), (1, 0));
        let times = live.recent.sojourn_ns.unwrap();
        assert_eq!((times.p50, times.max), (9, 9));
        assert_eq!(live.recent.queueing_ns, None);
        let first = live_class(&class(3, &[5, 5, 5]), None);
        assert_eq!(first.recent, first.total);
    }
}
