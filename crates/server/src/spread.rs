//! One transport for several dispatchers.
//!
//! The first dispatcher polls the transport ([`Root`]). Each request it keeps or hands to another
//! one ([`End`]) through a ring, as the [`Balancer`] chooses; what becomes of it comes back through
//! another ring, so that the transport sees all requests' ends on one thread. Workers answer by
//! themselves, as ever.
//!
//! **The invariants.** A request that is handed over is outstanding until its completion has come
//! back, and there are never more outstanding at an end than its ring back has places: an end never
//! waits for the root.
//!
//! The root stays open until nothing is outstanding; an end closes when the transport has, and its
//! ring is empty. Buffers travel with requests and come back with completions, so that nothing is
//! allocated once there are as many as requests under way.

use curtail_net::{Completion, Intake, Peer, Reply, Status, Transport, Waker};
use curtail_policy::{Balancer, Share};
use curtail_ring::spsc;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Requests on their way to an end.
const WAY: usize = 1_024;

/// A request on its way to its dispatcher.
struct ForwardedRequest {
    payload: Vec<u8>,
    from: Peer,
    arrived_tsc: u64,
}

/// What became of it, and a buffer for another.
struct Return {
    completion: Completion,
    buffer: Vec<u8>,
}

/// What root and ends say to each other besides.
#[derive(Default)]
struct Shared {
    /// No more requests will come.
    closed: AtomicBool,
    /// The root has found no room, and is to be notified when there is some.
    starved: AtomicBool,
}

/// A dispatcher, as far as it matters here: its workers, and how to wake it.
pub(crate) struct Seat {
    pub workers: usize,
    pub waker: Waker,
}

/// The root's side of an end.
struct Link {
    to: spsc::Producer<ForwardedRequest>,
    back: spsc::Consumer<Return>,
    waker: Waker,
    outstanding: usize,
    /// No more may be outstanding.
    limit: usize,
}

impl Link {
    /// How many more requests it takes. One whose dispatcher has ended does not hold up the others.
    fn room(&mut self) -> usize {
        if self.to.is_abandoned() {
            return usize::MAX;
        }
        self.to.free().min(self.limit - self.outstanding)
    }

    /// Hands a request over, or gives it back.
    fn hand_over(&mut self, parcel: ForwardedRequest) -> Result<(), ForwardedRequest> {
        if self.to.is_abandoned() {
            return Err(parcel);
        }
        self.to.stage(parcel).map_err(|full| full.into_inner())?;
        self.outstanding += 1;
        Ok(())
    }

    /// Shows what was handed over.
    fn publish(&mut self) {
        if self.to.staged() > 0 {
            self.to.publish();
            self.waker.wake();
        }
    }
}

/// Who gets which request.
struct Sorter {
    links: Vec<Link>,
    /// Each dispatcher's workers.
    workers: Vec<usize>,
    balancer: Balancer,
    /// Requests that stayed here.
    own: usize,
    buffers: Vec<Vec<u8>>,
}

impl Sorter {
    fn choose(&mut self, from: Peer) -> usize {
        let Self { links, workers, balancer, own, .. } = self;
        balancer.choose(flow(from), |at| Share {
            jobs: if at == 0 { *own } else { links[at - 1].outstanding },
            workers: workers[at],
        })
    }

    fn outstanding(&self) -> usize {
        self.links.iter().map(|link| link.outstanding).sum()
    }

    fn room(&mut self) -> usize {
        self.links.iter_mut().map(Link::room).min().unwrap_or(usize::MAX)
    }
}

/// The transport's owner, on the first dispatcher.
struct Root {
    inner: Box<dyn Transport>,
    open: bool,
    sorter: Sorter,
    waker: Waker,
    shared: Arc<Shared>,
}

/// What another dispatcher has of it.
struct End {
    from: spsc::Consumer<ForwardedRequest>,
    back: spsc::Producer<Return>,
    buffers: Vec<Vec<u8>>,
    reply: Arc<dyn Reply>,
    name: String,
    root: Waker,
    shared: Arc<Shared>,
}

/// Makes one transport for each seat of it, in their order. `capacity`: as many jobs each dispatcher
/// holds at most.
pub(crate) fn spread(
    inner: Box<dyn Transport>,
    seats: &[Seat],
    balancer: Balancer,
    capacity: usize,
) -> Vec<Box<dyn Transport>> {
    let shared = Arc::new(Shared::default());
    let reply = inner.reply();
    let name = inner.describe();
    let mut ends: Vec<Box<dyn Transport>> = Vec::new();
    let mut links = Vec::new();
    for seat in &seats[1..] {
        let (to, from) = spsc::channel(WAY);
        let limit = WAY + capacity;
        let (back, returns) = spsc::channel(limit);
        links.push(Link { to, back: returns, waker: seat.waker.clone(), outstanding: 0, limit });
        ends.push(Box::new(End {
            from,
            back,
            buffers: Vec::with_capacity(WAY),
            reply: reply.clone(),
            name: name.clone(),
            root: seats[0].waker.clone(),
            shared: shared.clone(),
        }));
    }
    let sorter = Sorter {
        links,
        workers: seats.iter().map(|seat| seat.workers).collect(),
        balancer,
        own: 0,
        buffers: Vec::with_capacity(WAY),
    };
    let waker = seats[0].waker.clone();
    ends.insert(0, Box::new(Root { inner, open: true, sorter, waker, shared }));
    ends
}

/// A request's flow: whom it comes from.
fn flow(from: Peer) -> Option<u64> {
    if from == Peer::None {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    from.hash(&mut hasher);
    Some(hasher.finish())
}

/// Where the transport puts its requests.
struct Sorting<'a> {
    sorter: &'a mut Sorter,
    own: &'a mut dyn Intake,
    /// There is room for so many, wherever they are to go.
    room: usize,
}

impl Intake for Sorting<'_> {
    fn room(&self) -> usize {
        self.room.min(self.own.room())
    }

    fn request(&mut self, payload: &[u8], from: Peer, arrived_tsc: u64) {
        self.room = self.room.saturating_sub(1);
        let to = self.sorter.choose(from);
        if to > 0 {
            let mut buffer = self.sorter.buffers.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(payload);
            let parcel = ForwardedRequest { payload: buffer, from, arrived_tsc };
            match self.sorter.links[to - 1].hand_over(parcel) {
                Ok(()) => return,
                Err(parcel) => self.sorter.buffers.push(parcel.payload),
            }
        }
        self.sorter.own += 1;
        self.own.request(payload, from, arrived_tsc);
    }

    fn malformed(&mut self, count: u64) {
        self.own.malformed(count);
    }
}

impl Root {
    /// Tells the transport what became of requests elsewhere.
    fn drain_events(&mut self) {
        for link in &mut self.sorter.links {
            while let Some(back) = link.back.pop() {
                link.outstanding -= 1;
                self.inner.completed(&back.completion);
                self.sorter.buffers.push(back.buffer);
            }
            // It was given up with its dispatcher: these will not be reported.
            if link.back.is_abandoned() && link.back.is_empty() {
                link.outstanding = 0;
            }
        }
    }

    /// How many requests may come. Where that is none, an end will say when there is room.
    fn room(&mut self) -> usize {
        match self.sorter.room() {
            0 => {
                self.shared.starved.store(true, Ordering::Relaxed);
                // It may have come in between. Either this look sees it; or the end, which fences
                // between making room and looking for this, sees that the root is starved.
                fence(Ordering::SeqCst);
                self.sorter.room()
            }
            room => room,
        }
    }

    fn close_ends(&mut self) {
        self.open = false;
        self.shared.closed.store(true, Ordering::Release);
        self.sorter.links.iter().for_each(|link| link.waker.wake());
    }
}

impl Transport for Root {
    fn poll(&mut self, now_tsc: u64, into: &mut dyn Intake) -> Status {
        self.drain_events();
        if self.open {
            let room = self.room();
            let mut sorting = Sorting { sorter: &mut self.sorter, own: into, room };
            let status = self.inner.poll(now_tsc, &mut sorting);
            let left = sorting.room;
            self.sorter.links.iter_mut().for_each(Link::publish);
            if status == Status::Closed {
                self.close_ends();
            } else if left == 0 && self.room() > 0 {
                // What was left for want of room is looked at again.
                self.waker.wake();
            }
        }
        match self.open || self.sorter.outstanding() > 0 {
            true => Status::Open,
            false => Status::Closed,
        }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.inner.reply()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.inner.wait_fds()
    }

    fn before_wait(&mut self) -> bool {
        self.inner.before_wait()
    }

    fn completed(&mut self, completion: &Completion) {
        self.sorter.own -= 1;
        self.inner.completed(completion);
    }

    fn close(&mut self) {
        self.inner.close();
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner.local_addrs()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.inner.counters()
    }
}

impl Drop for Root {
    /// Also where the first dispatcher ends early: the others serve what they have, and end.
    fn drop(&mut self) {
        self.close_ends();
    }
}

impl Transport for End {
    fn poll(&mut self, _: u64, into: &mut dyn Intake) -> Status {
        // Before the look into the ring: what came before it was closed is there then.
        let closed = self.shared.closed.load(Ordering::Acquire);
        let mut took = false;
        while into.room() > 0 {
            let Some(parcel) = self.from.pop() else { break };
            into.request(&parcel.payload, parcel.from, parcel.arrived_tsc);
            self.buffers.push(parcel.payload);
            took = true;
        }
        if took {
            fence(Ordering::SeqCst);
            let starved = &self.shared.starved;
            if starved.load(Ordering::Relaxed) && starved.swap(false, Ordering::Relaxed) {
                self.root.wake();
            }
        }
        if closed && self.from.is_empty() { Status::Closed } else { Status::Open }
    }

    fn reply(&self) -> Arc<dyn Reply> {
        self.reply.clone()
    }

    /// None: the root wakes a dispatcher that sleeps.
    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn completed(&mut self, completion: &Completion) {
        let buffer = self.buffers.pop().unwrap_or_default();
        let back = Return { completion: *completion, buffer };
        self.back.push(back).expect("no more are outstanding than it has places");
        // Otherwise it looks when it has something to do, or ten times a second.
        if self.shared.closed.load(Ordering::Relaxed) {
            self.root.wake();
        }
    }

    /// It closes when the root does.
    fn close(&mut self) {}

    fn describe(&self) -> String {
        self.name.clone()
    }
}

#[cfg(test)]
mod tests;
