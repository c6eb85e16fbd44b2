//! The processes between which a core changes hands. Each is this program, called again.

use crate::looks::{Beat, step};
use curtail_shm::kthreads::{EVICT_SIGNAL, pin_this_thread, rank_last};
use curtail_shm::session::Session;
use curtail_shm::{
    Ask, BoardView, Class, CoreIndex, Page, PollPages, Slot, Spec, Word, monotonic_ns,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sleeps until it is granted a core, says when it ran, and gives the core back.
    Heir,
    /// Computes, as the last in rank, and looks every so many ns whether the core is ordered for
    /// another: batch work with safepoints. With 0 it does nothing but look: an idler.
    Looks(u64),
    /// Computes, as the last in rank, and looks at nothing: batch work without safepoints.
    Spins,
    /// Computes until a signal comes; then it wakes its heir and parks, as a kthread does that is
    /// evicted by signal.
    Parks,
    /// Computes until its poll word is raised, at which it looks all the time; then it wakes its
    /// heir and parks.
    Polled,
    /// Computes until its word says so, at which it looks every so many ns; then it wakes its heir
    /// and parks.
    Beats(u64),
}

impl Role {
    /// As arguments of this program.
    #[must_use]
    pub fn arguments(self) -> [String; 2] {
        let (name, looks_ns) = match self {
            Self::Heir => ("heir", 0),
            Self::Looks(ns) => ("looks", ns),
            Self::Spins => ("spins", 0),
            Self::Parks => ("parks", 0),
            Self::Polled => ("polled", 0),
            Self::Beats(ns) => ("beats", ns),
        };
        [name.to_owned(), looks_ns.to_string()]
    }

    fn of(name: &str, looks_ns: &str) -> Option<Self> {
        match name {
            "heir" => Some(Self::Heir),
            "looks" => Some(Self::Looks(looks_ns.parse().ok()?)),
            "spins" => Some(Self::Spins),
            "parks" => Some(Self::Parks),
            "polled" => Some(Self::Polled),
            "beats" => Some(Self::Beats(looks_ns.parse().ok()?)),
            _ => None,
        }
    }
}

/// A process's place: its memory and the board's.
struct Place {
    page: Page,
    view: BoardView,
    slot: Slot,
    core: CoreIndex,
    /// With the parent, which also ends the process with itself.
    session: Session,
}

/// Plays a role, to the end of the process: `ROLE LOOKS_NS CPU SOCKET`.
///
/// # Errors
/// Where the arguments are none, or there is nothing at the socket.
pub fn play(arguments: &[String]) -> Result<(), String> {
    let [name, looks_ns, cpu, socket] = arguments else {
        return Err("needs a role, a time, a core and a socket".to_owned());
    };
    let role = Role::of(name, looks_ns).ok_or("there is no such role")?;
    let cpu: u32 = cpu.parse().map_err(|_| "the core is no number")?;
    let signal = rustix::process::Signal::KILL;
    rustix::process::set_parent_process_death_signal(Some(signal)).map_err(|e| e.to_string())?;
    pin_this_thread(&[cpu]).map_err(|error| format!("core {cpu}: {error}"))?;
    let place = Place::take(Path::new(socket), name, cpu)?;
    if matches!(role, Role::Looks(_) | Role::Spins) {
        rank_last().map_err(|error| format!("SCHED_IDLE: {error}"))?;
    }
    match role {
        Role::Heir => place.run_and_park(),
        Role::Looks(ns) => place.look(ns),
        Role::Spins => loop {
            work();
        },
        Role::Parks => place.park_by_signal(),
        Role::Polled => place.park_by_page(),
        Role::Beats(ns) => place.park_by_word(ns),
    }
}

/// Some tens of ns of computing.
fn work() {
    let mut value = 1_u64;
    for _ in 0..16 {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) | 1);
    }
}

impl Place {
    fn take(socket: &Path, name: &str, cpu: u32) -> Result<Self, String> {
        let spec = Spec { class: Class::LatencyCritical, kthreads: 1, guaranteed: 0, burstable: 1 };
        let page = Page::create(&spec).map_err(|error| error.to_string())?;
        page.set_tid(0, rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let (session, welcome) =
            Session::connect(socket, name, page.fd()).map_err(|error| error.to_string())?;
        let view = BoardView::map(welcome.board).map_err(|error| error.to_string())?;
        let core = (0..view.cores()).map(CoreIndex).find(|core| view.cpu(*core) == Some(cpu));
        let core = core.ok_or("the board lacks the core")?;
        Ok(Self { page, view, slot: welcome.first_slot, core, session })
    }

    /// When it ran is said where a kthread says since when a thread is ready.
    fn run_and_park(&self) -> ! {
        let mut seen = Word::FIRST;
        loop {
            let word = self.view.word(self.slot);
            if word != seen && word.ask() == Ask::Run {
                self.page.set_oldest_ready_ns(0, monotonic_ns());
                self.page.set_parked(0, word.generation());
            }
            seen = word;
            self.view.sleep(self.slot, seen, None);
        }
    }

    fn look(&self, every_ns: u64) -> ! {
        let mut last = self.view.order(self.core);
        self.page.set_running(0, 0);
        let mut looked = monotonic_ns();
        loop {
            // An idler looks all the time.
            if every_ns > 0 {
                while monotonic_ns() - looked < every_ns {
                    work();
                }
                looked = monotonic_ns();
            } else {
                std::hint::spin_loop();
            }
            let order = self.view.order(self.core);
            if order != last
                && let Some(order) = order
            {
                self.view.wake(order.heir);
            }
            last = order;
        }
    }

    fn park_by_signal(&self) -> ! {
        let asked = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(EVICT_SIGNAL, asked.clone()).expect("a signal of users'");
        self.park_when(|| (), |(), _| asked.swap(false, Ordering::Relaxed))
    }

    fn park_by_page(&self) -> Result<(), String> {
        let pages = PollPages::create(1).map_err(|error| error.to_string())?;
        self.session.pass_poll_pages(pages.fd()).map_err(|error| error.to_string())?;
        let poll = pages.word(0);
        // What was raised before its grant is no eviction of it.
        self.park_when(
            || poll.store(0, Ordering::Relaxed),
            |(), _| poll.load(Ordering::Relaxed) != 0,
        )
    }

    fn park_by_word(&self, every_ns: u64) -> ! {
        let asked =
            |beat: &mut Beat, granted| beat.is_over() && self.view.word(self.slot) != granted;
        self.park_when(|| Beat::new(every_ns), asked)
    }

    /// Computes from each grant, with which `begin` is called, until it is `asked`; then it wakes its heir
    /// and parks.
    fn park_when<T>(
        &self,
        begin: impl Fn() -> T,
        mut asked: impl FnMut(&mut T, Word) -> bool,
    ) -> ! {
        let mut seen = Word::FIRST;
        loop {
            let word = self.view.word(self.slot);
            if word.ask() == Ask::Run {
                let mut run = begin();
                self.page.set_running(0, word.generation());
                while !asked(&mut run, word) {
                    step();
                }
                seen = self.view.word(self.slot);
                self.page.set_parked(0, seen.generation());
                if let Some(heir) = self.view.heir(self.slot) {
                    self.view.wake(heir);
                }
            }
            self.view.sleep(self.slot, seen, None);
        }
    }
}
