//! Programs come and go.

use crate::daemon::Daemon;
use crate::door::Event;
use crate::program::Program;
use curtail_alloc::{Class, KthreadLook, Nanos};
use curtail_shm::session::{Request, Session, SessionError};
use curtail_shm::{PageView, Spec};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that has connected and has not said yet what it wants.
pub(crate) struct Guest {
    serial: u32,
    session: Session,
    since_ns: u64,
}

/// Guests at one time: the one that has been silent for longest makes room.
const MOST_GUESTS: usize = 64;
/// How long a guest may be silent.
const SILENCE_NS: u64 = 5_000_000_000;
/// Programs that are admitted in one go.
const MOST_AT_ONCE: usize = 16;
/// Messages of one program: it has one or two to send.
const MOST_MESSAGES: u32 = 64;

impl Daemon {
    /// Accepts those that connect.
    pub(crate) fn admit(&mut self, now_ns: u64) {
        self.guests.retain(|guest| now_ns.saturating_sub(guest.since_ns) < SILENCE_NS);
        for _ in 0..MOST_AT_ONCE {
            let serial = self.next_serial;
            match self.door.accept(serial) {
                Ok(Some(session)) => {
                    self.next_serial = serial.wrapping_add(1);
                    if self.guests.len() >= MOST_GUESTS {
                        self.guests.remove(0);
                    }
                    self.guests.push(Guest { serial, session, since_ns: now_ns });
                }
                Ok(None) => return,
                Err(error) => {
                    let text = format!("no program can connect now: {error}");
                    self.log.say(now_ns, "shut", &text);
                    // The one that has been silent for longest makes room.
                    self.guests.drain(..self.guests.len().min(1));
                    return;
                }
            }
        }
    }

    /// The session has something to say, or is over.
    pub(crate) fn listen(&mut self, now_ns: u64, serial: u32) {
        self.stay_awake(now_ns);
        if let Some(at) = self.programs.iter().position(|it| it.serial == serial) {
            return self.listen_to_program(now_ns, at);
        }
        let Some(at) = self.guests.iter().position(|it| it.serial == serial) else { return };
        let request = self.guests[at].session.next_request();
        if let Ok(None) = request {
            return;
        }
        let guest = self.guests.remove(at);
        let outcome = match request {
            Ok(Some(Request::Hello { name, page })) => {
                return self.register(now_ns, guest, &name, page);
            }
            Ok(Some(Request::Status)) => guest.session.answer(&self.status(now_ns)),
            Ok(Some(Request::Poller(_) | Request::PollPages(_) | Request::Port { .. })) => {
                Err(SessionError::Message("no hello came first"))
            }
            Ok(None) => Ok(()),
            Err(error) => {
                if let SessionError::Message(_) = error {
                    // It may be of another version, and tells so of what it can't read.
                    let _ = guest.session.refuse("not a message of this version of Curtail");
                }
                Err(error)
            }
        };
        // One that only looks whether a daemon is there closes without a word.
        if let Err(error) = outcome.or_else(only_closed) {
            self.counts.turned_away += 1;
            self.log.say(now_ns, "turned-away", &format!("a program was turned away: {error}"));
        }
    }

    fn register(&mut self, now_ns: u64, guest: Guest, name: &str, page: OwnedFd) {
        match self.take_in(now_ns, guest, name, page) {
            Ok(text) => {
                self.counts.registered += 1;
                self.log.say(now_ns, "registered", &text);
            }
            Err((session, why)) => {
                self.counts.turned_away += 1;
                let _ = session.refuse(&why);
                let name = printable(name);
                self.log.say(now_ns, "turned-away", &format!("`{name}` was turned away: {why}"));
            }
        }
    }

    /// The program is served from now on; a line about it.
    fn take_in(
        &mut self,
        now_ns: u64,
        guest: Guest,
        name: &str,
        page: OwnedFd,
    ) -> Result<String, (Session, String)> {
        let Guest { serial, session, .. } = guest;
        let (pid, pidfd) = match peer(&session) {
            Ok(peer) => peer,
            Err(why) => return Err((session, why)),
        };
        let page = match PageView::map(page) {
            Ok(page) => page,
            Err(error) => return Err((session, error.to_string())),
        };
        let wants = wishes(page.spec());
        let kthreads = wants.kthreads;
        let Some(first) = self.slots.take(kthreads) else {
            let why = format!("no room for {kthreads} kthreads more: see --slots");
            return Err((session, why));
        };
        let id = match self.allocator.add_program(Nanos(now_ns), wants) {
            Ok(id) => id,
            Err(refusal) => {
                self.slots.give_back(first, kthreads);
                return Err((session, refusal.to_string()));
            }
        };
        let program = Program {
            serial,
            id,
            name: printable(name),
            pid,
            pidfd,
            session,
            page,
            pollers: [None, None],
            port: None,
            opening: None,
            poll_words: None,
            is_armed: false,
            first,
            kthreads: Program::new_kthreads(kthreads),
            looks: vec![KthreadLook::IDLE; kthreads as usize],
            is_demoted: false,
            messages: 0,
            grants: 0,
            evictions: 0,
            moves: 0,
        };
        // Its words are fresh: an answer to an older word of the slot is none to these.
        self.park_all(&program);
        let text = line_about(&program);
        let watched = self.door.watch(&program.pidfd, Event::Died(serial));
        let welcomed = watched
            .map_err(SessionError::System)
            .and_then(|()| program.session.welcome(self.board.fd(), program.first, kthreads));
        self.programs.push(program);
        if let Err(error) = welcomed {
            let program = self.remove(now_ns, self.programs.len() - 1);
            return Err((program.session, error.to_string()));
        }
        Ok(text)
    }

    fn park_all(&self, program: &Program) {
        for index in 0..program.kthreads.len() as u32 {
            self.board.park(program.slot(index));
        }
    }

    fn listen_to_program(&mut self, now_ns: u64, at: usize) {
        let program = &mut self.programs[at];
        program.messages += 1;
        let problem = match program.session.next_request() {
            Ok(None) => return,
            Ok(Some(
                Request::Poller(_) | Request::PollPages(_) | Request::Port { .. } | Request::Status,
            )) if program.messages > MOST_MESSAGES => "it sends messages all the time".to_owned(),
            Ok(Some(Request::Poller(poller))) => match self.watch_poller(at, 0, poller) {
                Ok(()) => return,
                Err(error) => format!("its poller can't be watched: {error}"),
            },
            Ok(Some(Request::PollPages(pages))) => match program.set_poll_words(pages) {
                Ok(()) => return,
                Err(error) => format!("its poll words: {error}"),
            },
            Ok(Some(Request::Port { url, rings })) => {
                return self.open_port(now_ns, at, &url, rings);
            }
            Ok(Some(Request::Status)) => {
                let text = self.status(now_ns);
                match self.programs[at].session.answer(&text) {
                    Ok(()) => return,
                    Err(error) => error.to_string(),
                }
            }
            Ok(Some(Request::Hello { .. })) => "it says hello twice".to_owned(),
            Err(SessionError::Closed) => return self.goodbye(now_ns, at),
            Err(error) => error.to_string(),
        };
        self.dismiss(now_ns, at, &problem);
    }

    /// It sees the end of its session, and goes on without a daemon.
    pub(crate) fn dismiss(&mut self, now_ns: u64, at: usize, problem: &str) {
        let program = self.remove(now_ns, at);
        self.counts.turned_away += 1;
        self.log.say(now_ns, "dismissed", &format!("{} is dismissed: {problem}", program.label()));
    }

    /// `which` of the program's pollers: see [`Program::pollers`].
    pub(crate) fn watch_poller(
        &mut self,
        at: usize,
        which: usize,
        poller: OwnedFd,
    ) -> std::io::Result<()> {
        let program = &mut self.programs[at];
        if let Some(old) = program.pollers[which].take() {
            self.door.forget(&old);
        }
        program.is_armed = false;
        self.door.watch_unarmed(&poller, Event::Packets(program.serial))?;
        program.pollers[which] = Some(poller);
        Ok(())
    }

    fn goodbye(&mut self, now_ns: u64, at: usize) {
        let program = self.remove(now_ns, at);
        self.counts.left += 1;
        self.log.say(now_ns, "left", &format!("{} has left", program.label()));
    }

    /// A process has died.
    pub(crate) fn bury(&mut self, now_ns: u64, serial: u32) {
        self.stay_awake(now_ns);
        let Some(at) = self.programs.iter().position(|it| it.serial == serial) else { return };
        let program = self.remove(now_ns, at);
        self.counts.died += 1;
        self.log.say(now_ns, "died", &format!("{} has ended", program.label()));
    }

    /// A program that writes what can't be has no guarantee any more.
    pub(crate) fn demote(&mut self, now_ns: u64, at: usize, lie: &str) {
        let program = &mut self.programs[at];
        if std::mem::replace(&mut program.is_demoted, true) {
            return;
        }
        self.counts.demoted += 1;
        self.allocator.demote(Nanos(now_ns), program.id);
        let text = format!("{} is guaranteed nothing any more: {lie}", program.label());
        self.log.say(now_ns, "demoted", &text);
    }

    /// Its cores and slots are free at once.
    fn remove(&mut self, now_ns: u64, at: usize) -> Program {
        let mut program = self.programs.remove(at);
        if let Some(mut port) = program.port.take() {
            port.flush();
            self.ports.close(port);
        }
        self.allocator.remove_program(Nanos(now_ns), program.id);
        self.park_all(&program);
        self.slots.give_back(program.first, program.kthreads.len() as u32);
        self.door.forget(&program.pidfd);
        self.door.forget(&program.session);
        for poller in program.pollers.iter().flatten() {
            self.door.forget(poller);
        }
        // There is room again.
        let _ = self.door.reopen();
        program
    }
}

fn only_closed(error: SessionError) -> Result<(), SessionError> {
    match error {
        SessionError::Closed => Ok(()),
        error => Err(error),
    }
}

/// What is printed of a program that was taken in.
fn line_about(program: &Program) -> String {
    let spec = program.page.spec();
    format!(
        "{} registered: {}, {} kthreads, {} cores guaranteed, {} more at most",
        program.label(),
        if program.is_batch() { "batch" } else { "latency-critical" },
        program.kthreads.len(),
        spec.guaranteed,
        spec.burstable
    )
}

/// Batch programs float over all cores; they have no kthreads and no slots here.
fn wishes(spec: &Spec) -> curtail_alloc::Program {
    let (class, kthreads) = match spec.class {
        curtail_shm::Class::LatencyCritical => (Class::LatencyCritical, spec.kthreads),
        // Its threads float over all cores: none of them is granted any.
        curtail_shm::Class::Batch { looks } => (Class::Batch { looks }, 0),
    };
    let (guaranteed, burstable) = (spec.guaranteed, spec.burstable);
    curtail_alloc::Program { class, kthreads, guaranteed, burstable }
}

/// The process at the other end, which has not died and is of this user.
fn peer(session: &Session) -> Result<(Pid, OwnedFd), String> {
    let no = |error: std::io::Error| format!("its process is not known: {error}");
    let (pid, uid) = session.peer().map_err(no)?;
    if uid != rustix::process::geteuid().as_raw() {
        return Err("it is another user's".to_owned());
    }
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| no(error.into()))?;
    Ok((pid, pidfd))
}

/// Names are for people, and go to terminals.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
