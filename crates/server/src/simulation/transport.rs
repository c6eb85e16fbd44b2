//! The played network.

use super::state::State;
use curtail_net::{Completion, Intake, Peer, Reply, Status, Transport};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has come, and what there is besides. The simulation's, and the transport's.
#[derive(Default)]
pub(super) struct Wire {
    /// Number, bytes, arrival.
    pub come: VecDeque<(u64, Vec<u8>, u64)>,
    /// A peer has gone since the last look.
    pub departed: bool,
}

#[derive(Clone)]
pub(super) struct Played {
    pub state: Arc<State>,
    pub wire: Arc<Mutex<Wire>>,
    pub closed: bool,
}

/// Who has sent a request is named by its number.
fn peer(id: u64) -> Peer {
    Peer::Local { slot: id as u32, generation: 0 }
}

fn id_of(peer: Peer) -> u64 {
    let Peer::Local { slot, .. } = peer else { panic!("a peer of another transport: {peer:?}") };
    u64::from(slot)
}

impl Played {
    pub(super) fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Played {
    fn poll(&mut self, _: u64, into: &mut dyn Intake) -> Status {
        while into.room() > 0 {
            let Some((id, bytes, arrived)) = self.wire().come.pop_front() else { break };
            into.request(&bytes, peer(id), arrived);
        }
        let (departed, empty) = {
            let mut wire = self.wire();
            (std::mem::take(&mut wire.departed), wire.come.is_empty())
        };
        if departed {
            into.departed();
        }
        if self.closed && empty { Status::Closed } else { Status::Open }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(self.clone())
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn completed(&mut self, completion: &Completion) {
        assert_eq!(completion.tag, id_of(completion.peer), "what was told of another's end");
        self.state.completed(completion.tag, completion.outcome);
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn describe(&self) -> String {
        "played".to_owned()
    }
}

impl Reply for Played {
    fn reply(&self, to: Peer, payload: &[u8]) {
        self.state.answered(id_of(to), payload);
    }

    fn refuse(&self, to: Peer) {
        self.state.answered(id_of(to), super::state::NO);
    }

    fn dropped(&self) -> u64 {
        0
    }

    fn is_gone(&self, peer: Peer) -> bool {
        self.state.is_gone(id_of(peer))
    }
}
