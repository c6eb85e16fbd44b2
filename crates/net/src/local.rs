//! In-process transport, for tests and for embedding a server in the program that asks it.
//!
//! Any thread submits through a [`LocalClient`] and holds a [`Ticket`] for the answer; the
//! dispatcher's thread owns [`Local`] and takes requests from the ring; workers put answers into
//! the ticket's slot. A slot's mutex is held for a copy or a look, never during a wait.
//!
//! Invariant: a slot belongs to one ticket, from `submit` until the ticket's holder has taken the
//! answer, or, if the ticket was dropped, until the request has ended. Then its generation grows,
//! so whatever comes late for the old ticket finds no slot of its generation. The ring has as many
//! places as there are slots, so a submitted request always fits.

use crate::error::{NoResponse, OpenError};
use crate::socket::{drain, event, signal};
use crate::{Completion, Intake, Outcome, Peer, Reply, Status, Transport};
use curtail_ring::mpsc;
use slot::{Slot, State};
use std::future::Future;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use thiserror::Error;

mod slot;

/// The dispatcher's side.
pub struct Local {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<u32>,
    /// Signals announced by `rung` and not yet taken out of the bell.
    owed: u64,
    closed: bool,
}

/// The clients' side. Clones share the same places.
#[derive(Clone)]
pub struct LocalClient {
    shared: Arc<Shared>,
    requests: mpsc::Sender<u32>,
}

struct Shared {
    slots: Box<[Slot]>,
    free: Mutex<Vec<u32>>,
    bell: OwnedFd,
    /// The bell has been rung, or is about to be, and the dispatcher has not answered it.
    rung: AtomicBool,
    closed: AtomicBool,
    /// Tickets were dropped whose requests are under way, and the dispatcher was not told.
    departed: AtomicBool,
    dropped: AtomicU64,
}

/// Why a request was not taken; the caller has it back.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// As many requests as there are places are under way.
    #[error("as many requests as there are places are under way")]
    Full(Vec<u8>),
    /// The transport is closed.
    #[error("the transport is closed")]
    Closed(Vec<u8>),
}

impl Local {
    /// A transport with places for `capacity` requests under way, and its client.
    ///
    /// # Errors
    /// `capacity` is not within 1 to 2²⁰, or there are no more descriptors.
    pub fn new(capacity: usize) -> Result<(Self, LocalClient), OpenError> {
        let capacity = OpenError::within("number of places", capacity, 1, 1 << 20)?;
        let bell = event().map_err(|error| OpenError::system("eventfd", error))?;
        let (sender, receiver) = mpsc::channel(capacity);
        let shared = Arc::new(Shared {
            slots: (0..capacity).map(|_| Slot::default()).collect(),
            free: Mutex::new((0..capacity as u32).rev().collect()),
            bell,
            rung: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            departed: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        });
        let client = LocalClient { shared: shared.clone(), requests: sender };
        Ok((Self { shared, requests: receiver, owed: 0, closed: false }, client))
    }

    /// Takes the signals out of the bell first, and resets `rung` after that. In the other order, a
    /// signal given in between would be lost while `rung` still said that there is one. A client
    /// that pushes after the dispatcher has looked at the ring finds `rung` false and signals
    /// again.
    fn answer_bell(&mut self) {
        if self.owed > 0 || self.shared.rung.load(Ordering::Relaxed) {
            let taken = drain(&self.shared.bell);
            let announced = u64::from(self.shared.rung.swap(false, Ordering::AcqRel));
            // The client that set `rung` may not have written yet; that signal is taken by a later
            // poll.
            self.owed = self.owed + announced - taken;
        }
    }

    /// Ends the requests that will not be answered any more.
    fn refuse_waiting(&mut self) {
        while let Some(slot) = self.requests.pop() {
            self.shared.resolve(slot, None, |slot| slot.state = State::Without(NoResponse::Closed));
        }
    }
}

impl Transport for Local {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        self.answer_bell();
        if self.closed {
            self.refuse_waiting();
            return Status::Closed;
        }
        if self.shared.departed.load(Ordering::Relaxed)
            && self.shared.departed.swap(false, Ordering::AcqRel)
        {
            into.departed();
        }
        // Bounded by the places, should `room` not count what is answered on the spot.
        for _ in 0..self.shared.slots.len() {
            if into.room() == 0 {
                break;
            }
            let Some(index) = self.requests.pop() else { break };
            // The slot is not locked here: an overloaded dispatcher answers from inside `request`.
            if let Some((payload, peer)) = self.shared.take(index) {
                into.request(&payload, peer, now_tsc);
            }
        }
        Status::Open
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.shared.clone()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.shared.bell.as_raw_fd()]
    }

    fn completed(&mut self, completion: &Completion) {
        let Peer::Local { slot, generation } = completion.peer else { return };
        let why = match completion.outcome {
            Outcome::Done => NoResponse::Silent,
            Outcome::Failed => NoResponse::Failed,
            Outcome::Dropped => NoResponse::Dropped,
            Outcome::Orphaned | Outcome::Cancelled | Outcome::Abandoned => NoResponse::Cancelled,
        };
        // Where a response was given, the ticket is not waiting any more and this changes nothing.
        self.shared.resolve(slot, Some(generation), |slot| slot.state = State::Without(why));
    }

    fn close(&mut self) {
        self.closed = true;
        self.shared.closed.store(true, Ordering::SeqCst);
        self.refuse_waiting();
    }

    fn describe(&self) -> String {
        format!("local: {} places", self.shared.slots.len())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("local_responses_dropped", self.shared.dropped())]
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.close();
        for slot in 0..self.shared.slots.len() as u32 {
            self.shared.resolve(slot, None, |slot| slot.state = State::Without(NoResponse::Closed));
        }
    }
}

impl LocalClient {
    /// Hands in a request. Never waits for the server.
    ///
    /// # Errors
    /// [`Refused`], with the request.
    pub fn submit(&self, payload: Vec<u8>) -> Result<Ticket, Refused> {
        let shared = &self.shared;
        if shared.closed.load(Ordering::SeqCst) {
            return Err(Refused::Closed(payload));
        }
        let Some(index) = lock(&shared.free).pop() else { return Err(Refused::Full(payload)) };
        let generation = shared.slots[index as usize].occupy(payload);
        let pushed = self.requests.push(index).is_ok();
        shared.ring();
        if !pushed || shared.closed.load(Ordering::SeqCst) {
            // The dispatcher may have looked into the ring for the last time before our push. (Only
            // after that can a slot be used again while its number is still in the ring.)
            shared.resolve(index, Some(generation), |slot| {
                if slot.state == State::Submitted {
                    slot.state = State::Without(NoResponse::Closed);
                }
            });
        }
        Ok(Ticket { shared: shared.clone(), index, settled: false })
    }

    /// Submits and waits.
    ///
    /// # Errors
    /// Why there is no response: a full server is [`NoResponse::Dropped`].
    pub fn call(&self, payload: Vec<u8>) -> Result<Vec<u8>, NoResponse> {
        match self.submit(payload) {
            Ok(ticket) => ticket.wait(),
            Err(Refused::Full(_)) => Err(NoResponse::Dropped),
            Err(Refused::Closed(_)) => Err(NoResponse::Closed),
        }
    }
}

/// One request under way: a future of its response, which any executor may await. Dropping it gives
/// the request up: one that waits is not run, and one that runs is cancelled ([`Ticket::detach`]
/// gives up the response alone).
#[must_use = "the response comes to the ticket"]
pub struct Ticket {
    shared: Arc<Shared>,
    index: u32,
    /// The slot is not this ticket's any more.
    settled: bool,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("slot", &self.index).finish_non_exhaustive()
    }
}

impl Ticket {
    /// Blocks this thread until the response is there.
    ///
    /// # Errors
    /// Why there is none.
    pub fn wait(mut self) -> Result<Vec<u8>, NoResponse> {
        loop {
            if let Some(answer) = self.wait_until(None) {
                return answer;
            }
        }
    }

    /// Blocks this thread until the response is there, for `timeout` at most.
    ///
    /// # Errors
    /// The ticket, where the time has passed; else the outer `Ok` has what [`Ticket::wait`] gives.
    pub fn wait_timeout(mut self, timeout: Duration) -> Result<Result<Vec<u8>, NoResponse>, Self> {
        let answer = self.wait_until(Instant::now().checked_add(timeout));
        answer.ok_or(self)
    }

    /// The response, if it is there.
    ///
    /// # Errors
    /// The ticket, where it is not; else as [`Ticket::wait_timeout`].
    pub fn try_take(self) -> Result<Result<Vec<u8>, NoResponse>, Self> {
        self.wait_timeout(Duration::ZERO)
    }

    /// Lets the request go on; its response is dropped.
    pub fn detach(mut self) {
        self.settled = true;
        if self.shared.slots[self.index as usize].abandon(false) {
            lock(&self.shared.free).push(self.index);
        }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Result<Vec<u8>, NoResponse>> {
        let answer = self.shared.slots[self.index as usize].wait(deadline)?;
        self.settled = true;
        lock(&self.shared.free).push(self.index);
        Some(answer)
    }
}

impl Future for Ticket {
    type Output = Result<Vec<u8>, NoResponse>;

    /// # Panics
    /// Once the response was taken.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.settled, "a ticket was polled after it had brought the response");
        let answer = self.shared.slots[self.index as usize].poll(context.waker());
        if answer.is_ready() {
            self.settled = true;
            lock(&self.shared.free).push(self.index);
        }
        answer
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        if self.shared.slots[self.index as usize].abandon(true) {
            lock(&self.shared.free).push(self.index);
        } else {
            self.shared.departed.store(true, Ordering::Release);
            self.shared.ring();
        }
    }
}

impl Shared {
    /// Has the dispatcher look.
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            signal(&self.bell);
        }
    }

    /// The dispatcher takes a submitted request.
    fn take(&self, index: u32) -> Option<(Vec<u8>, Peer)> {
        let mut slot = lock(&self.slots[index as usize].inner);
        if slot.state != State::Submitted {
            return None;
        }
        slot.state = State::Running;
        let peer = Peer::Local { slot: index, generation: slot.generation };
        Some((mem::take(&mut slot.bytes), peer))
    }

    /// Ends a request, if it is under way and (where given) of that generation, the way `how` says,
    /// and tells its ticket. Answers whether it was.
    fn resolve(
        &self,
        index: u32,
        generation: Option<u32>,
        how: impl FnOnce(&mut slot::Inner),
    ) -> bool {
        let Some(slot) = self.slots.get(index as usize) else { return false };
        let Some(released) = slot.resolve(generation, how) else { return false };
        if released {
            lock(&self.free).push(index);
        }
        true
    }
}

impl Reply for Shared {
    fn reply(&self, to: Peer, payload: &[u8]) {
        let answered = match to {
            Peer::Local { slot, generation } => self.resolve(slot, Some(generation), |slot| {
                slot.bytes.clear();
                slot.bytes.extend_from_slice(payload);
                slot.state = State::Answered;
            }),
            _ => false,
        };
        if !answered {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn refuse(&self, _: Peer) {}

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn is_gone(&self, peer: Peer) -> bool {
        let Peer::Local { slot, generation } = peer else { return false };
        self.slots.get(slot as usize).is_some_and(|slot| slot.is_given_up(generation))
    }
}

/// Nothing that holds one of these locks panics half-way, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
