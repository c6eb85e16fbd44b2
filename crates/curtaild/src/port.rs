//! A program's port: the daemon receives its packets, spreads them over its kthreads, and sends what
//! they answer (Shenango §4.3 and §6: the IOKernel, here on the kernel's sockets or past its network).
//!
//! Packets go to the kthreads that have cores, in turn. When none has one, all go to the same
//! kthread, whose queue tells the allocator of them. A full ring drops, and the drop is counted.

use crate::peer::{decode, encode};
use curtail_alloc::{KthreadLook, Queue};
use curtail_net::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
use curtail_shm::{Answer, Arrival, DaemonEnd, RING_CAPACITY};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Answers of one kthread that are sent before another's turn.
const AT_ONCE: usize = 32;

/// The ends of one kthread's rings.
struct Lane {
    end: DaemonEnd,
    /// Packets that were put in so far; wraps.
    tail: u32,
    /// The program wrote what can't be.
    is_broken: bool,
    /// Its kthread has a core, or is about to have it.
    runs: bool,
}

/// A program's port, at which the daemon receives and sends for it.
pub(crate) struct Port {
    transport: Box<dyn Transport>,
    reply: Arc<dyn Reply>,
    lanes: Vec<Lane>,
    next: usize,
    refused: Vec<Completion>,
    clock: quanta::Clock,
    /// Packets that found no room, or were none.
    pub(crate) dropped: u64,
    pub(crate) received: u64,
    pub(crate) answered: u64,
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Packets have come.
    pub(crate) arrived: bool,
    /// An answer was no answer.
    pub(crate) lie: bool,
}

impl Port {
    /// `ends`: those of the rings of each kthread.
    pub(crate) fn new(transport: Box<dyn Transport>, ends: Vec<DaemonEnd>) -> Self {
        let lane = |end| Lane { end, tail: 0, is_broken: false, runs: false };
        Self {
            reply: transport.reply(),
            transport,
            lanes: ends.into_iter().map(lane).collect(),
            next: 0,
            refused: Vec::new(),
            clock: quanta::Clock::new(),
            dropped: 0,
            received: 0,
            answered: 0,
        }
    }

    /// Where it listens, with the port that the kernel chose.
    pub(crate) fn url(&self) -> String {
        self.transport.describe()
    }

    /// Readable when packets have come; empty: it is to be asked always.
    pub(crate) fn wait_fds(&self) -> Vec<RawFd> {
        self.transport.wait_fds()
    }

    /// To be asked right before each wait for [`Port::wait_fds`]; false: something has come that they
    /// do not tell of.
    pub(crate) fn may_wait(&mut self) -> bool {
        self.transport.before_wait()
    }

    /// What the transport has counted: what it refused, lost and could not send.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.transport.counters()
    }

    /// Packets go to this kthread, or not.
    pub(crate) fn set_runs(&mut self, kthread: usize, runs: bool) {
        self.lanes[kthread].runs = runs;
    }

    /// Moves packets in and answers out: what is there now, and a bounded number.
    pub(crate) fn turn(&mut self) -> Moved {
        let lie = self.send();
        let before = self.received;
        let mut intake = Spread {
            lanes: &mut self.lanes,
            next: &mut self.next,
            refused: &mut self.refused,
            dropped: 0,
            received: 0,
        };
        let _: Status = self.transport.poll(self.clock.raw(), &mut intake);
        let (dropped, received) = (intake.dropped, intake.received);
        self.dropped += dropped;
        self.received += received;
        for completion in self.refused.drain(..) {
            self.transport.completed(&completion);
        }
        Moved { arrived: self.received != before, lie }
    }

    /// Sends what was answered; true: something can't be an answer.
    fn send(&mut self) -> bool {
        let mut lie = false;
        for lane in self.lanes.iter_mut().filter(|lane| !lane.is_broken) {
            for _ in 0..AT_ONCE {
                match lane.end.answers.pop() {
                    Ok(None) => break,
                    Ok(Some(answer)) => match completion(&answer) {
                        Some((completion, payload)) => {
                            if !payload.is_empty() {
                                self.reply.reply(completion.peer, payload);
                            }
                            self.answered += 1;
                            self.transport.completed(&completion);
                        }
                        None => lie = true,
                    },
                    Err(_) => {
                        (lane.is_broken, lie) = (true, true);
                        break;
                    }
                }
            }
        }
        lie
    }

    /// Its program leaves: what it has answered is sent.
    pub(crate) fn flush(&mut self) {
        for _ in 0..RING_CAPACITY.div_ceil(AT_ONCE) {
            self.send();
        }
    }

    /// Adds the packets that wait to what the kthreads said of their inboxes.
    pub(crate) fn add_to(&mut self, looks: &mut [KthreadLook]) {
        for (lane, look) in self.lanes.iter_mut().zip(looks) {
            let Ok(free) = lane.end.arrivals.free() else {
                lane.is_broken = true;
                continue;
            };
            let waiting = RING_CAPACITY.saturating_sub(free) as u32;
            let Queue { head, tail } = look.inbox;
            look.inbox = Queue {
                head: head.wrapping_add(lane.tail.wrapping_sub(waiting)),
                tail: tail.wrapping_add(lane.tail),
            };
        }
    }
}

/// `None`: it can't be one.
fn completion(answer: &Answer) -> Option<(Completion, &[u8])> {
    let outcome = match answer.outcome() {
        0 => Outcome::Done,
        1 => Outcome::Failed,
        2 => Outcome::Dropped,
        3 => Outcome::Orphaned,
        4 => Outcome::Cancelled,
        5 => Outcome::Abandoned,
        _ => return None,
    };
    let completion = Completion {
        peer: decode(answer.peer)?,
        class: answer.class,
        outcome,
        tag: answer.tag,
        request_bytes: answer.request_bytes,
        arrived_tsc: answer.arrived_tsc,
        started_tsc: answer.started_tsc,
        finished_tsc: answer.finished_tsc,
        ran_cycles: answer.ran_cycles,
        preemptions: answer.preemptions,
        disturbed: false,
    };
    Some((completion, answer.payload()?))
}

/// One turn's packets on their way.
struct Spread<'a> {
    lanes: &'a mut [Lane],
    next: &'a mut usize,
    refused: &'a mut Vec<Completion>,
    dropped: u64,
    received: u64,
}

impl Spread<'_> {
    /// The next kthread that has a core and room; without cores the one that had the last packet.
    fn lane(&mut self) -> Option<&mut Lane> {
        let count = self.lanes.len();
        let start = *self.next;
        let has_room = |lane: &mut Lane| {
            !lane.is_broken && lane.end.arrivals.free().is_ok_and(|free| free > 0)
        };
        let mut found = None;
        for at in (1..=count).map(|step| (start + step) % count) {
            if self.lanes[at].runs && has_room(&mut self.lanes[at]) {
                found = Some(at);
                break;
            }
        }
        let at = found.or_else(|| has_room(&mut self.lanes[start]).then_some(start))?;
        *self.next = at;
        Some(&mut self.lanes[at])
    }

    fn refuse(&mut self, payload: &[u8], peer: Peer, arrived_tsc: u64) {
        self.dropped += 1;
        let mut tag = [0; 8];
        let known = payload.len().min(8);
        tag[..known].copy_from_slice(&payload[..known]);
        self.refused.push(Completion {
            peer,
            class: 0,
            outcome: Outcome::Dropped,
            tag: u64::from_le_bytes(tag),
            request_bytes: payload.len() as u32,
            arrived_tsc,
            started_tsc: arrived_tsc,
            finished_tsc: arrived_tsc,
            ran_cycles: 0,
            preemptions: 0,
            disturbed: false,
        });
    }
}

impl Intake for Spread<'_> {
    /// A turn is bounded; what finds no room in the rings is dropped, as by any network card.
    fn room(&self) -> usize {
        AT_ONCE.saturating_sub((self.received + self.dropped) as usize)
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        let arrival = Arrival::new(encode(from), arrived_tsc, payload);
        let pushed = arrival.zip(self.lane()).is_some_and(|(arrival, lane)| {
            let pushed = lane.end.arrivals.push(arrival).is_ok();
            lane.tail = lane.tail.wrapping_add(u32::from(pushed));
            pushed
        });
        match pushed {
            true => self.received += 1,
            false => self.refuse(payload, from, arrived_tsc),
        }
    }

    fn malformed(&mut self, count: u64) {
        self.dropped += count;
    }
}
