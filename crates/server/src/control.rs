//! Commands to a running server: a mailbox that the dispatcher looks at once a turn.

use crate::app::ClassifyFn;
use crate::remote::Remote;
use crate::stats::Stats;
use curtail_policy::{Nanos, Spec};
use curtail_rt::cancel::Cause;
use curtail_rt::context::{RequestId, Route};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

pub(crate) enum Command {
    Shutdown,
    Stats(SyncSender<Stats>),
    Switch(Spec),
    Quantum(Option<Nanos>),
    /// A request, where it is here.
    Cancel(RequestId, Cause),
    /// `None`: the application's own.
    Classify(Option<Arc<ClassifyFn>>),
    /// A worker is stuck, as long as its count of picks is that.
    Stuck {
        worker: usize,
        picks: u32,
    },
    /// All workers that the policy knows are stuck; and so are all spare ones that live, or are not.
    AllStuck {
        spares: bool,
    },
}

pub(crate) struct Control {
    mail: Mutex<Vec<Command>>,
    /// There may be mail; saves the dispatcher the lock.
    flag: AtomicBool,
    /// The dispatcher has ended, and does not look any more.
    closed: AtomicBool,
    dispatcher: Arc<Remote>,
}

impl Control {
    pub(crate) fn new(dispatcher: Arc<Remote>) -> Self {
        Self {
            mail: Mutex::default(),
            flag: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            dispatcher,
        }
    }

    /// Leaves a command; false: the server has ended.
    pub(crate) fn post(&self, command: Command) -> bool {
        {
            let mut mail = self.mail.lock().unwrap_or_else(|p| p.into_inner());
            if self.closed.load(Ordering::Relaxed) {
                return false;
            }
            mail.push(command);
            self.flag.store(true, Ordering::Release);
        }
        self.dispatcher.parker.unpark();
        true
    }

    /// Tells of a worker that is stuck, again and again as long as it is. One such message a worker lies
    /// in the box at most.
    pub(crate) fn tell_stuck(&self, worker: usize, picks: u32) {
        self.post_once(
            Command::Stuck { worker, picks },
            |it| matches!(it, Command::Stuck { worker: of, .. } if *of == worker),
        );
    }

    /// Tells that all workers are stuck, again and again as long as they are.
    pub(crate) fn tell_all_stuck(&self, spares: bool) {
        self.post_once(Command::AllStuck { spares }, |it| matches!(it, Command::AllStuck { .. }));
    }

    fn post_once(&self, command: Command, is_told: impl Fn(&Command) -> bool) {
        if !self.mail.lock().unwrap_or_else(|p| p.into_inner()).iter().any(is_told) {
            self.post(command);
        }
    }

    /// Whether commands are carried out, or will be.
    pub(crate) fn is_open(&self) -> bool {
        let _mail = self.mail.lock().unwrap_or_else(|p| p.into_inner());
        !self.closed.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        let mut mail = self.mail.lock().unwrap_or_else(|p| p.into_inner());
        self.flag.store(false, Ordering::Relaxed);
        std::mem::take(&mut mail)
    }

    /// The dispatcher has ended. Commands still in the box are dropped, and with them the senders
    /// of their answers.
    fn close(&self) {
        let mut mail = self.mail.lock().unwrap_or_else(|p| p.into_inner());
        self.closed.store(true, Ordering::Relaxed);
        mail.clear();
    }
}

/// Its dispatcher looks.
impl Route for Control {
    fn cancel(&self, id: RequestId, cause: Cause) {
        self.post(Command::Cancel(id, cause));
    }
}

/// Its holder carries out commands, or will. When it is dropped, however that came about, they are
/// refused.
pub(crate) struct Obeyed(pub Arc<Control>);

impl Drop for Obeyed {
    fn drop(&mut self) {
        self.0.close();
    }
}
