//! How many orders one core allocator carries out in a second, in a closed loop: it looks at the
//! pages of two programs, decides, grants and orders; kthreads take each grant and park again with
//! work still there, so that each grant is the answer to the end of the one before.
//!
//! The kthreads are played by one thread, on a core of its own, which reads their words and writes
//! their lines as kthreads do; the cores that they are granted are places on the board.

use curtail_alloc::{
    Allocator, Class, HandOver, KthreadId, KthreadLook, Machine, Nanos, Order, Program, ProgramId,
    Queue, Settings,
};
use curtail_shm::kthreads::{allowed_cpus, pin_this_thread};
use curtail_shm::{
    Ask, Board, BoardView, CoreIndex, Page, PageView, Slot, Spec, Word, monotonic_ns,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const CORES: u32 = 16;
const PROGRAMS: u32 = 2;
/// Of each program.
const KTHREADS: u32 = 16;
const INTERVAL: Duration = Duration::from_micros(5);
/// No kthread is woken by a system call: all of them look.
const PATIENCE: Duration = Duration::from_secs(10);

/// Orders that were carried out and followed, in a second; measured for so long.
///
/// # Errors
/// Where there is one core only, or the system says no.
pub fn per_second(duration: Duration) -> Result<f64, String> {
    let system = |error: std::io::Error| error.to_string();
    let cpus = allowed_cpus().map_err(system)?;
    let [here, there, ..] = cpus[..] else {
        return Err("needs two cores: the allocator's, and the kthreads'".to_owned());
    };
    let board = Board::create(&vec![there; CORES as usize], PROGRAMS * KTHREADS, INTERVAL);
    let board = board.map_err(system)?;
    let class = curtail_shm::Class::LatencyCritical;
    let (guaranteed, burstable) = (CORES / PROGRAMS, CORES);
    let spec = Spec { class, kthreads: KTHREADS, guaranteed, burstable };
    let pages: Vec<Page> =
        (0..PROGRAMS).map(|_| Page::create(&spec)).collect::<Result<_, _>>().map_err(system)?;
    let fd = board.fd().try_clone_to_owned().map_err(system)?;
    let view = BoardView::map(fd).map_err(|error| error.to_string())?;
    let mut daemon = Daemon::new(board, &pages)?;
    let over = AtomicBool::new(false);
    let per_second = std::thread::scope(|scope| {
        let kthreads = Kthreads { view: &view, pages: &pages };
        let over = &over;
        let kthreads = scope.spawn(move || {
            let _ = pin_this_thread(&[there]);
            kthreads.follow(over)
        });
        let _ = pin_this_thread(&[here]);
        let ran_ns = daemon.run(duration);
        over.store(true, Ordering::Relaxed);
        let followed = kthreads.join().map_err(|_| "the kthreads' thread panicked")?;
        Ok(followed as f64 * 1e9 / ran_ns? as f64)
    });
    let _ = pin_this_thread(&cpus);
    per_second
}

struct Kthreads<'a> {
    view: &'a BoardView,
    pages: &'a [Page],
}

impl Kthreads<'_> {
    /// How many grants were taken.
    fn follow(&self, over: &AtomicBool) -> u64 {
        let mut taken = 0;
        let mut seen = vec![Word::FIRST; (PROGRAMS * KTHREADS) as usize];
        let each = || (0..PROGRAMS).flat_map(|at| (0..KTHREADS).map(move |index| (at, index)));
        for (program, index) in each() {
            let page = &self.pages[program as usize];
            // A timer that was due long ago: it always has work.
            page.set_next_timer_ns(index, 1);
            page.set_parked(index, 0);
        }
        while !over.load(Ordering::Relaxed) {
            for (program, index) in each() {
                let slot = Slot(program * KTHREADS + index);
                let word = self.view.word(slot);
                if word == seen[slot.0 as usize] {
                    continue;
                }
                seen[slot.0 as usize] = word;
                let page = &self.pages[program as usize];
                if word.ask() == Ask::Run {
                    page.set_running(index, word.generation());
                    taken += 1;
                    // That timer has been served, and the next is due, too: the same claim again and
                    // again would be granted less and less often.
                    page.set_next_timer_ns(index, 1 + taken);
                }
                page.set_parked(index, word.generation());
            }
        }
        taken
    }
}

/// The core allocator, as `curtaild` drives it, without its sockets.
struct Daemon {
    board: Board,
    allocator: Allocator,
    programs: Vec<(ProgramId, PageView)>,
    looks: Vec<KthreadLook>,
}

impl Daemon {
    fn new(board: Board, pages: &[Page]) -> Result<Self, String> {
        let interval = Nanos(INTERVAL.as_nanos() as u64);
        // What runs on a core looks at its orders.
        let grace = Nanos(PATIENCE.as_nanos() as u64);
        let settings = Settings { interval, grace, idler: true, ..Settings::default() };
        let mut allocator =
            Allocator::new(Machine::of(CORES), settings).map_err(|e| e.to_string())?;
        let mut programs = Vec::new();
        for page in pages {
            let fd = page.fd().try_clone_to_owned().map_err(|error| error.to_string())?;
            let page = PageView::map(fd).map_err(|error| error.to_string())?;
            let Spec { kthreads, guaranteed, burstable, .. } = *page.spec();
            let class = Class::LatencyCritical;
            let program = Program { class, kthreads, guaranteed, burstable };
            let id = allocator
                .add_program(Nanos(monotonic_ns()), program)
                .map_err(|error| error.to_string())?;
            programs.push((id, page));
        }
        Ok(Self { board, allocator, programs, looks: Vec::new() })
    }

    /// For how long it ran, in ns.
    fn run(&mut self, duration: Duration) -> Result<u64, String> {
        let begun_ns = monotonic_ns();
        let end_ns = begun_ns + duration.as_nanos() as u64;
        let mut now_ns = begun_ns;
        while now_ns < end_ns {
            self.turn(now_ns)?;
            now_ns = monotonic_ns();
        }
        Ok(now_ns - begun_ns)
    }

    /// Looks at all pages, as at each interval, and carries out what follows.
    fn turn(&mut self, now_ns: u64) -> Result<(), String> {
        self.board.beat(now_ns);
        for at in 0..self.programs.len() {
            let (id, page) = &self.programs[at];
            self.looks.clear();
            for index in 0..KTHREADS {
                let said = page.look(index).map_err(|lie| lie.to_string())?;
                let word = self.board.word(slot(KthreadId { program: *id, index }));
                let queue = |(head, tail)| Queue { head, tail };
                self.looks.push(KthreadLook {
                    parked: said.is_parked,
                    acknowledged: said.generation == word.generation(),
                    run: queue(said.run),
                    inbox: queue(said.inbox),
                    oldest_ready: said.oldest_ready_ns.map(Nanos),
                    next_timer: said.next_timer_ns.map(Nanos),
                    stranded: said.stranded,
                });
            }
            self.allocator.look(Nanos(now_ns), *id, &self.looks);
        }
        while let Some(order) = self.allocator.poll_order(Nanos(now_ns)) {
            self.carry_out(now_ns, order);
        }
        Ok(())
    }

    fn carry_out(&mut self, now_ns: u64, order: Order) {
        match order {
            Order::Grant { kthread, core, by, .. } => {
                let (heir, core) = (slot(kthread), CoreIndex(core.0));
                self.board.grant(heir, core);
                match by {
                    HandOver::Line => _ = self.board.order(core, heir),
                    HandOver::Kernel => _ = self.board.wake(heir),
                    HandOver::Evict(victim) => {
                        _ = self.board.evict(slot(victim), Some(heir), now_ns + 10_000);
                    }
                }
            }
            Order::Wake { kthread } => _ = self.board.wake(slot(kthread)),
            Order::Revoke { kthread } => _ = self.board.park(slot(kthread)),
            Order::Signal { .. } | Order::MoveToShared { .. } | Order::Place { .. } => {}
        }
    }
}

fn slot(kthread: KthreadId) -> Slot {
    Slot(kthread.program.0 * KTHREADS + kthread.index)
}
