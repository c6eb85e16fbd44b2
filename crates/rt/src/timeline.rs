//! What happened when, on each of the kernel's threads, while it is recorded ([`Timeline`]).
//!
//! **Who touches what.** Each thread writes a ring of its own, which it makes at its first event; the
//! recording takes from all of them. A ring has one writer and one reader: `head` is the writer's,
//! `tail` the reader's, and an event's words are written before `head` and read before `tail` passes
//! them. A full ring loses what comes, and counts it.
//!
//! While there is no recording, an event is a look at one word that is not written.

use crate::clock::{self, Clock};
use crate::thread::KThread;
use curtail_ring::CachePadded;
use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events in a ring: 3 MiB.
const EVENTS: usize = 1 << 17;
/// Of one event: when, how long, and the rest.
const WORDS: usize = 3;

static ON: AtomicBool = AtomicBool::new(false);
/// The number of the recording that there is, or was.
static NUMBER: AtomicU32 = AtomicU32::new(0);
static RINGS: Mutex<Vec<Arc<Ring>>> = Mutex::new(Vec::new());

fn rings() -> MutexGuard<'static, Vec<Arc<Ring>>> {
    RINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A request came to the dispatcher.
    Arrived,
    /// The dispatcher sent a request to a worker.
    Sent,
    /// A request or thread was on a core until it ended.
    RanToEnd,
    /// A request or thread was on a core until its quantum was over and it was made to yield.
    RanUntilPreempted,
    /// A request or thread was on a core until it yielded by itself.
    RanUntilYield,
    /// A request or thread was on a core until it waited for something.
    RanUntilBlocked,
    /// A request or thread was on a core until its kthread went on to something else: which of
    /// these, is not known.
    Ran,
    /// A request or thread that had waited for something is ready again.
    Woken,
    /// Code ran for so long without a safepoint, or blocked in the kernel. On the watchdog's thread;
    /// `job` is the number of the kthread.
    Stalled,
    /// A kthread gave its core back to the core allocator.
    Parked,
    /// A kthread was granted a core.
    Granted,
}

const KINDS: [EventKind; 11] = [
    EventKind::Arrived,
    EventKind::Sent,
    EventKind::RanToEnd,
    EventKind::RanUntilPreempted,
    EventKind::RanUntilYield,
    EventKind::RanUntilBlocked,
    EventKind::Ran,
    EventKind::Woken,
    EventKind::Stalled,
    EventKind::Parked,
    EventKind::Granted,
];

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// On which thread: an index into [`Timeline::threads`].
    pub thread: usize,
    /// The kind of what happened.
    pub kind: EventKind,
    /// When it began, since the recording's start.
    pub start_ns: u64,
    /// How long it took; 0 for what takes no time.
    pub duration_ns: u64,
    /// The request's number (they are used again), or a thread's.
    pub job: u32,
    /// Its class.
    pub class: u16,
}

struct Ring {
    tid: u32,
    name: String,
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU64>,
    dropped: AtomicU64,
    words: Box<[AtomicU64]>,
    /// Its thread has ended.
    ended: AtomicBool,
}

/// A thread's own ring, which outlives it until its events were taken.
struct Own(Arc<Ring>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

thread_local! {
    /// Of a thread of the kernel's that is no kthread.
    static RING: OnceCell<Own> = const { OnceCell::new() };
}

/// What is recorded of a kthread, whatever runs there.
pub(crate) struct OfKthread {
    ring: OnceCell<Own>,
    runs: Cell<Runs>,
    /// Why that leaves, where that is known.
    why: Cell<EventKind>,
}

impl Default for OfKthread {
    fn default() -> Self {
        let (ring, runs) = (OnceCell::new(), Cell::new(Runs::NOTHING));
        Self { ring, runs, why: Cell::new(EventKind::Ran) }
    }
}

/// What runs on this kthread.
#[derive(Clone, Copy)]
struct Runs {
    /// Of which recording this is.
    recording: u32,
    /// 0: nothing runs.
    since: u64,
    job: u32,
    class: u16,
}

impl Runs {
    const NOTHING: Self = Self { recording: 0, since: 0, job: 0, class: 0 };
}

impl Ring {
    fn of_this_thread() -> Arc<Self> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        let ring = Arc::new(Self {
            tid,
            name: name.unwrap_or_default().trim_end().to_owned(),
            head: CachePadded::default(),
            tail: CachePadded::default(),
            dropped: AtomicU64::new(0),
            words: (0..EVENTS * WORDS).map(|_| AtomicU64::new(0)).collect(),
            ended: AtomicBool::new(false),
        });
        rings().push(ring.clone());
        ring
    }

    fn slot(&self, index: u64) -> &[AtomicU64] {
        let at = index as usize % EVENTS * WORDS;
        &self.words[at..at + WORDS]
    }

    fn push(&self, event: [u64; WORDS]) {
        let head = self.head.load(Ordering::Relaxed);
        if head - self.tail.load(Ordering::Acquire) >= EVENTS as u64 {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for (slot, word) in self.slot(head).iter().zip(event) {
            slot.store(word, Ordering::Relaxed);
        }
        self.head.store(head + 1, Ordering::Release);
    }

    fn drain(&self, mut take: impl FnMut([u64; WORDS])) {
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        for index in tail..head {
            let slot = self.slot(index);
            take([0, 1, 2].map(|word: usize| slot[word].load(Ordering::Relaxed)));
        }
        self.tail.store(head, Ordering::Release);
    }
}

/// Whether a recording is under way. (`curtail_no_recorder`: none ever is, to measure what this
/// look costs.)
#[inline]
#[doc(hidden)]
pub fn is_on() -> bool {
    !cfg!(curtail_no_recorder) && ON.load(Ordering::Relaxed)
}

/// Something happened that began then (TSC) and took so many cycles.
#[inline]
#[doc(hidden)]
pub fn note(kind: EventKind, (start, cycles): (u64, u64), job: u32, class: u16) {
    if is_on() {
        write(kind, (start, cycles), job, class);
    }
}

/// Where nothing is pre-empted: by the runtime's own code alone, which has no safepoints.
#[cold]
#[inline(never)]
fn write(kind: EventKind, (start, cycles): (u64, u64), job: u32, class: u16) {
    let rest = kind as u64 | u64::from(class) << 8 | u64::from(job) << 32;
    let push = |own: &OnceCell<Own>| {
        own.get_or_init(|| Own(Ring::of_this_thread())).0.push([start, cycles, rest]);
    };
    match KThread::try_here() {
        Some(here) => push(&here.timeline.ring),
        // A thread that is ending has none any more.
        None => _ = RING.try_with(push),
    }
}

/// What runs on this kthread is about to leave its core, for that reason.
#[cold]
#[inline(never)]
pub(crate) fn leaves(why: EventKind) {
    if let Some(here) = KThread::try_here() {
        here.timeline.why.set(why);
    }
}

/// This kthread goes on with another thread, or, where `next` is none, with none.
#[cold]
#[inline(never)]
pub(crate) fn switch_to(next: Option<(u32, u16)>) {
    let (now, recording) = (clock::now(), NUMBER.load(Ordering::Relaxed));
    let since = if next.is_some() { now } else { 0 };
    let (job, class) = next.unwrap_or_default();
    let Some(OfKthread { runs, why, .. }) = KThread::try_here().map(|here| &here.timeline) else {
        return;
    };
    let (why, ran) =
        (why.replace(EventKind::Ran), runs.replace(Runs { recording, since, job, class }));
    // An earlier recording may have ended in between.
    if ran.since != 0 && ran.recording == recording {
        write(why, (ran.since, now.saturating_sub(ran.since)), ran.job, ran.class);
    }
}

/// A recording of what happens: runs of requests and threads, arrivals, wake-ups, stalls, on each of
/// this process's threads. It ends when this is dropped. There is one at a time.
///
/// Each thread has room for 131,072 events that were not taken; what comes beyond is lost and counted.
#[derive(Debug)]
pub struct Timeline {
    start: u64,
    /// Of threads that this has seen: with what they had lost before.
    seen: Vec<(Arc<Ring>, u64)>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Timeline {
    /// Records from now on; `None`: a recording is under way already.
    #[must_use]
    pub fn start() -> Option<Self> {
        // Under the lock, so that what an earlier one left is gone before the first event.
        let mut rings = rings();
        if ON.load(Ordering::Relaxed) {
            return None;
        }
        rings.retain(|ring| !ring.ended.load(Ordering::Acquire));
        rings.iter().for_each(|ring| ring.drain(|_| {}));
        let seen = rings.iter().map(|ring| (ring.clone(), ring.dropped.load(Ordering::Relaxed)));
        let seen = seen.collect();
        let start = clock::now();
        NUMBER.fetch_add(1, Ordering::Relaxed);
        ON.store(true, Ordering::Relaxed);
        Some(Self { start, seen })
    }

    /// Takes what has happened since the last call. By thread, in order.
    pub fn take(&mut self) -> Vec<Event> {
        for ring in rings().iter() {
            if !self.seen.iter().any(|(seen, _)| Arc::ptr_eq(seen, ring)) {
                self.seen.push((ring.clone(), 0));
            }
        }
        let clock = Clock::get();
        let mut events = Vec::new();
        for (thread, (ring, _)) in self.seen.iter().enumerate() {
            ring.drain(|[start, cycles, rest]| {
                // A run may have begun before the recording did.
                let begun = start.max(self.start);
                let end = (start + cycles).max(begun);
                events.push(Event {
                    thread,
                    kind: KINDS[(rest & 0xff) as usize % KINDS.len()],
                    start_ns: clock.ns(begun - self.start),
                    duration_ns: clock.ns(end - begun),
                    job: (rest >> 32) as u32,
                    class: (rest >> 8) as u16,
                });
            });
        }
        events
    }

    /// The threads that had events so far: the kernel's number and name of each.
    #[must_use]
    pub fn threads(&self) -> Vec<(u32, String)> {
        self.seen.iter().map(|(ring, _)| (ring.tid, ring.name.clone())).collect()
    }

    /// How many events were lost.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let lost =
            |(ring, before): &(Arc<Ring>, u64)| ring.dropped.load(Ordering::Relaxed) - before;
        self.seen.iter().map(lost).sum()
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        ON.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one test: there is one recording at a time.
    #[test]
    fn what_happens_is_taken_in_order_and_what_is_lost_is_counted() {
        note(EventKind::Arrived, (1, 0), 9, 9);
        let mut timeline = Timeline::start().unwrap();
        assert!(Timeline::start().is_none());
        let now = clock::now();
        note(EventKind::RanToEnd, (now, 5_000), 7, 3);
        note(EventKind::RanUntilBlocked, (0, now), u32::MAX, u16::MAX);
        let me = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let mine = |timeline: &mut Timeline| {
            let events = timeline.take();
            let threads = timeline.threads();
            events.into_iter().filter(|event| threads[event.thread].0 == me).collect::<Vec<_>>()
        };
        let events = mine(&mut timeline);
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!((events[0].kind, events[0].job, events[0].class), (EventKind::RanToEnd, 7, 3));
        assert!(events[0].duration_ns > 0);
        // It began before: only its part in the recording.
        assert_eq!((events[1].start_ns, events[1].job), (0, u32::MAX));
        assert_eq!(events[1].class, u16::MAX);
        for job in 0..EVENTS as u32 + 10 {
            note(EventKind::Woken, (clock::now(), 0), job, 0);
        }
        assert_eq!(timeline.dropped(), 10);
        let events = mine(&mut timeline);
        assert!(events.iter().map(|event| event.job).eq(0..EVENTS as u32));
        drop(timeline);
        note(EventKind::Arrived, (1, 0), 9, 9);
        assert_eq!(mine(&mut Timeline::start().unwrap()), []);
    }
}
