//! The daemon's end, and its return: a plain thread that waits for both. A daemon that has stopped
//! ([`super::pulse`]) is left as one that has ended is, and registered with again when it goes on.

use super::pulse::{LOOK, Pulse};
use super::{Elastic, Link};
use crate::thread::common::Common;
use crate::thread::watchdog::warn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

/// The target of what is logged here.
const LOG: &str = "curtail::thread::elastic::watcher";

/// Between two attempts to register again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MOST_PAUSE: Duration = Duration::from_secs(1);
/// Between two wake-ups of kthreads that have not noticed yet.
const WAKE_AGAIN: Duration = Duration::from_micros(200);

/// How long to wait until a daemon is registered with again: twice as long each time that it had to be
/// left since it wrote what can't be.
#[derive(Default)]
struct Backoff {
    lies: u32,
}

impl Backoff {
    /// A session has ended, for that reason or another.
    fn note(&mut self, was_distrusted: bool) {
        self.lies = if was_distrusted { self.lies.saturating_add(1) } else { 0 };
    }

    fn pause(&self) -> Duration {
        // More would be longer than the longest in any case.
        FIRST_PAUSE.saturating_mul(1 << self.lies.min(16)).min(MOST_PAUSE)
    }
}

/// The thread's life, until the runtime ends.
pub(super) fn watch(elastic: &Elastic, peers: &Common) {
    let mut backoff = Backoff::default();
    while let Some(link) = elastic.link() {
        // The end either finds this link and leaves it, or came before it was set: then that is
        // seen here.
        if elastic.has_ended() {
            return;
        }
        let stopped_at = wait_until_gone(elastic, &link);
        if elastic.has_ended() {
            return;
        }
        let path = elastic.path.display();
        let what = if stopped_at.is_some() { "does not answer" } else { "has ended" };
        warn(&format!("the core allocator at {path} {what}: the kthreads run on without it"));
        if let Some(port) = elastic.port() {
            warn(&format!("{} is closed until it is back", port.url()));
        }
        leave(elastic, &link, peers);
        if let Some(beat_ns) = stopped_at {
            wait_until_back(elastic, &link, beat_ns);
        }
        drop(link);
        backoff.note(elastic.is_distrusted.swap(false, Ordering::AcqRel));
        let Some(link) = connect_again(elastic, backoff.pause()) else { return };
        tracing::info!(target: LOG, %path, "registered with the core allocator again");
        elastic.set_link(Some(Arc::new(link)));
        // Those that sleep elsewhere are to sleep on the board.
        peers.peers.iter().for_each(|peer| peer.parker.unpark());
    }
}

/// Until the daemon has ended or stopped, or the runtime ends. `Some`: it has stopped, after that beat.
fn wait_until_gone(elastic: &Elastic, link: &Link) -> Option<u64> {
    if !link.grants_cores() {
        link.wait_for_end();
        return None;
    }
    let (mut pulse, mut looked) = (Pulse::default(), Instant::now());
    while !link.ends_within(LOOK) && !elastic.has_ended() {
        let since = looked.elapsed();
        looked = Instant::now();
        let beat_ns = link.view.heartbeat_ns();
        if pulse.has_stopped(beat_ns, since) {
            return Some(beat_ns);
        }
    }
    None
}

/// Until a daemon that has stopped after that beat goes on or ends, or the runtime ends. The session stays until then:
/// a new one would wait for its answer.
fn wait_until_back(elastic: &Elastic, link: &Link, beat_ns: u64) {
    while link.view.heartbeat_ns() == beat_ns && !elastic.has_ended() {
        if link.ends_within(LOOK) {
            return;
        }
    }
}

/// All kthreads have cores again, as if there had never been a daemon.
fn leave(elastic: &Elastic, link: &Link, peers: &Common) {
    elastic.set_link(None);
    for peer in &peers.peers {
        if let Some(tid) = peer.tid() {
            elastic.unpin(Some(tid));
        }
    }
    // A kthread that has just looked at the epoch may fall asleep after a first wake-up.
    let parked = || (0..).zip(&peers.peers).filter(|(_, peer)| peer.is_parked());
    while parked().count() > 0 && !elastic.has_ended() {
        parked().for_each(|(index, _)| link.wake(index));
        park_timeout(WAKE_AGAIN);
    }
}

/// After `first` for the first time. `None`: the runtime ends.
fn connect_again(elastic: &Elastic, first: Duration) -> Option<Link> {
    let mut pause = first;
    let mut told = String::new();
    loop {
        park_timeout(pause);
        if elastic.has_ended() {
            return None;
        }
        match elastic.connect() {
            Ok(link) => return Some(link),
            Err(problem) => {
                // Each once, and none where the next one is there at once.
                if problem != told && pause > first {
                    tracing::warn!(
                        target: LOG, "not registered with the core allocator yet: {problem}"
                    );
                    told = problem;
                }
                pause = (2 * pause).min(MOST_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_lies_again_and_again_is_asked_less_and_less_often() {
        let mut backoff = Backoff::default();
        let mut after = |lied| {
            backoff.note(lied);
            backoff.pause()
        };
        assert_eq!(after(false), FIRST_PAUSE);
        assert_eq!([after(true), after(true)], [2 * FIRST_PAUSE, 4 * FIRST_PAUSE]);
        assert!((0..100).all(|_| after(true) <= MOST_PAUSE));
        assert_eq!(after(true), MOST_PAUSE);
        assert_eq!(after(false), FIRST_PAUSE, "a daemon that only ends may be back at once");
    }
}
