//! Ports of programs: opened, and kept going.

use crate::daemon::Daemon;
use crate::opener::{Opened, Opener};
use crate::port::Port;
use curtail_alloc::Nanos;
use curtail_net::{Transport, Waiter};
use curtail_shm::{DaemonEnd, monotonic_ns};
use rustix::fd::{AsFd, OwnedFd};

/// Called in each turn of the daemon's loop, with the time in ns; true: it had something to do.
pub type Companion = Box<dyn FnMut(u64) -> bool + Send>;

impl Daemon {
    /// Something else that the daemon's core does, often and for a short time each: for a program that
    /// is daemon and generator of load at once. The daemon never sleeps then.
    pub fn accompany(&mut self, companion: Companion) {
        self.companion = Some(companion);
    }

    /// What makes a port from its URL, instead of the kernel's sockets: for generators of load, which
    /// are packets that come from nowhere.
    pub fn open_ports_by(&mut self, opener: Opener) {
        self.ports.open_by(opener);
    }

    /// A program asks for a port. It learns what became of it when that is open: [`Daemon::take_opened`].
    pub(crate) fn open_port(&mut self, now_ns: u64, at: usize, url: &str, rings: OwnedFd) {
        if let Err(why) = self.try_open(at, url, rings) {
            self.refuse_port(now_ns, at, &why);
        }
    }

    fn try_open(&mut self, at: usize, url: &str, rings: OwnedFd) -> Result<(), String> {
        let program = &mut self.programs[at];
        if program.port.is_some() || program.opening.is_some() {
            return Err("it has a port".to_owned());
        }
        if program.is_batch() {
            return Err("a batch program has no port".to_owned());
        }
        let url = self.interfaces.admit(url)?;
        let ends = DaemonEnd::map(rings, program.kthreads.len() as u32);
        let ends = ends.map_err(|error| error.to_string())?;
        program.opening = Some((ends, self.ports.open(program.serial, url)));
        Ok(())
    }

    fn refuse_port(&mut self, now_ns: u64, at: usize, why: &str) {
        let program = &self.programs[at];
        self.log.say(now_ns, "no-port", &format!("{} has no port: {why}", program.label()));
        if let Err(error) = program.session.refuse(why) {
            self.dismiss(now_ns, at, &error.to_string());
        }
    }

    /// Tells the programs whose ports are open, or can't be.
    pub(crate) fn take_opened(&mut self, now_ns: u64) {
        while let Some(Opened { serial, result }) = self.ports.next() {
            self.own_core.forget();
            let found = self.programs.iter().position(|it| it.serial == serial);
            let ends = found.and_then(|at| self.programs[at].opening.take());
            let (Some(at), Some((ends, _))) = (found, ends) else {
                // The program has left.
                self.ports.close(result);
                continue;
            };
            match result.and_then(|transport| self.start_port(at, transport, ends)) {
                Ok(url) => {
                    let text = format!("{} has the port {url}", self.programs[at].label());
                    self.log.say(now_ns, "port", &text);
                    if let Err(error) = self.programs[at].session.opened(&url) {
                        self.dismiss(now_ns, at, &error.to_string());
                    }
                }
                Err(why) => self.refuse_port(now_ns, at, &why),
            }
        }
    }

    fn start_port(
        &mut self,
        at: usize,
        transport: Box<dyn Transport>,
        ends: Vec<DaemonEnd>,
    ) -> Result<String, String> {
        let port = Port::new(transport, ends);
        let text = |error: std::io::Error| format!("its port can't be watched: {error}");
        let watched = Waiter::new(&port.wait_fds())
            .and_then(|bell| bell.as_fd().try_clone_to_owned())
            .and_then(|bell| self.watch_poller(at, 1, bell));
        if let Err(error) = watched {
            // Closing may take long.
            self.ports.close(port);
            return Err(text(error));
        }
        let url = port.url();
        self.programs[at].port = Some(port);
        Ok(url)
    }

    /// Right before the daemon sleeps; false: a port has something to do that nothing would tell of.
    pub(crate) fn ports_may_wait(&mut self) -> bool {
        let ports = self.programs.iter_mut().filter_map(|program| program.port.as_mut());
        ports.fold(true, |all, port| all & port.may_wait())
    }

    /// Carries what is there, of all ports; false: there was nothing.
    pub(crate) fn carry_packets(&mut self, now_ns: u64) -> bool {
        let mut carried = false;
        if let Some(companion) = &mut self.companion {
            carried = companion(monotonic_ns());
        }
        for at in 0..self.programs.len() {
            let program = &mut self.programs[at];
            let Some(port) = &mut program.port else { continue };
            let moved = port.turn();
            if moved.arrived {
                carried = true;
                self.active_ns = now_ns;
                if self.allocator.is_wholly_parked(program.id) {
                    self.counts.packets += 1;
                    self.allocator.packets_waiting(Nanos(now_ns), program.id);
                }
            }
            if moved.lie {
                self.demote(now_ns, at, "what it answers can't be an answer");
            }
        }
        if carried {
            self.carry_out_all(now_ns);
        }
        carried
    }

    /// A port can't say when it has packets.
    pub(crate) fn asks_always(&self) -> bool {
        let ports = self.programs.iter().filter_map(|program| program.port.as_ref());
        ports.into_iter().any(|port| port.wait_fds().is_empty())
    }
}
