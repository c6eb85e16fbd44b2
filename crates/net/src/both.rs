//! Datagrams and streams behind one dispatcher: two transports that tell their peers apart by kind.
//!
//! Belongs to the dispatcher's thread like any transport; the reply side only looks at the peer.

use crate::{Completion, Intake, Kept, Peer, Reply, Status, Streams, Transport};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A transport whose peers are [`Peer::Udp`] and one whose peers are [`Peer::Tcp`].
pub struct Both<D, S> {
    datagrams: D,
    streams: S,
    streams_first: bool,
}

impl<D: Transport, S: Transport> Both<D, S> {
    /// Joins them.
    pub const fn new(datagrams: D, streams: S) -> Self {
        Self { datagrams, streams, streams_first: false }
    }
}

impl<D: Transport, S: Transport> Transport for Both<D, S> {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        // They take turns at the room that there is: neither starves the other.
        self.streams_first = !self.streams_first;
        let (datagrams, streams) = if self.streams_first {
            let streams = self.streams.poll(now_tsc, into);
            (self.datagrams.poll(now_tsc, into), streams)
        } else {
            let datagrams = self.datagrams.poll(now_tsc, into);
            (datagrams, self.streams.poll(now_tsc, into))
        };
        if datagrams == Status::Closed && streams == Status::Closed {
            Status::Closed
        } else {
            Status::Open
        }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        Arc::new(BothReply { datagrams: self.datagrams.reply(), streams: self.streams.reply() })
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        [self.datagrams.wait_fds(), self.streams.wait_fds()].concat()
    }

    fn completed(&mut self, completion: &Completion) {
        match completion.peer {
            Peer::Tcp { .. } => self.streams.completed(completion),
            _ => self.datagrams.completed(completion),
        }
    }

    fn close(&mut self) {
        self.datagrams.close();
        self.streams.close();
    }

    fn brings(&self) -> bool {
        self.datagrams.brings() || self.streams.brings()
    }

    fn lend_streams(&mut self) -> Option<Streams> {
        self.streams.lend_streams()
    }

    fn describe(&self) -> String {
        format!("{},{}", self.datagrams.describe(), self.streams.describe())
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        [self.datagrams.local_addrs(), self.streams.local_addrs()].concat()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        [self.datagrams.counters(), self.streams.counters()].concat()
    }
}

struct BothReply {
    datagrams: Arc<dyn Reply>,
    streams: Arc<dyn Reply>,
}

impl Reply for BothReply {
    fn reply(&self, to: Peer, payload: &[u8]) {
        match to {
            Peer::Tcp { .. } => self.streams.reply(to, payload),
            _ => self.datagrams.reply(to, payload),
        }
    }

    fn refuse(&self, to: Peer) {
        match to {
            Peer::Tcp { .. } => self.streams.refuse(to),
            _ => self.datagrams.refuse(to),
        }
    }

    fn dropped(&self) -> u64 {
        self.datagrams.dropped() + self.streams.dropped()
    }

    fn is_gone(&self, peer: Peer) -> bool {
        match peer {
            Peer::Tcp { .. } => self.streams.is_gone(peer),
            _ => self.datagrams.is_gone(peer),
        }
    }

    fn with_state(&self, peer: Peer, f: &mut dyn FnMut(&mut Kept)) -> bool {
        match peer {
            Peer::Tcp { .. } => self.streams.with_state(peer, f),
            _ => self.datagrams.with_state(peer, f),
        }
    }
}
