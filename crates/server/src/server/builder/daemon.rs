//! Settings of a server under a core allocator.

use super::ServerBuilder;
use crate::server::StartError;
use crate::server::threads::PortLine;
use curtail_rt::preempt::Preempt;
use curtail_rt::thread::Elastic;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Under a core allocator.
impl ServerBuilder {
    /// The workers get their cores from the `curtaild` that listens at `path`: each has one while it
    /// has work (Shenango §4), and gives it back within microseconds of being asked, in a program with
    /// safepoints. If the daemon ends, the server goes on without it; when it is back, it registers
    /// again. [`ServerBuilder::cores`] has no effect then, but for the number of kthreads, which is
    /// `$CURTAIL_KTHREADS` or else that of the cores: the workers, and the dispatcher, where there is
    /// one. That keeps a core, which the daemon has to guarantee.
    ///
    /// It is an error with several dispatchers, and with pre-emption by signal.
    ///
    /// Default: the one at `$CURTAILD`, if that is set; if it is not there, or there are several
    /// dispatchers, a warning, and none.
    #[must_use]
    pub fn daemon(mut self, path: impl Into<PathBuf>) -> Self {
        self.allocator_config.daemon = Some(path.into());
        self
    }

    /// How many cores the daemon is to have for the server whenever it needs them; it refuses to
    /// promise one twice. Default: 0, and 1 where there is a dispatcher.
    #[must_use]
    pub fn guaranteed(mut self, cores: usize) -> Self {
        self.allocator_config.guaranteed = cores;
        self
    }

    /// How many cores it may have besides, as long as no other program is guaranteed them. Default:
    /// as many as it has workers, less those that are guaranteed.
    #[must_use]
    pub fn burstable(mut self, cores: usize) -> Self {
        self.allocator_config.burstable = Some(cores);
        self
    }

    /// The daemon receives datagrams for the server at that URL, spreads them over the workers that have
    /// cores, and sends what they answer (Shenango §4.3): the server makes no system call for them.
    /// Datagrams and answers of up to 1,472 bytes.
    ///
    /// `udp://IP:PORT` is a socket of the kernel's; port 0: the kernel chooses. `xdp://IFACE/IP:PORT` and
    /// `dpdk://DEVICE/IP:PORT` go past the kernel's network, by the interfaces that the daemon's
    /// `--interfaces` names; the daemon needs the rights for that, and the server does not.
    ///
    /// The port is closed while there is no daemon, and opened again by the next one, at the
    /// same number. Such a server can do without other transports. See [`Server::listens`].
    ///
    /// [`Server::listens`]: crate::Server::listens
    #[must_use]
    pub fn daemon_port(mut self, url: impl Into<String>) -> Self {
        self.allocator_config.port = Some(url.into());
        self
    }

    /// Under a daemon, how long a request without a quantum runs at most until its worker looks
    /// whether it is to give its core back, if the program has safepoints that time themselves.
    /// Default: 5 µs.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.allocator_config.heartbeat = heartbeat;
        self
    }

    /// See [`RuntimeBuilder::poll_page`].
    ///
    /// [`RuntimeBuilder::poll_page`]: curtail_rt::RuntimeBuilder::poll_page
    #[must_use]
    pub fn poll_page(mut self, is_lent: bool) -> Self {
        self.allocator_config.poll_pages = is_lent;
        self
    }
}

impl ServerBuilder {
    /// Dispatchers, which have cores of their own.
    pub(super) fn own_kthreads(&self) -> usize {
        if self.spec.is_dispatcherless() { 0 } else { self.dispatchers }
    }

    /// With the core allocator, which may have a port for it.
    pub(super) fn register(&mut self, workers: usize) -> Result<Option<Arc<Elastic>>, StartError> {
        let own = self.own_kthreads();
        let guaranteed = &mut self.allocator_config.guaranteed;
        *guaranteed = own.max(*guaranteed);
        let elastic = Elastic::register(&self.allocator_config, workers + own)?;
        if let Some(port) = elastic.as_ref().and_then(|elastic| elastic.port()) {
            let line = PortLine::new(port.clone());
            let line = line.map_err(|error| StartError::System { what: "eventfd", error })?;
            self.transports.push(Box::new(line));
        }
        Ok(elastic)
    }

    /// Whether there is to be a core allocator.
    pub(super) fn is_elastic(&self) -> Result<bool, StartError> {
        if self.allocator_config.port.is_some() && self.allocator_config.path().is_none() {
            let text = "a port of the core allocator needs one: `daemon`, or $CURTAILD";
            return Err(StartError::Setting(text.to_owned()));
        }
        if self.allocator_config.path().is_none() || self.spec.is_dispatcherless() {
            return Ok(self.allocator_config.path().is_some());
        }
        let name = &self.spec.name;
        if self.allocator_config.port.is_some() {
            return Err(StartError::Setting(format!(
                "a port of the core allocator is for servers without a dispatcher (`shenango`), not for \
                 `{name}`"
            )));
        }
        let problem = match (self.dispatchers, self.preempt) {
            (2.., _) => "several dispatchers keep their cores",
            (_, Preempt::Signal) => "workers that are pre-empted by signal keep their cores",
            _ => return Ok(true),
        };
        if self.allocator_config.is_must() {
            return Err(StartError::Setting(format!("no core allocator for `{name}`: {problem}")));
        }
        tracing::warn!(
            target: "curtail::server::builder", problem, "$CURTAILD: not for `{name}`"
        );
        Ok(false)
    }
}
