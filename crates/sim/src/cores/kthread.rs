//! A kthread: what it has in its queues, and what it does.

use curtail_alloc::{KthreadLook, Nanos, Queue};
use curtail_policy::Load;
use std::collections::VecDeque;

/// A request that is in the system.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread {
    pub(super) arrived: u64,
    pub(super) service: u64,
    pub(super) left: u64,
    /// Since when it is ready.
    pub(super) since: u64,
    pub(super) started: bool,
}

/// What it does, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It sleeps.
    Parked,
    /// It is granted a core that its victim has to leave first.
    Waiting,
    /// It is on its way.
    Coming {
        at: u64,
    },
    Serving {
        until: u64,
    },
    /// `None`: it never parks.
    Searching {
        until: Option<u64>,
    },
    Parking {
        until: u64,
    },
}

#[derive(Debug)]
pub(super) struct Kthread {
    pub(super) doing: Doing,
    /// It is to stop by then, for an heir.
    pub(super) stop: Option<u64>,
    /// The thread that runs.
    pub(super) current: Option<Thread>,
    pub(super) run: VecDeque<Thread>,
    pub(super) inbox: VecDeque<Thread>,
    /// Threads in `run` that have started.
    started: u32,
    /// What was taken out of each so far.
    run_head: u32,
    inbox_head: u32,
    /// It has seen its word.
    pub(super) acknowledged: bool,
    /// What it takes to bind it to the core that it is granted.
    pub(super) bind: u64,
    /// Since when it has its core.
    pub(super) since: u64,
}

impl Kthread {
    pub(super) fn new() -> Self {
        Self {
            doing: Doing::Parked,
            stop: None,
            current: None,
            run: VecDeque::new(),
            inbox: VecDeque::new(),
            started: 0,
            run_head: 0,
            inbox_head: 0,
            acknowledged: true,
            bind: 0,
            since: 0,
        }
    }

    /// It runs on a core, or is about to leave it.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.doing, Doing::Serving { .. } | Doing::Searching { .. })
    }

    pub(super) fn push(&mut self, thread: Thread) {
        self.started += u32::from(thread.started);
        self.run.push_back(thread);
    }

    /// A thread whose kthread loses its core goes on first.
    pub(super) fn push_first(&mut self, thread: Thread) {
        self.started += u32::from(thread.started);
        // As if it had never been taken out.
        self.run_head = self.run_head.wrapping_sub(1);
        self.run.push_front(thread);
    }

    pub(super) fn pop(&mut self) -> Option<Thread> {
        let thread = self.run.pop_front()?;
        self.took(thread);
        Some(thread)
    }

    fn took(&mut self, thread: Thread) {
        self.started -= u32::from(thread.started);
        self.run_head = self.run_head.wrapping_add(1);
    }

    /// The oldest that another may take.
    pub(super) fn steal(&mut self, pinned: bool) -> Option<Thread> {
        let at = self.run.iter().position(|thread| !(pinned && thread.started))?;
        let thread = self.run.remove(at)?;
        self.took(thread);
        Some(thread)
    }

    /// A message is taken in.
    pub(super) fn receive(&mut self) -> Option<Thread> {
        let thread = self.inbox.pop_front()?;
        self.inbox_head = self.inbox_head.wrapping_add(1);
        Some(thread)
    }

    /// What others may take.
    pub(super) fn load(&self, pinned: bool) -> Load {
        let stay = if pinned { self.started } else { 0 };
        let incoming = self.inbox.len() as u32;
        Load { ready: self.run.len() as u32 - stay, incoming, ..Load::default() }
    }

    /// What its line says.
    pub(super) fn page(&self, pinned: bool) -> KthreadLook {
        let queue = |head: u32, len: usize| Queue { head, tail: head.wrapping_add(len as u32) };
        KthreadLook {
            parked: matches!(self.doing, Doing::Parked | Doing::Waiting | Doing::Coming { .. }),
            acknowledged: self.acknowledged,
            run: queue(self.run_head, self.run.len()),
            inbox: queue(self.inbox_head, self.inbox.len()),
            oldest_ready: self.run.front().map(|thread| Nanos(thread.since)),
            next_timer: None,
            stranded: if pinned { self.started } else { 0 },
        }
    }
}
