//! How many requests each peer has in progress: what one sends beyond its share is dropped, so that
//! others' requests do not wait behind it.
//!
//! Any thread may take and give: two that take at once may both get the last place. No peer may have more than a part of what is free (dynamic
//! thresholds, as in `tcp/budget`). Peers are told apart by a hash of their addresses, with a key
//! that they do not know; where two have the same hash they share their share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Hashes of peers that are told apart.
const PLACES: usize = 4_096;
/// A peer may have this part of what is free.
const PART: usize = 8;
/// So many it may have always.
const LEAST: usize = 16;

pub(crate) struct Shares {
    key: RandomState,
    /// By hash.
    in_progress: Box<[AtomicU32]>,
    all: AtomicUsize,
    most: usize,
}

impl Shares {
    /// For `most` requests of all peers together.
    pub(crate) fn new(most: usize) -> Self {
        let in_progress = (0..PLACES).map(|_| AtomicU32::new(0)).collect();
        Self { key: RandomState::new(), in_progress, all: AtomicUsize::new(0), most }
    }

    fn place(&self, peer: SocketAddr) -> usize {
        self.key.hash_one(peer) as usize % PLACES
    }

    /// A request of that peer is in progress from now on, unless it has its share.
    #[must_use]
    pub(crate) fn take(&self, peer: SocketAddr) -> bool {
        let own = &self.in_progress[self.place(peer)];
        let share = (self.most.saturating_sub(self.all.load(Relaxed)) / PART).max(LEAST);
        let fits = (own.load(Relaxed) as usize) < share;
        if fits {
            own.fetch_add(1, Relaxed);
            self.all.fetch_add(1, Relaxed);
        }
        fits
    }

    /// One has ended.
    pub(crate) fn give(&self, peer: SocketAddr) {
        let own = &self.in_progress[self.place(peer)];
        // A middleman may tell of requests that it made itself.
        if own.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1)).is_ok() {
            self.all.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn one_peer_leaves_most_for_the_others() {
        let shares = Shares::new(9_000);
        assert_eq!((0..20_000).filter(|_| shares.take(peer(1))).count(), 1_000);
        shares.give(peer(1));
        assert!(shares.take(peer(1)) && !shares.take(peer(1)));
        for _ in 0..1_000 {
            shares.give(peer(1));
        }
        assert_eq!(shares.all.load(Relaxed), 0);
        shares.give(peer(1));
        assert_eq!(shares.all.load(Relaxed), 0);
    }

    #[test]
    fn many_peers_come_to_what_all_may_have_and_each_has_some() {
        let shares = Shares::new(1_000);
        for port in 1..=50 {
            let taken = (0..1_000).filter(|_| shares.take(peer(port))).count();
            // Two may have one place.
            let place = &shares.in_progress[shares.place(peer(port))];
            assert!(taken >= LEAST || place.load(Relaxed) >= LEAST as u32);
        }
        let all = shares.all.load(Relaxed);
        assert!(all <= 1_000 + 50 * LEAST, "{all}");
    }
}
