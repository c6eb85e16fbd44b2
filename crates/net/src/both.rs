//! Datagrams, streams and shared memory behind one dispatcher: two transports that tell their peers
//! apart by kind.
//!
//! Belongs to the dispatcher's thread like any transport; the reply side only looks at the peer.

use crate::error::OpenError;
use crate::packet::Packets;
use crate::{Completion, Datagrams, Intake, Kept, Peer, Reply, Shm, Status, Streams, Transport};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A transport whose peers are of one kind, such as [`Peer::Tcp`], and one whose peers are of others.
pub struct Both<D, S> {
    datagrams: D,
    streams: S,
    streams_first: bool,
    is_streams: fn(Peer) -> bool,
}

impl<D: Transport, S: Transport> Both<D, S> {
    /// Joins them; the peers of the second are [`Peer::Tcp`].
    pub const fn new(datagrams: D, streams: S) -> Self {
        let is_streams = |peer| matches!(peer, Peer::Tcp { .. });
        Self { datagrams, streams, streams_first: false, is_streams }
    }
}

impl<D: Transport> Both<D, Shm> {
    /// Joins another transport and shared memory.
    pub const fn with_shm(others: D, shm: Shm) -> Self {
        let is_streams = |peer| matches!(peer, Peer::Shm { .. });
        Self { datagrams: others, streams: shm, streams_first: false, is_streams }
    }
}

impl<D: Transport> Both<D, Packets> {
    /// Joins another transport and packets.
    pub const fn with_packets(others: D, packets: Packets) -> Self {
        let is_streams = |peer| matches!(peer, Peer::Packet { .. });
        Self { datagrams: others, streams: packets, streams_first: false, is_streams }
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
        Arc::new(BothReply {
            datagrams: self.datagrams.reply(),
            streams: self.streams.reply(),
            is_streams: self.is_streams,
        })
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        let both = [self.datagrams.wait_fds(), self.streams.wait_fds()];
        // Where one has to be polled, both are.
        if both.iter().any(Vec::is_empty) { Vec::new() } else { both.concat() }
    }

    fn before_wait(&mut self) -> bool {
        // Both are asked, whatever the first says.
        self.datagrams.before_wait() & self.streams.before_wait()
    }

    fn completed(&mut self, completion: &Completion) {
        match (self.is_streams)(completion.peer) {
            true => self.streams.completed(completion),
            false => self.datagrams.completed(completion),
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
        self.datagrams.lend_streams().or_else(|| self.streams.lend_streams())
    }

    fn lend_datagrams(&mut self, threads: usize) -> Option<Datagrams> {
        self.datagrams.lend_datagrams(threads).or_else(|| self.streams.lend_datagrams(threads))
    }

    fn splits(&self, parts: usize) -> bool {
        self.datagrams.splits(parts) && self.streams.splits(parts)
    }

    fn split(&mut self, parts: usize) -> Result<Vec<Box<dyn Transport>>, OpenError> {
        let (streams_first, is_streams) = (false, self.is_streams);
        let datagrams = self.datagrams.split(parts)?.into_iter();
        let both = datagrams.zip(self.streams.split(parts)?);
        let join = |(datagrams, streams)| -> Box<dyn Transport> {
            Box::new(Both { datagrams, streams, streams_first, is_streams })
        };
        Ok(both.map(join).collect())
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
    is_streams: fn(Peer) -> bool,
}

impl BothReply {
    fn of(&self, peer: Peer) -> &dyn Reply {
        if (self.is_streams)(peer) { &*self.streams } else { &*self.datagrams }
    }
}

impl Reply for BothReply {
    fn reply(&self, to: Peer, payload: &[u8]) {
        self.of(to).reply(to, payload)
    }

    fn refuse(&self, to: Peer) {
        self.of(to).refuse(to)
    }

    fn dropped(&self) -> u64 {
        self.datagrams.dropped() + self.streams.dropped()
    }

    fn is_gone(&self, peer: Peer) -> bool {
        self.of(peer).is_gone(peer)
    }

    fn with_state(&self, peer: Peer, f: &mut dyn FnMut(&mut Kept)) -> bool {
        self.of(peer).with_state(peer, f)
    }
}
