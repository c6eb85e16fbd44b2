//! How long it takes until a core that another program has runs a kthread.
//!
//! Three processes. This one orders, on a core of its own, as the daemon does. On the other core,
//! one holds the core, and one is the heir: a kthread that sleeps on its word. A round: the heir
//! sleeps and the holder has run for a while; the time is read, the order is given; the heir's first
//! instruction reads the time again, on the same clock.

use crate::figures::Quantiles;
use crate::looks::{self, Cost, HEARTBEAT_NS};
use crate::role::Role;
use curtail_shm::kthreads::{allowed_cpus, ask_by_signal, pin_this_thread};
use curtail_shm::session::{Listener, Request, Session};
use curtail_shm::{Board, CoreIndex, PageView, PollWords, Slot, monotonic_ns};
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A process or an answer that takes longer than this will not come.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so long the kernel is asked, as the daemon does: the holder has no core itself.
const GRACE: Duration = Duration::from_millis(5);
const HEIR: Slot = Slot(0);
const HOLDER: Slot = Slot(1);
/// The place of the core that changes hands among those of the board.
const CORE: CoreIndex = CoreIndex(1);

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Hand-overs of each way.
    pub rounds: usize,
    /// How often batch work with safepoints looks.
    pub looks: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 20_000, looks: Duration::from_micros(2) }
    }
}

/// See [`crate::Colocate`].
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in `Colocate`")]
pub struct Measured {
    pub handover_us: BTreeMap<String, Quantiles>,
    pub asker_ns: BTreeMap<String, Quantiles>,
    pub evict_cost: BTreeMap<String, Cost>,
    pub stores_per_s: f64,
    pub looks_ns: u64,
    pub rounds: usize,
}

/// A way to hand a core over.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// Who has the core; `None`: nothing runs there.
    holder: Option<Role>,
    by: By,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The holder is ordered to wake the heir: a store.
    Store,
    /// The heir is woken by this process, and the kernel does the rest.
    Wake,
    /// The holder is interrupted by a signal, wakes the heir and parks.
    Signal,
    /// The holder looks at its word by itself, without a signal, wakes the heir and parks.
    Word,
    /// The holder looks at its word since what its safepoints poll is raised, wakes the heir and
    /// parks.
    Page,
}

impl By {
    /// The holder is a kthread, which was granted the core.
    fn evicts(self) -> bool {
        matches!(self, Self::Signal | Self::Word | Self::Page)
    }
}

/// Measures all ways. `itself` is this program.
///
/// # Errors
/// Where there is one core only, or a process fails.
pub fn measure(itself: &Path, options: &Options) -> Result<Measured, String> {
    let cpus = allowed_cpus().map_err(|error| error.to_string())?;
    let [here, there, ..] = cpus[..] else {
        return Err("needs two cores: one orders, the other changes hands".to_owned());
    };
    pin_this_thread(&[here]).map_err(|error| format!("core {here}: {error}"))?;
    let looks_ns = options.looks.as_nanos() as u64;
    let ways = [
        Way { name: "flag", holder: Some(Role::Looks(looks_ns)), by: By::Store },
        Way { name: "sched_idle", holder: Some(Role::Spins), by: By::Wake },
        Way { name: "tgkill", holder: Some(Role::Parks), by: By::Signal },
        Way { name: "evict_page", holder: Some(Role::Polled), by: By::Page },
        Way { name: "evict_pointer", holder: Some(Role::Beats(HEARTBEAT_NS)), by: By::Word },
        Way { name: "idle_core", holder: None, by: By::Wake },
        Way { name: "idle_core_polled", holder: Some(Role::Looks(0)), by: By::Store },
    ];
    let rounds = options.rounds;
    let mut measured = Measured {
        handover_us: BTreeMap::new(),
        asker_ns: BTreeMap::new(),
        evict_cost: looks::costs().map_err(|error| error.to_string())?,
        stores_per_s: stores_per_s(here)?,
        looks_ns,
        rounds,
    };
    for way in ways {
        let found = Stage::set(itself, way, [here, there]).and_then(|stage| stage.play(rounds));
        let (mut late, mut cost) = found.map_err(|error| format!("{}: {error}", way.name))?;
        measured.handover_us.insert(way.name.to_owned(), Quantiles::of(&mut late, 1_000.0));
        measured.asker_ns.insert(way.name.to_owned(), Quantiles::of(&mut cost, 1.0));
    }
    let _ = pin_this_thread(&cpus);
    Ok(measured)
}

/// For people.
#[must_use]
pub fn table(measured: &Measured) -> String {
    let mut text = format!(
        "a core changes hands between processes ({} rounds; batch looks every {} ns)\n\n\
         {:<18}{:>9}{:>9}{:>9}{:>12}\n",
        measured.rounds, measured.looks_ns, "way", "p50 µs", "p99 µs", "p99.9 µs", "asker ns"
    );
    for (name, found) in &measured.handover_us {
        let asker = measured.asker_ns[name].p50;
        let Quantiles { p50, p99, p99_9 } = *found;
        let _ = writeln!(text, "{name:<18}{p50:>9.2}{p99:>9.2}{p99_9:>9.2}{asker:>12.0}");
    }
    text += "\na kthread that computes looks whether it is evicted\n\n";
    for (name, cost) in &measured.evict_cost {
        let Cost { look_ns, share, step_ns } = *cost;
        let share = share * 100.0;
        let _ = writeln!(
            text,
            "by its {name:<8} {look_ns:>6.2} ns a look: {share:.1}% of a loop of {step_ns:.1} ns"
        );
    }
    let _ = writeln!(
        text,
        "\norders that one thread writes in a second: {:.1} M",
        measured.stores_per_s / 1e6
    );
    text
}

/// Grants and orders, one after the other, which is all that an order by a store is.
fn stores_per_s(cpu: u32) -> Result<f64, String> {
    const ORDERS: u64 = 1_000_000;
    let board = Board::create(&[cpu, cpu], 2, Duration::from_micros(5));
    let board = board.map_err(|error| error.to_string())?;
    let begun = monotonic_ns();
    for _ in 0..ORDERS {
        board.grant(HEIR, CORE);
        board.order(CORE, HEIR);
    }
    Ok(ORDERS as f64 * 1e9 / (monotonic_ns() - begun) as f64)
}

/// A process of a role, ended with this.
struct Actor {
    child: Child,
    page: PageView,
    /// What it polls, if it does.
    poll_words: Option<PollWords>,
    _session: Session,
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Actor {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// The processes of one way.
struct Stage {
    board: Board,
    way: Way,
    heir: Actor,
    holder: Option<Actor>,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn set(itself: &Path, way: Way, cpus: [u32; 2]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let socket = folder.path().join("socket");
        let listener = Listener::bind(&socket).map_err(|error| error.to_string())?;
        let board = Board::create(&cpus, 2, Duration::from_micros(5));
        let board = board.map_err(|error| error.to_string())?;
        let start = |role: Role, slot: Slot| -> Result<Actor, String> {
            let mut command = Command::new(itself);
            command.arg("role").args(role.arguments()).arg(cpus[1].to_string()).arg(&socket);
            let mut child = command.stdin(Stdio::null()).spawn().map_err(|e| e.to_string())?;
            let met = meet(&listener, &board, slot, &mut child).and_then(|(page, session)| {
                let polls = role == Role::Polled;
                let poll_words = polls.then(|| poll_words(&session)).transpose()?;
                Ok((page, poll_words, session))
            });
            match met {
                Ok((page, poll_words, session)) => {
                    Ok(Actor { child, page, poll_words, _session: session })
                }
                Err(error) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    Err(error)
                }
            }
        };
        let heir = start(Role::Heir, HEIR)?;
        let holder = way.holder.map(|role| start(role, HOLDER)).transpose()?;
        Ok(Self { board, way, heir, holder, _folder: folder })
    }

    /// How late the heir was, and what it cost to order, in ns, for each round.
    fn play(&self, rounds: usize) -> Result<(Vec<u64>, Vec<u64>), String> {
        let (mut late, mut cost) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
        // A hundred to warm up.
        for round in 0..rounds + 100 {
            let (one_late, one_cost) = self.hand_over(round as u64)?;
            if round >= 100 {
                late.push(one_late);
                cost.push(one_cost);
            }
        }
        Ok((late, cost))
    }

    fn hand_over(&self, round: u64) -> Result<(u64, u64), String> {
        let mut tid = 0;
        if self.way.by.evicts() {
            let holder = self.holder.as_ref().expect("who is interrupted");
            let word = self.board.grant(HOLDER, CORE);
            self.board.wake(HOLDER);
            let runs = |page: &PageView| {
                let look = page.look(0).map_err(|lie| lie.to_string())?;
                tid = look.tid;
                Ok(!look.is_parked && look.generation == word.generation())
            };
            until(&holder.page, runs, || _ = self.board.wake(HOLDER))?;
        }
        // The heir has fallen asleep, and the holder is in its stride; not in step with its looks.
        let pause_ns = 15_000 + (round * 7_919) % 5_000;
        let begin = monotonic_ns();
        while monotonic_ns() - begin < pause_ns {
            std::hint::spin_loop();
        }
        let asked = monotonic_ns();
        let word = self.board.grant(HEIR, CORE);
        match self.way.by {
            By::Store => _ = self.board.order(CORE, HEIR),
            By::Wake => _ = self.board.wake(HEIR),
            By::Signal | By::Word | By::Page => {
                self.board.evict(HOLDER, Some(HEIR), 0);
                let holder = self.holder.as_ref().expect("who is interrupted");
                if self.way.by == By::Signal {
                    ask_by_signal(holder.pid(), tid).map_err(|error| error.to_string())?;
                } else if let Some(words) = &holder.poll_words {
                    words.raise(0);
                }
            }
        }
        let done = monotonic_ns();
        let mut ran = 0;
        let has_run = |page: &PageView| {
            let look = page.look(0).map_err(|lie| lie.to_string())?;
            ran = look.oldest_ready_ns.unwrap_or(0);
            Ok(look.is_parked && look.generation == word.generation())
        };
        until(&self.heir.page, has_run, || _ = self.board.wake(HEIR))?;
        Ok((ran.saturating_sub(asked), done - asked))
    }
}

/// Waits, without giving the core away, until the page says so. `late` is called where that takes
/// long.
fn until(
    page: &PageView,
    mut says: impl FnMut(&PageView) -> Result<bool, String>,
    late: impl Fn(),
) -> Result<(), String> {
    let begun = Instant::now();
    let mut patience = GRACE;
    while !says(page)? {
        for _ in 0..8 {
            std::hint::spin_loop();
        }
        let waited = begun.elapsed();
        if waited > PATIENCE {
            return Err("a process does not answer".to_owned());
        }
        if waited > patience {
            patience += GRACE;
            late();
        }
    }
    Ok(())
}

/// What the process polls, which it passes next.
fn poll_words(session: &Session) -> Result<PollWords, String> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match session.next_request().map_err(|error| error.to_string())? {
            Some(Request::PollPages(pages)) => {
                return PollWords::map(pages, 1).map_err(|error| error.to_string());
            }
            Some(_) => return Err("a process passes something else than its poll word".to_owned()),
            None => std::thread::yield_now(),
        }
    }
    Err("a process does not pass its poll word".to_owned())
}

/// Takes the process that was just started.
fn meet(
    listener: &Listener,
    board: &Board,
    slot: Slot,
    child: &mut Child,
) -> Result<(PageView, Session), String> {
    let begun = Instant::now();
    let mut session = None;
    loop {
        if session.is_none() {
            session = listener.accept().map_err(|error| error.to_string())?;
        }
        let request = session.as_ref().map(Session::next_request).transpose();
        if let Some(Some(Request::Hello { page, .. })) = request.map_err(|e| e.to_string())? {
            let session = session.take().expect("who spoke");
            let page = PageView::map(page).map_err(|error| error.to_string())?;
            session.welcome(board.fd(), slot, 1).map_err(|error| error.to_string())?;
            return Ok((page, session));
        }
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Err(format!("a process ended: {status}"));
        }
        if begun.elapsed() > PATIENCE {
            return Err("a process does not register".to_owned());
        }
        std::thread::yield_now();
    }
}
