//! A kthread's view of its threads' sockets: one epoll, and a bell that ends its sleep.
//!
//! Its kthread alone waits in it; others register sources with the epoll inside, take them out, and
//! ring. Where the kthread has not looked for long, others take its events ([`Epoll::look_for_owner`]):
//! waiters are woken as from any other kthread.

use super::alarm::{Alarm, Ends};
use super::slab;
use super::uring::{IoPlan, Uring};
use crate::clock::{self, Clock};
use crate::kernel::wait_for_events;
use crate::thread::Bell;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Token of the bell. No slot has this index.
const BELL: u64 = u64::MAX;
/// Token of the ring.
const RING: u64 = u64::MAX - 1;
/// Token of the alarm.
const ALARM: u64 = u64::MAX - 2;
/// Events that one system call brings. They lie on the stack, which may be a thread's.
const EVENTS: usize = 64;
/// How often it asks again at once where a call brought as many as it can.
const MOST_CALLS: usize = 8;
/// Where a millisecond more or less is no matter.
const COARSE_NS: i64 = 100_000_000;
/// How often a busy kthread asks the kernel.
const LOOK_NS: u64 = 10_000;
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// When others ask in its place.
const OVERDUE_NS: u64 = 5 * LOOK_NS;
/// For [`Epoll::last_look`]: its kthread sleeps in it.
const ASLEEP: u64 = u64::MAX;

fn is_fine(time: &Timespec) -> bool {
    time.tv_sec == 0 && (1..COARSE_NS).contains(&time.tv_nsec)
}

/// What sources are registered with. It stays as long as one is, so that its number in the kernel
/// names it.
pub(crate) struct Epoll {
    fd: OwnedFd,
    number: u32,
    /// When it was last asked (TSC), or [`ASLEEP`].
    last_look: AtomicU64,
    overdue_cycles: u64,
    /// Its kthread waits in it no more.
    ended: AtomicBool,
    /// Made for the first that asks for it; `None` inside: there can be none.
    ring: OnceLock<Option<Uring>>,
    /// So many sources were registered with it, and not taken out.
    sources: AtomicU32,
}

impl Epoll {
    fn new() -> io::Result<Arc<Self>> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self {
            fd,
            number,
            last_look: AtomicU64::new(clock::now()),
            overdue_cycles: Clock::get().cycles(OVERDUE_NS),
            ended: AtomicBool::new(false),
            ring: OnceLock::new(),
            sources: AtomicU32::new(0),
        }))
    }

    /// Its own among all that there ever were; never 0.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Its kthread's ring, where it has one.
    #[inline]
    pub(crate) fn ring(&self) -> Option<&Uring> {
        self.ring.get()?.as_ref()
    }

    /// Its kthread's ring, made where there is none yet. By its kthread.
    pub(crate) fn make_ring(&self, plan: IoPlan) -> Option<&Uring> {
        let make = || {
            let ring = Uring::new(plan).ok()?;
            // Not edge-triggered: a completion that was left there ends the next sleep, too.
            epoll::add(&self.fd, &ring, EventData::new_u64(RING), EventFlags::IN).ok()?;
            Some(ring)
        };
        self.ring.get_or_init(make).as_ref()
    }

    /// A source was registered (or taken out).
    pub(super) fn count_source(&self, is_there: bool) {
        match is_there {
            true => self.sources.fetch_add(1, Ordering::Relaxed),
            false => self.sources.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether there are events that its kthread has not taken. From any thread.
    pub(crate) fn has_events(&self) -> bool {
        self.ring().is_some_and(Uring::has_work)
            || poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&AT_ONCE))
                .is_ok_and(|ready| ready > 0)
    }

    /// Whether its kthread has been at something else for long. From any thread.
    #[inline]
    pub(crate) fn is_overdue(&self, now: u64) -> bool {
        self.is_past(self.last_look.load(Ordering::Relaxed), now)
    }

    fn is_past(&self, last_look: u64, now: u64) -> bool {
        // Readings of two cores differ by little, in either direction.
        let since = now.saturating_sub(last_look);
        last_look != ASLEEP && since > self.overdue_cycles
    }

    /// Makes the waiters ready whose sockets have become so, in its kthread's place; how many events
    /// there were. From another kthread.
    pub(crate) fn look_for_owner(&self, now: u64) -> usize {
        let last = self.last_look.load(Ordering::Relaxed);
        let claim =
            || self.last_look.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        if !self.is_past(last, now) || self.has_ended() || claim().is_err() {
            return 0; // Another one has been quicker.
        }
        let ended = self.ring().map_or(0, Uring::turn_for_owner);
        // Bell and alarm stay: they are the kthread's own.
        ended + self.take(Some(&AT_ONCE), |_| false)
    }

    /// The events that there are, or that come within that time; none where a signal's handler ran.
    fn wait<'a>(
        &self,
        room: &'a mut [MaybeUninit<Event>; EVENTS],
        timeout: Option<&Timespec>,
    ) -> &'a mut [Event] {
        let mut timeout = timeout;
        if let Some(time) = timeout.filter(|time| is_fine(time)) {
            if let Some(count) = wait_for_events(self.fd.as_fd(), room, time) {
                // SAFETY: the kernel has filled in so many.
                return unsafe { room[..count].assume_init_mut() };
            }
            // epoll counts in milliseconds, poll does not.
            let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], timeout);
            timeout = Some(&AT_ONCE);
        }
        epoll::wait(&self.fd, room, timeout)
            .map_or_else(|_| Default::default(), |(events, _)| events)
    }

    /// How many events there were; `own` is told of those that are the kthread's own, and says whether they
    /// count.
    fn take(&self, timeout: Option<&Timespec>, own: impl Fn(u64) -> bool) -> usize {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let mut taken = 0;
        for event in self.wait(&mut events, timeout) {
            let data = event.data.u64();
            if data == BELL || data == ALARM {
                taken += usize::from(own(data));
                continue;
            }
            if data == RING {
                taken += self.ring().map_or(0, Uring::turn);
                continue;
            }
            taken += 1;
            if let Some(slot) = slab::find(data as u32) {
                slot.deliver((data >> 32) as u32, event.flags);
            }
        }
        taken
    }
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll").field("number", &self.number).finish_non_exhaustive()
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A kthread's view of its threads' sockets.
pub(crate) struct Poller {
    epoll: Arc<Epoll>,
    bell: Arc<EventBell>,
    alarm: Alarm,
    look_cycles: u64,
}

struct EventBell(OwnedFd);

impl Bell for EventBell {
    fn ring(&self) {
        // The counter is far from full: the sleeper empties it.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll.fd, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Self {
            epoll,
            bell: Arc::new(EventBell(bell)),
            alarm: Alarm::default(),
            look_cycles: Clock::get().cycles(LOOK_NS),
        })
    }

    pub(crate) fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }

    pub(crate) fn epoll(&self) -> &Arc<Epoll> {
        &self.epoll
    }

    /// Takes what the ring has, and makes the waiters ready whose sockets have become so, unless it was
    /// asked for these just now. `idles`: the kthread has nothing to run, so it is about to look more
    /// closely, or to sleep there.
    pub(crate) fn look(&self, now: u64, idles: bool) {
        self.turn();
        let due = if idles { self.epoll.is_overdue(now) } else { self.is_due(now) };
        if due {
            self.look_at_sockets(now);
        }
    }

    /// Looks at once, at the sockets too. Work that the ring has brought goes first.
    pub(crate) fn look_now(&self, now: u64) {
        if self.turn() == 0 || self.is_due(now) {
            self.look_at_sockets(now);
        }
    }

    /// Hands over what was pushed into the ring; how many operations have ended.
    pub(crate) fn turn(&self) -> usize {
        self.epoll.ring().map_or(0, Uring::turn)
    }

    fn is_due(&self, now: u64) -> bool {
        // Another kthread may have looked a little later.
        now.saturating_sub(self.epoll.last_look.load(Ordering::Relaxed)) > self.look_cycles
    }

    fn look_at_sockets(&self, now: u64) {
        self.epoll.last_look.store(now, Ordering::Relaxed);
        if self.epoll.ring().is_some() && self.epoll.sources.load(Ordering::Relaxed) == 0 {
            return;
        }
        for _ in 0..MOST_CALLS {
            if self.take(Some(&AT_ONCE)) < EVENTS {
                break;
            }
        }
    }

    /// Looks, and sleeps until there is something, the bell rings, or `most` has passed.
    pub(crate) fn wait(&self, most: Option<Duration>) {
        let most = if self.turn() > 0 { Some(Duration::ZERO) } else { most };
        self.epoll.last_look.store(ASLEEP, Ordering::Relaxed);
        let ends = self.alarm.begin(self.epoll.as_fd(), ALARM, most);
        let timeout = match &ends {
            Ends::After(timeout) => Some(timeout),
            Ends::Otherwise => None,
        };
        let taken = self.take(timeout);
        self.alarm.end(ends, taken);
        if taken >= EVENTS {
            self.look_at_sockets(clock::now());
        }
        self.epoll.last_look.store(clock::now(), Ordering::Relaxed);
    }

    /// How many events there were.
    fn take(&self, timeout: Option<&Timespec>) -> usize {
        self.epoll.take(timeout, |own| match own {
            ALARM => {
                self.alarm.clear();
                false
            }
            _ => rustix::io::read(&self.bell.0, &mut [0; 8]).is_ok(),
        })
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Poller {
    /// Threads of other kthreads may wait for what is registered here.
    fn drop(&mut self) {
        self.epoll.ended.store(true, Ordering::Release);
        self.epoll.ring().inspect(|ring| ring.end());
        slab::each(|slot| slot.leave(self.epoll.number));
    }
}
