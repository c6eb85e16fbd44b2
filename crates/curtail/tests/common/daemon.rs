//! A core allocator for tests: it does what the test says, and nothing by itself.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use curtail_shm::session::{Listener, Request, Session};
use curtail_shm::{Board, BoardView, CoreIndex, Look, PageView, Slot, Word};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);
/// More than any program here has kthreads.
const SLOTS: u32 = 16;

/// Waits for a program to do something, for a bounded time. By a plain thread.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < STUCK, "{what}");
        std::thread::yield_now();
    }
}

/// A path for a socket, which no other test has.
pub fn socket(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("curtail-{test}-{}.sock", std::process::id()))
}

pub struct Daemon {
    listener: Listener,
    pub board: Board,
}

/// A program that was taken.
pub struct Guest {
    session: Session,
    pub page: PageView,
    pub poller: Option<OwnedFd>,
    first: u32,
}

fn readable(fd: impl AsFd, most: Duration) -> bool {
    let most = Timespec::try_from(most).unwrap();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&most)).unwrap() > 0
}

impl Daemon {
    pub fn at(path: &Path) -> Self {
        let board = Board::create(&[0, 0], SLOTS, Duration::from_micros(5)).unwrap();
        Self { listener: Listener::bind(path).unwrap(), board }
    }

    /// As programs see it.
    pub fn view(&self) -> BoardView {
        BoardView::map(self.board.fd().try_clone_to_owned().unwrap()).unwrap()
    }

    /// The next program, with slots from `first` on and its poller.
    pub fn take(&self, first: u32) -> Guest {
        let session = self.knock();
        let Request::Hello { page, .. } = request(&session) else { panic!("no hello") };
        let page = PageView::map(page).unwrap();
        session.welcome(self.board.fd(), Slot(first), page.spec().kthreads).unwrap();
        let Request::Poller(poller) = request(&session) else { panic!("no poller") };
        Guest { session, page, poller: Some(poller), first }
    }

    /// The next program that comes.
    pub fn knock(&self) -> Session {
        assert!(readable(&self.listener, STUCK), "no program comes");
        self.listener.accept().unwrap().expect("a program")
    }

    /// The kthread has a core.
    pub fn grant(&self, guest: &Guest, kthread: u32) -> Word {
        let slot = guest.slot(kthread);
        let word = self.board.grant(slot, CoreIndex(0));
        self.board.wake(slot);
        word
    }

    /// The kthread has a core, and runs.
    pub fn run(&self, guest: &Guest, kthread: u32) -> Word {
        let word = self.grant(guest, kthread);
        until("a kthread runs", || guest.runs(kthread, word));
        word
    }
}

pub fn request(session: &Session) -> Request {
    assert!(readable(session, STUCK), "no request");
    session.next_request().unwrap().expect("a request")
}

impl Guest {
    /// The program asks for a port, and is told that it is there: what it asked for, and its rings.
    pub fn open_port(&self, url: &str) -> (String, OwnedFd) {
        let Request::Port { url: asked, rings } = request(&self.session) else { panic!("no port") };
        self.session.opened(url).unwrap();
        (asked, rings)
    }

    /// It is told that there is none.
    pub fn refuse_port(&self, why: &str) {
        let Request::Port { .. } = request(&self.session) else { panic!("no port") };
        self.session.refuse(why).unwrap();
    }

    /// The daemon closes the session. What the program wrote stays to be seen.
    pub fn leave(self) -> PageView {
        self.page
    }

    pub fn slot(&self, kthread: u32) -> Slot {
        Slot(self.first + kthread)
    }

    pub fn look(&self, kthread: u32) -> Look {
        self.page.look(kthread).unwrap()
    }

    /// It has seen that word, and runs.
    pub fn runs(&self, kthread: u32, word: Word) -> bool {
        let look = self.look(kthread);
        !look.is_parked && look.generation == word.generation()
    }

    /// It has seen that word, and has given its core back.
    pub fn is_parked(&self, kthread: u32, word: Word) -> bool {
        let look = self.look(kthread);
        look.is_parked && look.generation == word.generation()
    }

    pub fn until_parked(&self, kthread: u32, word: Word) {
        until("a kthread parks", || self.is_parked(kthread, word));
    }

    /// Something waits in the kthread's inbox.
    pub fn has_mail(&self, kthread: u32) -> bool {
        let (head, tail) = self.look(kthread).inbox;
        head != tail
    }

    /// Threads lie in the kthread's queue that others may take.
    pub fn has_ready(&self, kthread: u32) -> bool {
        let (head, tail) = self.look(kthread).run;
        head != tail
    }

    /// A packet has come for the program.
    pub fn has_packets(&self, most: Duration) -> bool {
        readable(self.poller.as_ref().unwrap(), most)
    }

    /// The program has left.
    pub fn has_left(&self) -> bool {
        readable(&self.session, STUCK) && self.session.next_request().is_err()
    }
}
