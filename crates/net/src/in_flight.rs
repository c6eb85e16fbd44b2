//! Requests in progress that threads have brought, and whose they are.

use crate::Outcome;
use crate::tcp::StreamRequest;
use crate::udp::Shared;
use std::net::SocketAddr;
use std::sync::Arc;

/// A request in progress, of a connection or of a datagram's peer. It ends with this.
pub struct InFlight(Owner);

enum Owner {
    Stream(StreamRequest),
    Datagram(Arc<Shared>, SocketAddr),
}

impl InFlight {
    pub(crate) fn stream(request: StreamRequest) -> Self {
        Self(Owner::Stream(request))
    }

    pub(crate) fn datagram(shared: Arc<Shared>, from: SocketAddr) -> Self {
        Self(Owner::Datagram(shared, from))
    }

    /// Whether the kernel knows that the peer has gone. A system call: for requests that have waited,
    /// as the connection's thread has for its turn, which will see the same.
    #[must_use]
    pub fn has_hung_up(&self) -> bool {
        matches!(&self.0, Owner::Stream(request) if request.has_hung_up())
    }

    /// It has ended: one of HTTP that has no answer gets one by its outcome.
    pub fn ended(&self, outcome: Outcome) {
        if let Owner::Stream(request) = &self.0 {
            request.ended(outcome);
        }
    }

    /// It was not run, since its connection had gone.
    pub fn orphaned(&self) {
        if let Owner::Stream(request) = &self.0 {
            request.orphaned();
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Owner::Datagram(shared, from) = &self.0 {
            shared.give(*from);
        }
    }
}
