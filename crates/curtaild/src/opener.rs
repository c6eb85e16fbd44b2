//! Opens and closes ports, on a thread of its own: a name or a device may take seconds, and a daemon
//! that shows no life for a twentieth of one has no programs any more.
//!
//! One thread does it in turn. What a program has left is closed before the next one asks for it, and
//! what a program asked for that has left is not opened.

use crate::{Error, system};
use curtail_net::Transport;
use curtail_shm::kthreads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

/// Makes what a URL names: sockets and interfaces by default.
pub type Opener = Box<dyn FnMut(&str) -> Result<Box<dyn Transport>, String> + Send>;

enum Job {
    OpenBy(Opener),
    Open { serial: u32, url: String, wanted: Weak<()> },
    Close(Box<dyn Send>),
}

/// What became of a port.
pub(crate) struct Opened {
    /// The number of the session that asked for it.
    pub(crate) serial: u32,
    pub(crate) result: Result<Box<dyn Transport>, String>,
}

/// The thread, as the daemon knows it. It ends when this does, after its last job.
pub(crate) struct Ports {
    jobs: Sender<Job>,
    opened: Receiver<Opened>,
    /// Ports that are being opened.
    pending: u32,
}

impl Ports {
    /// Starts the thread, on these cores.
    pub(crate) fn start(cpus: Vec<u32>) -> Result<Self, Error> {
        let (jobs, ordered) = channel();
        let (tell, opened) = channel();
        let work = move || {
            // Where it can't be bound, it may be in a program's way for a moment.
            let _ = kthreads::pin_this_thread(&cpus);
            work(&ordered, &tell);
        };
        let thread = std::thread::Builder::new().name("curtaild-ports".to_owned());
        thread.spawn(work).map_err(system("a thread for ports"))?;
        Ok(Self { jobs, opened, pending: 0 })
    }

    pub(crate) fn open_by(&mut self, opener: Opener) {
        self.give(Job::OpenBy(opener));
    }

    /// [`Ports::next`] says what became of it. It is wanted as long as the program keeps what this returns.
    pub(crate) fn open(&mut self, serial: u32, url: String) -> Arc<()> {
        let wanted = Arc::new(());
        self.pending += 1;
        self.give(Job::Open { serial, url, wanted: Arc::downgrade(&wanted) });
        wanted
    }

    /// What goes is a transport, or has one.
    pub(crate) fn close(&mut self, port: impl Send + 'static) {
        self.give(Job::Close(Box::new(port)));
    }

    /// Ports are being opened.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending > 0
    }

    /// The next one that was opened, or was not.
    pub(crate) fn next(&mut self) -> Option<Opened> {
        let opened = self.opened.try_recv().ok()?;
        self.pending -= 1;
        Some(opened)
    }

    fn give(&self, job: Job) {
        // The thread is there as long as this is.
        let _ = self.jobs.send(job);
    }
}

fn work(jobs: &Receiver<Job>, tell: &Sender<Opened>) {
    let mut opener: Opener =
        Box::new(|url| curtail_net::open(url).map_err(|error| error.to_string()));
    for job in jobs {
        match job {
            Job::OpenBy(other) => opener = other,
            Job::Open { serial, url, wanted } => {
                let result = open(&mut opener, &url, &wanted);
                // Where the daemon has ended, the port goes with the message.
                let _ = tell.send(Opened { serial, result });
            }
            Job::Close(port) => drop(port),
        }
    }
}

/// The port, unless its program has left, before or meanwhile.
fn open(opener: &mut Opener, url: &str, wanted: &Weak<()>) -> Result<Box<dyn Transport>, String> {
    const LEFT: &str = "its program has left";
    if wanted.strong_count() == 0 {
        return Err(LEFT.to_owned());
    }
    let opened = catch_unwind(AssertUnwindSafe(|| opener(url)))
        .unwrap_or_else(|_| Err("it could not be opened: a panic".to_owned()))?;
    if wanted.strong_count() == 0 { Err(LEFT.to_owned()) } else { Ok(opened) }
}
