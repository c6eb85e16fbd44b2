//! The dispatcher's half of a connection: reading, cutting frames, and what is under way.

use super::outbox::Counters;
use crate::frame::Framer;
use crate::{Intake, Peer};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Reads that one turn makes at most: a frame may be long, and so may a stream of small reads.
const READS_PER_TURN: usize = 4;

pub(super) struct Connection {
    /// Shared with the slot's outbox; never closed before both have let go.
    pub(super) socket: Arc<OwnedFd>,
    pub(super) generation: u32,
    framer: Framer,
    /// Requests handed over and not completed.
    pub(super) in_flight: u32,
    /// It is in the transport's `ready`.
    pub(super) queued: bool,
    /// More requests are wanted: no FIN, no oversized frame, no `close` yet.
    pub(super) reading: bool,
    /// There may be bytes in the kernel; if not, an edge will say so.
    pub(super) readable: bool,
    /// The FIN has been announced: then no edge follows, so only an empty read ends the reading.
    pub(super) fin_seen: bool,
    /// Ticks of the idle timer since the last sign of life.
    pub(super) quiet_ticks: u8,
}

/// After a turn.
pub(super) enum Next {
    /// It has more to do.
    More,
    /// It waits for its peer.
    Wait,
    /// No further requests will come.
    End {
        /// How the stream ended.
        malformed: Ending,
    },
    /// The connection is broken.
    Gone,
}

#[derive(Clone, Copy)]
pub(super) enum Ending {
    /// Between two frames.
    Clean,
    /// Within a frame.
    Cut,
    /// With a frame longer than allowed.
    TooLong,
}

impl Ending {
    pub(super) fn counter(self, counters: &Counters) -> Option<&AtomicU64> {
        match self {
            Self::Clean => None,
            Self::Cut => Some(&counters.cut),
            Self::TooLong => Some(&counters.too_long),
        }
    }
}

impl Connection {
    pub(super) fn new(socket: Arc<OwnedFd>, generation: u32, limit: usize) -> Self {
        Self {
            socket,
            generation,
            framer: Framer::new(limit),
            in_flight: 0,
            queued: false,
            reading: true,
            readable: false,
            fin_seen: false,
            quiet_ticks: 0,
        }
    }

    pub(super) fn stop_reading(&mut self) {
        self.reading = false;
        self.readable = false;
        self.framer.clear();
    }

    /// Hands over up to `burst` requests.
    pub(super) fn turn(
        &mut self,
        slot: u32,
        burst: usize,
        scratch: &mut [u8],
        now_tsc: u64,
        into: &mut dyn Intake,
    ) -> Next {
        let peer = Peer::Tcp { connection: slot, generation: self.generation };
        let mut left = burst;
        let mut input: &[u8] = &[];
        for reads in 0.. {
            loop {
                if left == 0 || into.room() == 0 {
                    self.framer.hold(input);
                    return self.pause();
                }
                match self.framer.next(&mut input) {
                    Ok(Some(frame)) => {
                        into.request(frame, peer, now_tsc);
                        self.in_flight += 1;
                        self.quiet_ticks = 0;
                        left -= 1;
                    }
                    Ok(None) => break,
                    Err(_) => return Next::End { malformed: Ending::TooLong },
                }
            }
            if !self.readable || reads == READS_PER_TURN {
                break;
            }
            input = match recv(&self.socket, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((_, 0)) if self.framer.held_bytes() > 0 => {
                    return Next::End { malformed: Ending::Cut };
                }
                Ok((_, 0)) => return Next::End { malformed: Ending::Clean },
                Ok((_, count)) => {
                    // Less than asked for is all there was, and what comes later makes an edge.
                    self.readable = count == scratch.len() || self.fin_seen;
                    &scratch[..count]
                }
                Err(Errno::AGAIN) => {
                    self.readable = false;
                    &[]
                }
                Err(Errno::INTR) => &[],
                Err(_) => return Next::Gone,
            };
        }
        self.pause()
    }

    fn pause(&self) -> Next {
        if self.readable || self.framer.is_ready() { Next::More } else { Next::Wait }
    }
}
