//! Elastic kthreads: under a core allocator (`curtaild`) a runtime's kthreads have cores while they
//! have work.
//!
//! **A kthread's life.** Each has a word in the daemon's [board](curtail_shm::BoardView) and a line
//! in the runtime's own [page](curtail_shm::Page). It sleeps on the word until that says *run*, and
//! runs threads. Without work it says in its line that it has parked, and sleeps on the word again;
//! it never takes a core back by itself.
//!
//! If the word says *evict*, it does the same as soon as it is between two threads, or at the next
//! safepoint of the one that runs, and wakes its heir.
//!
//! **Wake-ups.** What is made ready for a kthread that has parked is a counter in its line, which
//! the daemon reads at each of its looks: no system call of the program's. Nothing is lost: the
//! side that puts a thread into an inbox or a queue counts it *first*, and the kthread counts what
//! it took out, so that the daemon sees a difference for as long as something is there.
//!
//! Timers of a parked kthread are in its line, too, and its sockets in the poller that the daemon
//! was passed. Where the daemon may sleep, plain threads ring a bell besides (`doorbell`).
//!
//! **While a thread runs**, its safepoints look at the kthread's word: after each heartbeat where they time
//! themselves. Where they poll, the daemon raises what they poll (`poll_pages`), or a signal does (`signal`).
//!
//! **Without the daemon** (`watcher`): when it ends, or stops for 80 ms (`pulse`), `epoch` moves on; the kthreads that sleep on the
//! board are woken until none does, and all of them sleep and wake each other as they do
//! in any runtime. When it is back, they register again.
//!
//! * `client`: a kthread's side; `doorbell`: work from outside; `port`, `gate`: packets that the daemon
//!   receives for the program, and a kthread's part in that; `link`: a session with a daemon; `watcher`: its end and its return;
//! * `orders`: what batch programs follow; `allocator_config`: what the user asks for; `signal`: the second rung of an eviction.

mod allocator_config;
mod client;
mod doorbell;
mod gate;
mod link;
mod orders;
mod port;
mod pulse;
mod signal;
mod watcher;

pub use allocator_config::AllocatorConfig;
pub use allocator_config::DaemonError;
pub use client::AllocatorClient;
pub(crate) use doorbell::Doorbell;
pub use gate::Sent;
pub(super) use link::Link;
pub use port::Port;

use super::kthread::Shared;
use curtail_fiber::safepoint::Safepoint;
use curtail_shm::{LentPage, Page, PageLine, PollPages};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The target of what is logged here.
const LOG: &str = "curtail::thread::elastic";

/// The number of the doorbell among the pollers: no kthread's.
const DOORBELL: u64 = u64::MAX;

/// What the kthreads of a runtime share about the daemon. See the module's head.
pub struct Elastic {
    page: Arc<Page>,
    path: PathBuf,
    name: String,
    is_batch: bool,
    /// `None`: there is no daemon now. Changes with `epoch`, which is written after it.
    link: Mutex<Option<Arc<Link>>>,
    epoch: AtomicU32,
    /// The daemon was left since it wrote what can't be.
    is_distrusted: AtomicBool,
    /// The runtime ends.
    ended: AtomicBool,
    /// Where the program may run when no daemon says where.
    cores: Option<CpuSet>,
    /// An epoll that watches all kthreads' epolls, and the doorbell: readable when a packet has come
    /// for any of them, or work from outside.
    pollers: OwnedFd,
    doorbell: Arc<Doorbell>,
    /// The daemon receives packets for the program.
    port: Option<Arc<Port>>,
    /// The daemon raises the words that the kthreads' safepoints poll.
    poll_pages: Option<PollPages>,
    watcher: Mutex<Option<JoinHandle<()>>>,
}

impl Elastic {
    /// Registers with the daemon, if there is to be one: with so many kthreads.
    ///
    /// # Errors
    /// There is none, or it refuses, and the program can't do without it.
    pub fn register(
        allocator_config: &AllocatorConfig,
        kthreads: usize,
    ) -> Result<Option<Arc<Self>>, DaemonError> {
        let Some(path) = allocator_config.path() else { return Ok(None) };
        match Self::register_at(path, allocator_config, kthreads) {
            Ok(elastic) => Ok(Some(elastic)),
            Err(error) if allocator_config.is_must() => Err(error),
            Err(error) => {
                tracing::warn!(target: LOG, %error, "$CURTAILD: without it, then");
                Ok(None)
            }
        }
    }

    fn register_at(
        path: PathBuf,
        allocator_config: &AllocatorConfig,
        kthreads: usize,
    ) -> Result<Arc<Self>, DaemonError> {
        let fails = |problem: String| DaemonError::new(&path, problem);
        let page = Page::create(&allocator_config.spec(kthreads))
            .map_err(|error| fails(error.to_string()))?;
        let pollers = epoll::create(CreateFlags::CLOEXEC).map_err(|e| fails(e.to_string()))?;
        let doorbell = Doorbell::new(&page).map_err(|error| fails(error.to_string()))?;
        epoll::add(&pollers, &doorbell, EventData::new_u64(DOORBELL), EventFlags::IN)
            .map_err(|error| fails(error.to_string()))?;
        signal::handle();
        let elastic = Arc::new(Self {
            page: Arc::new(page),
            name: allocator_config::program(),
            is_batch: allocator_config.batch,
            link: Mutex::new(None),
            epoch: AtomicU32::new(0),
            is_distrusted: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            cores: sched_getaffinity(None).ok(),
            pollers,
            doorbell: Arc::new(doorbell),
            port: allocator_config.port.as_deref().map(|url| Arc::new(Port::new(url))),
            poll_pages: poll_pages(allocator_config, kthreads),
            watcher: Mutex::new(None),
            path: path.clone(),
        });
        let link = elastic.connect().map_err(fails)?;
        elastic.set_link(Some(Arc::new(link)));
        Ok(elastic)
    }

    fn connect(&self) -> Result<Link, String> {
        let page = (&*self.page, self.is_batch);
        let fds = (self.pollers.as_fd(), self.poll_pages.as_ref().map(PollPages::fd));
        Link::connect(&self.path, &self.name, page, fds, self.port.as_deref())
    }

    /// The page of the calling kthread's safepoints is the daemon's to write, too, from now on.
    fn lend_page(&self, index: u32) -> Option<LentPage> {
        let pages = self.poll_pages.as_ref()?;
        let page = Safepoint::this_thread().page()?;
        // SAFETY: the page of the calling thread's safepoint block, which is plain words, of which others
        // write `poll` alone; thread-local variables are private memory, and this thread's until it ends,
        // which is after what has the lent page is dropped, by this thread.
        let lent = unsafe { pages.lend(index, page) };
        lent.map_err(|error| tracing::warn!(target: LOG, %error, "evictions need a signal")).ok()
    }

    /// Begins to watch for the daemon's end.
    pub(super) fn watch(self: &Arc<Self>, peers: &Arc<super::common::Common>) {
        let (elastic, peers) = (self.clone(), peers.clone());
        let thread = std::thread::Builder::new().name("curtail-daemon".to_owned());
        match thread.spawn(move || watcher::watch(&elastic, &peers)) {
            Ok(thread) => {
                *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread)
            }
            Err(error) => tracing::warn!(
                target: LOG, %error, "the core allocator's end would not be noticed"
            ),
        }
    }

    /// The line of a kthread.
    pub(super) fn line(&self, index: usize) -> PageLine {
        PageLine::of(&self.page, index as u32)
    }

    fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_link(&self, link: Option<Arc<Link>>) {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = link;
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Another epoll that threads wait in.
    pub(super) fn add_poller(&self, poller: impl AsFd, index: usize) {
        let data = EventData::new_u64(index as u64);
        if let Err(error) = epoll::add(&self.pollers, poller, data, EventFlags::IN) {
            tracing::warn!(target: LOG, %error, "packets for parked kthreads would not be noticed");
        }
    }

    /// The port that the daemon has for the program.
    pub fn port(&self) -> Option<&Arc<Port>> {
        self.port.as_ref()
    }

    /// How the daemon learns of work from outside.
    pub(super) fn doorbell(&self) -> &Arc<Doorbell> {
        &self.doorbell
    }

    /// Calls `f` with each kthread that has events in its poller.
    fn each_with_packets(&self, f: impl FnMut(usize)) {
        let mut events = [const { MaybeUninit::uninit() }; 64];
        let at_once = epoll::wait(&self.pollers, &mut events, Some(&Timespec::default()));
        let Ok((events, _)) = at_once else { return };
        events.iter().map(|event| event.data.u64() as usize).for_each(f);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Wakes those that sleep on the board, which look whether they still should; true: there were
    /// some.
    pub(super) fn wake_parked(&self, peers: &[Arc<Shared>]) -> bool {
        let link = self.link();
        let mut any = false;
        for (index, _) in peers.iter().enumerate().filter(|(_, peer)| peer.is_parked()) {
            any = true;
            if let Some(link) = &link {
                link.wake(index as u32);
            }
        }
        any
    }

    /// The calling thread, or that kthread, runs wherever the program could before.
    fn unpin(&self, tid: Option<libc::pid_t>) {
        if let Some(cores) = &self.cores {
            // It runs anyway, on fewer cores.
            let _ = sched_setaffinity(tid.and_then(Pid::from_raw), cores);
        }
    }

    /// The calling thread runs on these cores, as far as the program may.
    fn pin_to(&self, cpus: &[usize]) {
        let Some(cores) = &self.cores else { return };
        let mut both = CpuSet::new();
        cpus.iter().filter(|&&cpu| cores.is_set(cpu)).for_each(|&cpu| both.set(cpu));
        // Elsewhere it would follow no orders, and run all the same.
        if both.count() > 0 {
            let _ = sched_setaffinity(None, &both);
        }
    }

    /// The runtime has ended: leaves the daemon. By the thread that started it.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(link) = self.link() {
            link.leave();
        }
        if let Some(watcher) = watcher {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
        self.set_link(None);
        self.unpin(None);
    }
}

/// `None`: there are to be none, or the safepoints would not look at them.
fn poll_pages(allocator_config: &AllocatorConfig, kthreads: usize) -> Option<PollPages> {
    if !allocator_config.poll_pages
        || allocator_config.batch
        || Safepoint::this_thread().page().is_none()
    {
        return None;
    }
    let pages = PollPages::create(kthreads as u32);
    pages.map_err(|error| tracing::warn!(target: LOG, %error, "evictions need a signal")).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn batch_programs_read_the_board_as_it_is_written() {
        assert_eq!(curtail_fiber::safepoint::board_layout(), curtail_shm::Board::LAYOUT);
    }

    #[test]
    fn the_daemon_raises_the_word_that_safepoints_poll() {
        assert_eq!(curtail_fiber::safepoint::POLL_AT, curtail_shm::POLL_AT);
    }
}
