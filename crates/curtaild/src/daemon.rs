//! The loop. One thread owns everything here.
//!
//! While any kthread has a core, it looks at all pages each interval and never sleeps, unless it
//! has to share its core ([`OwnCore`]): then it looks each [`NAP`], and when a packet comes for a program that
//! is wholly parked; sockets and ends of processes are looked at each [`DOOR_NS`].
//!
//! When no kthread has had a core for the linger time, it sleeps until a socket, the end of a
//! process, a packet for a program that passed its poller, or a program's timer wakes it, and looks
//! at all pages each [`DOZE`] besides: a plain thread of a program may have put something into an
//! inbox, which nothing else tells. Without programs it sleeps for good.

use crate::counts::Counts;
use crate::door::{Door, Event};
use crate::idlers::Idlers;
use crate::interfaces::Interfaces;
use crate::log::{Form, Log};
use crate::opener::Ports;
use crate::options::{Idle, Options};
use crate::own_core::{self, OwnCore};
use crate::packets::Companion;
use crate::program::Program;
use crate::register::Guest;
use crate::slots::Slots;
use crate::{Error, system};
use curtail_alloc::{Allocator, CoreId, CoreInfo, KthreadId, Machine, Nanos, Settings};
use curtail_shm::session;
use curtail_shm::{Board, BoardView, kthreads, monotonic_ns};
use std::time::Duration;

pub use crate::door::Stop;

/// From one look at sockets and processes to the next, while programs run.
const DOOR_NS: u64 = 100_000;
/// Time from one look at the pages to the next, while programs run and the daemon may not spin: each
/// sleep costs some 20 µs of its core.
const NAP: Duration = Duration::from_micros(100);
/// From one look at the pages to the next, while all programs are idle.
const DOZE: Duration = Duration::from_millis(1);
/// It is awake so long before a program's timer is due: what waking up takes.
const EARLY_NS: u64 = 60_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The core allocator's process: see the module's head.
pub struct Daemon {
    pub(crate) board: Board,
    pub(crate) allocator: Allocator,
    /// The managed cores, by their place on the board.
    pub(crate) cpus: Vec<u32>,
    /// By core: the kthread that the board shows.
    pub(crate) holders: Vec<Option<KthreadId>>,
    /// Where kthreads go that do not leave a core, and where the daemon runs.
    pub(crate) shared: Vec<u32>,
    pub(crate) door: Door,
    pub(crate) programs: Vec<Program>,
    pub(crate) guests: Vec<Guest>,
    pub(crate) slots: Slots,
    pub(crate) idlers: Option<Idlers>,
    pub(crate) log: Log,
    pub(crate) counts: Counts,
    pub(crate) grace_ns: u64,
    pub(crate) interval_ns: u64,
    pub(crate) started_ns: u64,
    pub(crate) next_serial: u32,
    linger_ns: u64,
    pub(crate) own_core: OwnCore,
    /// When a kthread had a core last, or something happened.
    pub(crate) active_ns: u64,
    door_ns: u64,
    pub(crate) interfaces: Interfaces,
    pub(crate) ports: Ports,
    pub(crate) companion: Option<Companion>,
    is_verbose: bool,
    said_ns: u64,
    said: Counts,
}

impl Daemon {
    /// Listens, and serves nothing yet.
    ///
    /// # Errors
    /// Where a core is not allowed, another daemon listens there, or the system says no.
    pub fn new(options: &Options, stop: Stop) -> Result<Self, Error> {
        let cpus = options.cores.clone().map(|cores| cores.0).unwrap_or_default();
        let allowed = kthreads::allowed_cpus().map_err(system("the allowed cores"))?;
        if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(Error::Usage(format!("core {cpu} is not allowed to this process")));
        }
        let elsewhere: Vec<u32> =
            allowed.iter().copied().filter(|cpu| !cpus.contains(cpu)).collect();
        let shared = if elsewhere.is_empty() { cpus.clone() } else { elsewhere };
        let settings = Settings {
            interval: Nanos(options.interval.as_nanos() as u64),
            grace: Nanos(options.grace.as_nanos() as u64),
            idler: options.idle == Idle::Poll,
            ..Settings::default()
        };
        let machine = Machine { cores: siblings(&cpus) };
        let allocator =
            Allocator::new(machine, settings).map_err(|error| Error::Usage(error.to_string()))?;
        raise_descriptors();
        let board = Board::create(&cpus, options.slots, options.interval)
            .map_err(system("memory for the board"))?;
        let path = options.socket.clone().unwrap_or_else(session::default_path);
        let door = Door::open(&path, stop)?;
        let now_ns = monotonic_ns();
        board.beat(now_ns);
        let form = match (options.quiet, options.json) {
            (true, _) => Form::Nothing,
            (_, true) => Form::Json,
            _ => Form::Lines,
        };
        let mut daemon = Self {
            idlers: idlers(options, &board)?,
            board,
            allocator,
            holders: vec![None; cpus.len()],
            own_core: OwnCore::new(shared != cpus, now_ns),
            cpus,
            ports: Ports::start(shared.clone())?,
            interfaces: options.interfaces.clone().unwrap_or_default(),
            shared,
            door,
            programs: Vec::new(),
            guests: Vec::new(),
            slots: Slots::new(options.slots),
            log: Log::new(form).map_err(system("a thread for the log"))?,
            counts: Counts::default(),
            grace_ns: settings.grace.0,
            interval_ns: settings.interval.0,
            started_ns: now_ns,
            next_serial: 1,
            linger_ns: options.linger.as_nanos() as u64,
            active_ns: now_ns,
            door_ns: now_ns,
            companion: None,
            is_verbose: options.verbose,
            said_ns: now_ns,
            said: Counts::default(),
        };
        let text = format!("manages cores {:?}, listens at {}", daemon.cpus, path.display());
        daemon.log.say(now_ns, "started", &text);
        Ok(daemon)
    }

    /// Serves until it is stopped, on the calling thread, which is bound to cores that are not
    /// managed, where there are any.
    ///
    /// # Errors
    /// What the system says.
    pub fn run(mut self) -> Result<(), Error> {
        kthreads::pin_this_thread(&self.shared).map_err(system("the daemon's cores"))?;
        // Sleeps end when they are to.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        loop {
            let now_ns = monotonic_ns();
            self.decide(now_ns);
            // While a port is opened, that is what runs there.
            if !self.ports.is_busy() && self.own_core.ask(now_ns) {
                self.log.say(now_ns, "crowded", &own_core::message());
            }
            let mut pause = self.pause(now_ns);
            let serves = pause == Some(Duration::ZERO);
            if serves {
                pause = Some(self.nap(now_ns));
            }
            if pause != Some(Duration::ZERO) && !self.ports_may_wait() {
                pause = Some(Duration::ZERO);
            }
            if pause != Some(Duration::ZERO) {
                self.counts.sleeps += 1;
            } else if now_ns < self.door_ns && !self.programs.iter().any(|it| it.is_armed) {
                self.spin(now_ns);
                continue;
            }
            if let Some(idlers) = &self.idlers {
                idlers.set(serves && self.is_for_idlers());
            }
            if !self.hear(now_ns, pause)? {
                return Ok(());
            }
            self.spin(now_ns);
        }
    }

    /// Does what is due, for a thread that calls it again and again and does something else between:
    /// [`Daemon::run`] without the sleeps. False: it was stopped.
    ///
    /// # Errors
    /// What the system says.
    pub fn turn(&mut self) -> Result<bool, Error> {
        let now_ns = monotonic_ns();
        self.decide(now_ns);
        self.carry_packets(now_ns);
        if now_ns < self.door_ns { Ok(true) } else { self.hear(now_ns, Some(Duration::ZERO)) }
    }

    /// Looks at all pages where that is due, and carries out what follows.
    fn decide(&mut self, now_ns: u64) {
        self.board.beat(now_ns);
        if self.allocator.next_wakeup(Nanos(now_ns)).is_some_and(|at| at.0 <= now_ns) {
            self.look(now_ns);
            self.carry_out_all(now_ns);
        }
        self.show_holders();
        self.tell(now_ns);
    }

    /// Deals with what sockets and processes say, for which it waits so long; false: it was stopped.
    fn hear(&mut self, now_ns: u64, pause: Option<Duration>) -> Result<bool, Error> {
        self.door_ns = now_ns + DOOR_NS;
        for event in self.door.wait(pause).map_err(system("epoll"))? {
            if event == Event::Stop {
                self.end();
                return Ok(false);
            }
            self.handle(monotonic_ns(), event);
        }
        self.take_opened(now_ns);
        // Out of descriptors before; there may be some now.
        self.door.reopen().map_err(system("epoll"))?;
        Ok(true)
    }

    /// Reads all pages.
    fn look(&mut self, now_ns: u64) {
        self.counts.looks += 1;
        for at in 0..self.programs.len() {
            let program = &mut self.programs[at];
            if program.is_batch() {
                continue;
            }
            let outcome = program.look(&self.board);
            Self::bind_late(program, &self.cpus, &self.shared);
            self.allocator.look(Nanos(now_ns), program.id, &program.looks);
            let is_parked = self.allocator.is_wholly_parked(program.id);
            if !is_parked {
                self.active_ns = now_ns;
            }
            self.watch_packets(at, is_parked);
            if let Err(lie) = outcome {
                self.demote(now_ns, at, &lie.to_string());
            }
        }
    }

    /// The pollers of a program are watched while all its kthreads are parked.
    fn watch_packets(&mut self, at: usize, is_parked: bool) {
        let program = &mut self.programs[at];
        if program.is_armed != is_parked {
            for poller in program.pollers.iter().flatten() {
                let event = Event::Packets(program.serial);
                program.is_armed = self.door.arm(poller, event, is_parked).is_ok() && is_parked;
            }
        }
    }

    /// How long to sleep; zero: not at all, `None`: until something happens.
    fn pause(&self, now_ns: u64) -> Option<Duration> {
        let looks = self.programs.iter().flat_map(|program| &program.looks);
        let timers = looks.filter_map(|look| look.next_timer);
        let timer = timers.map(|at| at.0).filter(|&at| at > now_ns).min();
        let quiet = now_ns.saturating_sub(self.active_ns) >= self.linger_ns;
        if self.programs.iter().all(|it| it.kthreads.is_empty()) {
            // What is shut is tried again.
            return (self.door.is_shut() || self.ports.is_busy()).then_some(DOZE);
        }
        if !quiet || self.companion.is_some() || self.asks_always() {
            return Some(Duration::ZERO);
        }
        let due = timer.map_or(DOZE, |at| {
            Duration::from_nanos(at.saturating_sub(now_ns).saturating_sub(EARLY_NS))
        });
        Some(due.min(DOZE))
    }

    /// The time to sleep while programs are served: none, where it may spin or carries packets.
    fn nap(&self, now_ns: u64) -> Duration {
        if self.own_core.spins() || self.companion.is_some() || self.asks_always() {
            return Duration::ZERO;
        }
        let next = self.allocator.next_wakeup(Nanos(now_ns)).map_or(0, |at| at.0);
        // Programs take a daemon that shows no life for longer as gone.
        NAP.max(Duration::from_nanos(next.saturating_sub(now_ns))).min(DOZE)
    }

    /// Until the next look is due; packets are carried meanwhile.
    fn spin(&mut self, now_ns: u64) {
        let next = self.allocator.next_wakeup(Nanos(now_ns)).map_or(now_ns, |at| at.0);
        let until = next.min(now_ns + self.interval_ns).min(self.door_ns);
        loop {
            let carried = self.carry_packets(now_ns);
            let left_ns = until.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return;
            }
            if !carried && self.own_core.spins() {
                std::hint::spin_loop();
            } else if !carried {
                std::thread::sleep(Duration::from_nanos(left_ns));
            }
        }
    }

    /// Idle cores are kept awake while a program is served, and no batch thread could run there.
    fn is_for_idlers(&self) -> bool {
        !self.programs.is_empty() && !self.programs.iter().any(Program::is_batch)
    }

    fn handle(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Stop => {}
            Event::Knock => self.admit(now_ns),
            Event::Speaks(serial) => self.listen(now_ns, serial),
            Event::Died(serial) => self.bury(now_ns, serial),
            Event::Packets(serial) => {
                let Some(at) = self.programs.iter().position(|it| it.serial == serial) else {
                    return;
                };
                let program = &mut self.programs[at];
                program.is_armed = false;
                self.counts.packets += 1;
                self.active_ns = now_ns;
                self.allocator.packets_waiting(Nanos(now_ns), program.id);
            }
        }
    }

    /// Something happened: it does not sleep for the linger time.
    pub(crate) fn stay_awake(&mut self, now_ns: u64) {
        self.active_ns = now_ns;
    }

    /// With `--verbose`: each second what was granted, if anything was.
    fn tell(&mut self, now_ns: u64) {
        if !self.is_verbose || now_ns.saturating_sub(self.said_ns) < SECOND_NS {
            return;
        }
        self.said_ns = now_ns;
        if self.counts.grants() != self.said.grants() {
            self.log.say(now_ns, "counts", &self.counts.to_line());
        }
        self.said = self.counts.clone();
    }

    fn end(&mut self) {
        let text = format!("ends; {}", self.counts.to_line());
        self.log.say(monotonic_ns(), "ended", &text);
    }
}

fn idlers(options: &Options, board: &Board) -> Result<Option<Idlers>, Error> {
    if options.idle == Idle::Halt {
        return Ok(None);
    }
    let fd = board.fd().try_clone_to_owned().map_err(system("the board"))?;
    let view = BoardView::map(fd).map_err(system_map)?;
    Idlers::start(view).map(Some).map_err(system("a thread for an idle core"))
}

fn system_map(error: curtail_shm::MapError) -> Error {
    Error::System { what: "the board", error: std::io::Error::other(error) }
}

/// Each program takes four descriptors.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // With the old limit fewer programs can be served.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Which of the cores are hyper-threads of one physical core. What the kernel does not say is taken
/// for none.
fn siblings(cpus: &[u32]) -> Vec<CoreInfo> {
    let first_thread = |cpu: u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().split([',', '-']).next()?.parse::<u32>().ok()
    };
    let firsts: Vec<Option<u32>> = cpus.iter().map(|&cpu| first_thread(cpu)).collect();
    let sibling = |core: usize| {
        let first = firsts[core]?;
        let mut same = (0..cpus.len()).filter(|&other| firsts[other] == Some(first));
        // Of more than two threads pairs are made.
        let at = same.clone().position(|other| other == core)?;
        same.nth(at ^ 1).map(|other| CoreId(other as u32))
    };
    (0..cpus.len()).map(|core| CoreInfo { sibling: sibling(core) }).collect()
}
