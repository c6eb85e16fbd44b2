//! The daemon's end, and its return: a plain thread that waits for both.

use super::{Elastic, Link};
use crate::thread::seat::Common;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::Duration;

/// Between two attempts to register again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MOST_PAUSE: Duration = Duration::from_secs(1);
/// Between two wake-ups of kthreads that have not noticed yet.
const WAKE_AGAIN: Duration = Duration::from_micros(200);

/// The thread's life, until the runtime ends.
pub(super) fn watch(elastic: &Elastic, peers: &Common) {
    while let Some(link) = elastic.link() {
        // The end either finds this link and leaves it, or came before it was set: then that is
        // seen here.
        if elastic.has_ended() {
            return;
        }
        link.wait_for_end();
        if elastic.has_ended() {
            return;
        }
        let path = elastic.path.display();
        tracing::warn!(%path, "the core allocator has ended: the kthreads run on without it");
        if let Some(port) = elastic.port() {
            tracing::warn!("{} is closed until it is back", port.url());
        }
        leave(elastic, &link, peers);
        drop(link);
        let Some(link) = connect_again(elastic) else { return };
        tracing::info!(%path, "registered with the core allocator again");
        elastic.set_link(Some(Arc::new(link)));
        // Those that sleep elsewhere are to sleep on the board.
        peers.peers.iter().for_each(|peer| peer.parker.unpark());
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

/// `None`: the runtime ends.
fn connect_again(elastic: &Elastic) -> Option<Link> {
    let mut pause = FIRST_PAUSE;
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
                if problem != told && pause > FIRST_PAUSE {
                    tracing::warn!("not registered with the core allocator yet: {problem}");
                    told = problem;
                }
                pause = (2 * pause).min(MOST_PAUSE);
            }
        }
    }
}
