//! Connections that threads serve, one each, instead of the dispatcher's polls: what all of them
//! share. The limits, the times and the counters are those of [`super::Tcp`], whose outboxes and
//! budget these are.
//!
//! [`Stream`] is a connection's reading half, its thread's alone. [`Live`] is what other threads
//! see of it: those that end its requests ([`super::stream::StreamRequest`]), that look for memory, that
//! close the server. They change a counter and then look whether the thread waits for that; the
//! thread says so and then looks at the counter. A fence on both sides makes one see the other.

use super::outbox::Outboxes;
use super::stream::Stream;
use super::{OnFin, TcpConfig};
use crate::socket::{has_gone, signal};
use crate::{Peer, Reply};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Slots among which one connection at most is evicted in one search.
const LOOKS: usize = 64;

/// From one search to the next.
const RELIEF_MS: u64 = 5;

/// A descriptor that a thread watches.
pub trait Socket: AsFd + Send + Sync {
    /// Has its thread look again at what it waits for.
    fn nudge(&self);
}

/// Watched by a dispatcher, which is notified in other ways.
impl Socket for OwnedFd {
    fn nudge(&self) {}
}

/// The connections of a [`super::Tcp`] that was lent to threads. A handle; any thread's.
#[derive(Clone)]
pub struct Streams(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub shared: Arc<Outboxes>,
    pub config: TcpConfig,
    /// What `begun` is counted from.
    pub epoch: Instant,
    /// Until it is closed.
    listeners: Mutex<Vec<OwnedFd>>,
    acceptors: Mutex<Vec<Arc<dyn Socket>>>,
    places: Mutex<Places>,
    /// Connections, and threads that accept.
    open: AtomicUsize,
    /// Connections that wait for memory that all have, and how many.
    hungry: Mutex<Vec<Arc<Live>>>,
    hungry_count: AtomicUsize,
    /// By when all is to be over.
    closing: OnceLock<Instant>,
    /// When memory was last looked for, in [`RELIEF_MS`] of the epoch, from 1.
    last_relief: AtomicU64,
    /// Given up for a moment to refuse a connection when there are no descriptors left.
    spare: Mutex<Option<OwnedFd>>,
    /// Makes the transport look whether it has closed.
    again: Arc<OwnedFd>,
}

struct Places {
    free: Vec<u32>,
    live: Box<[Option<Arc<Live>>]>,
    search_at: usize,
}

/// What others see of a connection.
pub(super) struct Live {
    pub inner: Arc<Inner>,
    pub slot: u32,
    pub generation: u32,
    /// Until it is released: others must not keep the descriptor open.
    socket: Mutex<Option<Arc<dyn Socket>>>,
    /// Requests in progress, and the bytes that they count.
    pub in_flight: AtomicU32,
    pub in_bytes: AtomicUsize,
    /// Memory of the frame that has begun, and since when its end is owed: milliseconds of the
    /// epoch, or 0.
    pub framer_bytes: AtomicUsize,
    pub begun: AtomicU64,
    /// Its thread waits for requests of its own to end.
    pub awaits: AtomicBool,
    /// It is among the hungry.
    pub hungry: AtomicBool,
    /// Something has happened since the last look for idleness.
    pub touched: AtomicBool,
    pub evicted: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(super) fn nudge(&self) {
        let socket = lock(&self.socket).clone();
        if let Some(socket) = socket {
            socket.nudge();
        }
    }

    /// Whether its peer has gone, which the kernel is asked; false where it is released.
    pub(super) fn has_hung_up(&self) -> bool {
        let by_fin = self.inner.config.on_fin == OnFin::Cancel;
        let socket = lock(&self.socket);
        socket.as_ref().is_some_and(|socket| has_gone(socket.as_fd(), by_fin))
    }

    pub(super) fn peer(&self) -> Peer {
        Peer::Tcp { connection: self.slot, generation: self.generation }
    }
}

impl Streams {
    pub(super) fn new(
        shared: Arc<Outboxes>,
        config: TcpConfig,
        listeners: Vec<OwnedFd>,
        again: Arc<OwnedFd>,
    ) -> Self {
        let count = config.connections;
        Self(Arc::new(Inner {
            shared,
            epoch: Instant::now(),
            listeners: Mutex::new(listeners),
            acceptors: Mutex::default(),
            places: Mutex::new(Places {
                free: (0..count as u32).rev().collect(),
                live: (0..count).map(|_| None).collect(),
                search_at: 0,
            }),
            open: AtomicUsize::new(0),
            hungry: Mutex::default(),
            hungry_count: AtomicUsize::new(0),
            closing: OnceLock::new(),
            last_relief: AtomicU64::new(0),
            spare: Mutex::new(super::accept::spare()),
            again,
            config,
        }))
    }

    /// The workers' side, as [`crate::Transport::reply`].
    #[must_use]
    pub fn reply(&self) -> Arc<dyn Reply> {
        self.0.shared.clone()
    }

    /// A descriptor more for each listener, for a thread that accepts.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn listeners(&self) -> io::Result<Vec<OwnedFd>> {
        lock(&self.0.listeners).iter().map(OwnedFd::try_clone).collect()
    }

    /// A thread is going to accept from `socket`, one of [`Streams::listeners`].
    #[must_use]
    pub fn acceptor(&self, socket: Arc<dyn Socket>) -> Acceptor {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        lock(&self.0.acceptors).push(socket);
        Acceptor(self.0.clone())
    }
}

/// A thread's that accepts connections.
pub struct Acceptor(Arc<Inner>);

/// What came of an attempt to accept.
pub enum Accepted {
    /// A connection.
    Socket(OwnedFd),
    /// One has been refused, or has gone by itself.
    Gone,
    /// None waits.
    Nothing,
    /// There are no descriptors, not even to refuse one, or no memory; or the listener is broken.
    Short,
}

impl Acceptor {
    /// No more is to be accepted.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.0.closing.get().is_some()
    }

    /// The next connection of a listener.
    #[must_use]
    pub fn accept(&self, listener: BorrowedFd<'_>) -> Accepted {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let counters = &self.0.shared.counters;
        match accept_with(listener, flags) {
            Ok(socket) => Accepted::Socket(socket),
            Err(Errno::AGAIN) => Accepted::Nothing,
            Err(Errno::MFILE | Errno::NFILE) => {
                let mut spare = lock(&self.0.spare);
                let refused = spare.take().is_some() && accept_with(listener, flags).is_ok();
                *spare = super::accept::spare();
                if !refused {
                    return Accepted::Short;
                }
                counters.refused.fetch_add(1, Ordering::Relaxed);
                Accepted::Gone
            }
            Err(error) => {
                counters.accept_errors.fetch_add(1, Ordering::Relaxed);
                match super::accept::is_of_one_connection(error) {
                    true => Accepted::Gone,
                    false => Accepted::Short,
                }
            }
        }
    }

    /// A place for a connection; `None`: there is none, and it is to be closed at once.
    #[must_use]
    pub fn admit(&self, socket: Arc<dyn Socket>) -> Option<Stream> {
        let inner = &self.0;
        let counters = &inner.shared.counters;
        let mut places = lock(&inner.places);
        // Asked under the lock, under which `close` looks for those that it has to tell.
        let free = if self.is_closing() { None } else { places.free.pop() };
        let opened = free.map(|slot| (slot, inner.shared.open(slot, socket.clone())));
        let Some((slot, Ok(generation))) = opened else {
            places.free.extend(free);
            counters.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        inner.open.fetch_add(1, Ordering::SeqCst);
        let live = Arc::new(Live {
            inner: inner.clone(),
            slot,
            generation,
            socket: Mutex::new(Some(socket)),
            in_flight: AtomicU32::new(0),
            in_bytes: AtomicUsize::new(0),
            framer_bytes: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            awaits: AtomicBool::new(false),
            hungry: AtomicBool::new(false),
            touched: AtomicBool::new(false),
            evicted: AtomicBool::new(false),
        });
        places.live[slot as usize] = Some(live.clone());
        Some(Stream::new(live))
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.0.one_less();
    }
}

impl Inner {
    /// A connection or a thread that accepts has gone.
    fn one_less(&self) {
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            signal(&*self.again);
        }
    }

    pub(super) fn closes_by(&self) -> Option<Instant> {
        self.closing.get().copied()
    }

    /// Nothing more is accepted or read; what is under way has the time for that.
    pub(super) fn close(&self) {
        let now = Instant::now();
        let by = now.checked_add(self.config.linger).unwrap_or(now);
        if self.closing.set(by).is_err() {
            return;
        }
        for listener in lock(&self.listeners).drain(..) {
            // Also for the descriptors that the accepting threads have.
            let _ = shutdown(&listener, Shutdown::Both);
        }
        lock(&self.acceptors).drain(..).for_each(|acceptor| acceptor.nudge());
        self.each(|live| live.nudge());
        signal(&*self.again);
    }

    fn each(&self, f: impl FnMut(&Live)) {
        let live: Vec<_> = lock(&self.places).live.iter().flatten().cloned().collect();
        live.iter().map(|live| &**live).for_each(f);
    }

    /// All connections have gone, and no more will come.
    pub(super) fn is_closed(&self) -> bool {
        self.closing.get().is_some() && self.open.load(Ordering::SeqCst) == 0
    }

    /// Their threads will not run any more: resets the connections that are left.
    pub(super) fn abandon(&self) {
        self.close();
        self.each(|live| {
            if let Some(socket) = lock(&live.socket).take() {
                self.shared.release(live.slot, true);
                let _ = shutdown(socket.as_fd(), Shutdown::Both);
            }
        });
    }

    /// A connection's thread has done with it.
    pub(super) fn release(&self, live: &Live, reset: bool) {
        self.shared.budget.swap_inward(live.framer_bytes.swap(0, Ordering::Relaxed), 0);
        self.shared.release(live.slot, reset);
        drop(lock(&live.socket).take());
        let mut places = lock(&self.places);
        places.live[live.slot as usize] = None;
        places.free.push(live.slot);
        drop(places);
        self.feed();
        self.one_less();
    }

    /// A connection has no share of what all have: it is nudged when something is returned.
    pub(super) fn starve(&self, live: &Arc<Live>) {
        if !live.hungry.swap(true, Ordering::Relaxed) {
            let mut hungry = lock(&self.hungry);
            hungry.push(live.clone());
            self.hungry_count.store(hungry.len(), Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
    }

    /// Something has been returned.
    pub(super) fn feed(&self) {
        fence(Ordering::SeqCst);
        if self.hungry_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut hungry = lock(&self.hungry);
        let all = std::mem::take(&mut *hungry);
        self.hungry_count.store(0, Ordering::Relaxed);
        drop(hungry);
        for live in all {
            live.hungry.store(false, Ordering::Relaxed);
            live.nudge();
        }
    }

    /// Memory is short: evicts, of so many connections each, the one that has been slowest, of those
    /// whose peers hold no less than half of what connections have on average.
    pub(super) fn relieve(&self) {
        let now = self.epoch.elapsed().as_millis() as u64 / RELIEF_MS + 1;
        if self.last_relief.swap(now, Ordering::Relaxed) == now {
            return; // What was evicted just now has not given anything back yet.
        }
        let budget = &self.shared.budget;
        let mut places = lock(&self.places);
        let count = places.live.len();
        let in_use = count - places.free.len();
        for _ in 0..count.div_ceil(LOOKS) {
            let mut slowest: Option<(Instant, &Arc<Live>)> = None;
            let begin = places.search_at;
            for at in (begin..begin + LOOKS.min(count)).map(|at| at % count) {
                let Some(live) = &places.live[at] else { continue };
                let alone = live.in_flight.load(Ordering::Relaxed) == 0;
                let begun = Some(live.begun.load(Ordering::Relaxed)).filter(|&at| at > 0 && alone);
                let begun = begun.map(|ms| self.epoch + std::time::Duration::from_millis(ms));
                let frame = begun.map_or(0, |_| live.framer_bytes.load(Ordering::Relaxed));
                let held = frame + self.shared.unsent_bytes(live.slot);
                let evicted = live.evicted.load(Ordering::Relaxed);
                if evicted || 2 * held * in_use < budget.used() {
                    continue;
                }
                let since = [begun, self.shared.waits_since(live.slot)];
                if let Some(since) = since.into_iter().flatten().min()
                    && slowest.is_none_or(|(first, _)| since < first)
                {
                    slowest = Some((since, live));
                }
            }
            if let Some((_, live)) = slowest {
                live.evicted.store(true, Ordering::Relaxed);
                live.nudge();
                self.shared.counters.evicted.fetch_add(1, Ordering::Relaxed);
            }
            places.search_at = (begin + LOOKS) % count;
            if !budget.is_scarce() {
                return;
            }
        }
    }
}
