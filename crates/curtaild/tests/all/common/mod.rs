//! A daemon, and programs that speak its protocol by hand.
#![allow(dead_code, reason = "each test uses a part")]

use curtail_shm::session::{Session, SessionError};
use curtail_shm::{Ask, BoardView, Class, Page, Slot, Spec, kthreads};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait for what is to happen at once; so long only if something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "after {PATIENCE:?} still not: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The core that is managed: the last one allowed.
pub(crate) fn managed() -> u32 {
    *kthreads::allowed_cpus().unwrap().last().unwrap()
}

/// A path for a socket, which exists only while the daemon does.
pub(crate) fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("curtaild-{name}-{}.sock", std::process::id()))
}

/// Tests of one program take turns: there is one managed core.
static TURN: Mutex<()> = Mutex::new(());

/// A daemon's process; killed at the end, if it lives.
pub(crate) struct Daemon {
    _turn: MutexGuard<'static, ()>,
    pub(crate) child: Child,
    pub(crate) path: PathBuf,
}

impl Daemon {
    pub(crate) fn start(name: &str, more: &[&str]) -> Self {
        let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let path = socket(name);
        let child = Self::spawn(&path, more, Stdio::piped());
        let daemon = Self { _turn: turn, child, path };
        until("the daemon listens", || Session::status(&daemon.path).is_ok());
        daemon
    }

    fn spawn(path: &Path, more: &[&str], output: Stdio) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_curtaild"));
        if !more.contains(&"--cores") {
            command.args(["--cores", &managed().to_string()]);
        }
        command.args(["--json", "--socket"]).arg(path).args(more).stdout(output).spawn().unwrap()
    }

    /// After it was killed.
    pub(crate) fn again(&mut self, output: Stdio) {
        self.child = Self::spawn(&self.path, &[], output);
        until("the daemon listens again", || Session::status(&self.path).is_ok());
    }

    /// After it was killed, with so few of them.
    pub(crate) fn again_with_descriptors(&mut self, most: u32) {
        self.child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {most}; exec \"$@\""), "sh"])
            .args([env!("CARGO_BIN_EXE_curtaild"), "--cores", &managed().to_string(), "--socket"])
            .arg(&self.path)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("the daemon listens again", || Session::status(&self.path).is_ok());
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        serde_json::from_str(&Session::status(&self.path).unwrap()).unwrap()
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.status()["counts"][name].as_u64().unwrap()
    }

    /// SIGTERM; what it has printed.
    pub(crate) fn end(mut self) -> Vec<String> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let lines = BufReader::new(self.child.stdout.take().unwrap()).lines();
        let lines = lines.map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success());
        assert!(!self.path.exists(), "the socket is gone");
        lines
    }

    /// What processes it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a kthread of a test does when it has a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes everything out of its inbox, and parks.
    Works,
    /// Keeps its core until it is evicted, and wants it back then.
    Hogs,
    /// Keeps its core whatever its word says.
    Ignores,
}

pub(crate) struct Shared {
    pub(crate) page: Page,
    pub(crate) view: BoardView,
    pub(crate) first: Slot,
    pub(crate) manner: Manner,
    /// What each has taken out of its inbox.
    pub(crate) done: Vec<AtomicU64>,
    /// Where each was when it had a core last.
    pub(crate) cpu: Vec<AtomicU32>,
    pub(crate) evicted: AtomicU64,
    /// How often each had a core.
    pub(crate) runs: Vec<AtomicU64>,
    stop: AtomicBool,
}

/// A program in this process; each kthread is a thread.
pub(crate) struct Player {
    pub(crate) shared: Arc<Shared>,
    pub(crate) session: Option<Session>,
    threads: Vec<JoinHandle<()>>,
}

pub(crate) fn critical(kthreads: u32, guaranteed: u32, burstable: u32) -> Spec {
    Spec { class: Class::LatencyCritical, kthreads, guaranteed, burstable }
}

impl Player {
    pub(crate) fn join(path: &Path, name: &str, spec: Spec, manner: Manner) -> Self {
        Self::try_join(path, name, spec, manner).unwrap()
    }

    pub(crate) fn try_join(
        path: &Path,
        name: &str,
        spec: Spec,
        manner: Manner,
    ) -> Result<Self, SessionError> {
        let page = Page::create(&spec).unwrap();
        let (session, welcome) = Session::connect(path, name, page.fd())?;
        let shared = Arc::new(Shared {
            page,
            view: BoardView::map(welcome.board).unwrap(),
            first: welcome.first_slot,
            manner,
            done: (0..spec.kthreads).map(|_| AtomicU64::new(0)).collect(),
            cpu: (0..spec.kthreads).map(|_| AtomicU32::new(u32::MAX)).collect(),
            evicted: AtomicU64::new(0),
            runs: (0..spec.kthreads).map(|_| AtomicU64::new(0)).collect(),
            stop: AtomicBool::new(false),
        });
        let threads = (0..spec.kthreads).map(|index| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.kthread(index))
        });
        Ok(Self { threads: threads.collect(), shared, session: Some(session) })
    }

    /// One more thing for a kthread to do.
    pub(crate) fn give(&self, kthread: u32) {
        self.shared.page.add_to_inbox(kthread);
    }

    pub(crate) fn done(&self, kthread: u32) -> u64 {
        self.shared.done[kthread as usize].load(Ordering::Acquire)
    }

    pub(crate) fn runs(&self, kthread: u32) -> u64 {
        self.shared.runs[kthread as usize].load(Ordering::Acquire)
    }

    pub(crate) fn cpu(&self, kthread: u32) -> u32 {
        self.shared.cpu[kthread as usize].load(Ordering::Acquire)
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.session = None;
        self.shared.stop.store(true, Ordering::Release);
        for index in 0..self.threads.len() as u32 {
            self.shared.view.wake(Slot(self.shared.first.0 + index));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn kthread(&self, index: u32) {
        let slot = Slot(self.first.0 + index);
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        self.page.set_tid(index, tid);
        let mut parked_at = u32::MAX;
        while !self.stops() {
            let word = self.view.word(slot);
            let generation = word.generation();
            if word.ask() == Ask::Run && parked_at != generation {
                self.page.set_running(index, generation);
                let cpu = rustix::thread::sched_getcpu() as u32;
                self.cpu[index as usize].store(cpu, Ordering::Release);
                self.runs[index as usize].fetch_add(1, Ordering::Release);
                self.run(index, slot, generation);
                // It parks as an answer to the word that it sees now.
                parked_at = self.park(index, slot);
            } else {
                if parked_at != generation {
                    parked_at = self.park(index, slot);
                }
                self.view.sleep(slot, word, Some(Duration::from_millis(50)));
            }
        }
    }

    /// The generation of the word that was answered.
    fn park(&self, index: u32, slot: Slot) -> u32 {
        let word = self.view.word(slot);
        self.page.set_parked(index, word.generation());
        if word.ask() == Ask::Evict {
            self.evicted.fetch_add(1, Ordering::Release);
            if let Some(heir) = self.view.heir(slot) {
                self.view.wake(heir);
            }
        }
        word.generation()
    }

    fn run(&self, index: u32, slot: Slot, generation: u32) {
        let done = &self.done[index as usize];
        loop {
            let word = self.view.word(slot);
            let is_asked = word.generation() != generation || word.ask() != Ask::Run;
            if self.stops() || is_asked && self.manner != Manner::Ignores {
                return;
            }
            let taken = done.load(Ordering::Relaxed);
            if self.page.inbox_tail(index) != taken as u32 {
                if self.manner == Manner::Works {
                    self.page.set_inbox_head(index, taken as u32 + 1);
                }
                done.store(taken + 1, Ordering::Release);
            } else if self.manner == Manner::Works {
                return;
            }
            std::hint::spin_loop();
        }
    }
}
