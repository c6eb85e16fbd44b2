//! A program that is served, as the daemon knows it.

use crate::port::Port;
use curtail_alloc::{KthreadLook, Nanos, ProgramId, Queue};
use curtail_shm::session::Session;
use curtail_shm::{
    Ask, Board, CoreIndex, DaemonEnd, Look, MapError, PageView, PollWords, Slot, kthreads,
};
use rustix::fd::OwnedFd;
use rustix::process::Pid;
use std::sync::Arc;

/// Where a kthread is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where it was when it came.
    Own,
    /// The core that it was granted last.
    Core(CoreIndex),
    /// Where those go that do not leave a core.
    Shared,
}

/// One kthread of a program.
#[derive(Clone, Debug)]
pub(crate) struct Kthread {
    /// What it said last that it is; checked where it is not 0.
    pub(crate) tid: u32,
    /// How often it said something new.
    changes: u32,
    /// Where it is to be, and where it is.
    pub(crate) wanted: Place,
    pub(crate) bound: Place,
    /// When it was granted a core last.
    pub(crate) granted_ns: u64,
}

/// A kthread says once what its number is; after a fork or so once more.
const MOST_CHANGES: u32 = 16;

/// What can't be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lie {
    #[error(transparent)]
    State(#[from] curtail_shm::Lie),
    #[error("kthread {kthread} says that it is thread {tid}, which is none of the process")]
    Thread { kthread: usize, tid: u32 },
    #[error("kthreads {kthread} and {other} say that they are the same thread, {tid}")]
    Twice { kthread: usize, other: usize, tid: u32 },
    #[error("kthread {kthread} says again and again that it is another thread")]
    Changes { kthread: usize },
}

pub(crate) struct Program {
    /// The number of its session, never used again.
    pub(crate) serial: u32,
    pub(crate) id: ProgramId,
    pub(crate) name: String,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    pub(crate) session: Session,
    pub(crate) page: PageView,
    /// Readable when packets have come: what the program passed, and its port's.
    pub(crate) pollers: [Option<OwnedFd>; 2],
    pub(crate) port: Option<Port>,
    /// The rings of a port that is being opened.
    pub(crate) opening: Option<(Vec<DaemonEnd>, Arc<()>)>,
    /// What its kthreads' safepoints poll, where the program has passed that.
    pub(crate) poll_words: Option<PollWords>,
    /// The pollers are watched.
    pub(crate) is_armed: bool,
    pub(crate) first: Slot,
    pub(crate) kthreads: Vec<Kthread>,
    /// What they said last.
    pub(crate) looks: Vec<KthreadLook>,
    pub(crate) is_demoted: bool,
    /// Messages it has sent.
    pub(crate) messages: u32,
    pub(crate) grants: u64,
    pub(crate) evictions: u64,
    pub(crate) moves: u64,
}

impl Program {
    pub(crate) fn is_batch(&self) -> bool {
        matches!(self.page.spec().class, curtail_shm::Class::Batch { .. })
    }

    pub(crate) fn new_kthreads(count: u32) -> Vec<Kthread> {
        let (wanted, bound) = (Place::Own, Place::Own);
        let new = Kthread { tid: 0, changes: 0, wanted, bound, granted_ns: 0 };
        vec![new; count as usize]
    }

    pub(crate) fn slot(&self, index: u32) -> Slot {
        Slot(self.first.0 + index)
    }

    /// For people.
    pub(crate) fn label(&self) -> String {
        format!("`{}` (process {})", self.name, self.pid.as_raw_nonzero())
    }

    /// What its kthreads' safepoints poll.
    pub(crate) fn set_poll_words(&mut self, pages: OwnedFd) -> Result<(), MapError> {
        self.poll_words = Some(PollWords::map(pages, self.kthreads.len() as u32)?);
        Ok(())
    }

    /// Has what runs on a kthread look at its word, if its safepoints can be reached; true: they can.
    pub(crate) fn raise(&self, kthread: u32) -> bool {
        self.poll_words.as_ref().is_some_and(|words| words.raise(kthread))
    }

    /// Reads the page. What is said by a kthread that lies stays as it was.
    pub(crate) fn look(&mut self, board: &Board) -> Result<(), Lie> {
        let mut outcome = Ok(());
        for index in 0..self.kthreads.len() {
            if let Err(lie) = self.look_at(board, index) {
                outcome = Err(lie);
            }
        }
        if let Some(port) = &mut self.port {
            port.add_to(&mut self.looks);
        }
        outcome
    }

    fn look_at(&mut self, board: &Board, index: usize) -> Result<(), Lie> {
        let said = self.page.look(index as u32)?;
        self.check_thread(index, said.tid)?;
        let word = board.word(self.slot(index as u32));
        let acknowledged = said.generation == word.generation();
        // What waits for a kthread that is not there yet waits for it to say what thread it is.
        self.looks[index] = match said.tid {
            0 => KthreadLook { acknowledged, ..KthreadLook::IDLE },
            _ => translate(&said, acknowledged),
        };
        if let Some(port) = &mut self.port {
            let leaves = said.is_parked && acknowledged;
            port.set_runs(index, word.ask() == Ask::Run && !leaves);
        }
        Ok(())
    }

    fn check_thread(&mut self, kthread: usize, tid: u32) -> Result<(), Lie> {
        let known = &mut self.kthreads[kthread];
        if known.tid == tid {
            return Ok(());
        }
        if known.changes >= MOST_CHANGES {
            return Err(Lie::Changes { kthread });
        }
        known.changes += 1;
        if !kthreads::is_thread_of(self.pid, tid) {
            return Err(Lie::Thread { kthread, tid });
        }
        if let Some(other) = self.kthreads.iter().position(|other| other.tid == tid) {
            return Err(Lie::Twice { kthread, other, tid });
        }
        // A new thread is bound nowhere yet.
        let known = &mut self.kthreads[kthread];
        (known.tid, known.bound) = (tid, Place::Own);
        Ok(())
    }
}

fn translate(said: &Look, acknowledged: bool) -> KthreadLook {
    let queue = |(head, tail)| Queue { head, tail };
    // Its inbox holds threads that have started there: no reason for a core for another one.
    let inbox = queue(said.inbox);
    KthreadLook {
        parked: said.is_parked,
        acknowledged,
        run: queue(said.run),
        inbox,
        oldest_ready: said.oldest_ready_ns.map(Nanos),
        next_timer: said.next_timer_ns.map(Nanos),
        stranded: said.stranded.saturating_add(inbox.len()),
    }
}
