//! How many requests each peer has in progress: what one sends beyond its share is dropped, so that
//! others' requests do not wait behind it.
//!
//! The dispatcher's thread alone. No peer may have more than a part of what is free (dynamic
//! thresholds, as in `tcp/budget`). Peers are told apart by a hash of their addresses, with a key
//! that they do not know; where two have the same hash they share their share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::SocketAddr;

/// Hashes of peers that are told apart.
const PLACES: usize = 4_096;
/// A peer may have this part of what is free.
const PART: usize = 8;
/// So many it may have always.
const LEAST: usize = 16;

pub(crate) struct Shares {
    key: RandomState,
    /// By hash.
    in_progress: Box<[u32]>,
    all: usize,
    most: usize,
}

impl Shares {
    /// For `most` requests of all peers together.
    pub(crate) fn new(most: usize) -> Self {
        let in_progress = vec![0; PLACES].into_boxed_slice();
        Self { key: RandomState::new(), in_progress, all: 0, most }
    }

    fn place(&self, peer: SocketAddr) -> usize {
        self.key.hash_one(peer) as usize % PLACES
    }

    /// A request of that peer is in progress from now on, unless it has its share.
    #[must_use]
    pub(crate) fn take(&mut self, peer: SocketAddr) -> bool {
        let place = self.place(peer);
        let own = &mut self.in_progress[place];
        let share = (self.most.saturating_sub(self.all) / PART).max(LEAST);
        let fits = (*own as usize) < share;
        if fits {
            *own += 1;
            self.all += 1;
        }
        fits
    }

    /// One has ended.
    pub(crate) fn give(&mut self, peer: SocketAddr) {
        let place = self.place(peer);
        // A middleman may tell of requests that it made itself.
        if let Some(less) = self.in_progress[place].checked_sub(1) {
            self.in_progress[place] = less;
            self.all -= 1;
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
        let mut shares = Shares::new(9_000);
        assert_eq!((0..20_000).filter(|_| shares.take(peer(1))).count(), 1_000);
        shares.give(peer(1));
        assert!(shares.take(peer(1)) && !shares.take(peer(1)));
        for _ in 0..1_000 {
            shares.give(peer(1));
        }
        assert_eq!(shares.all, 0);
        shares.give(peer(1));
        assert_eq!(shares.all, 0);
    }

    #[test]
    fn many_peers_come_to_what_all_may_have_and_each_has_some() {
        let mut shares = Shares::new(1_000);
        for port in 1..=50 {
            let taken = (0..1_000).filter(|_| shares.take(peer(port))).count();
            // Two may have one place.
            assert!(taken >= LEAST || shares.in_progress[shares.place(peer(port))] >= LEAST as u32);
        }
        assert!(shares.all <= 1_000 + 50 * LEAST, "{}", shares.all);
    }
}
