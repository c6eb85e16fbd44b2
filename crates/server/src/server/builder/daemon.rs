//! Settings of a server under a core allocator.

use super::ServerBuilder;
use std::path::PathBuf;
use std::time::Duration;

/// Under a core allocator: servers without a dispatcher (`shenango`).
impl ServerBuilder {
    /// The workers get their cores from the `curtaild` that listens at `path`: each has one while it
    /// has work (Shenango §4), and gives it back within microseconds of being asked, in a program with
    /// safepoints. If the daemon ends, the server goes on without it; when it is back, it registers
    /// again. [`ServerBuilder::cores`] has no effect then, but for the number of workers, which is
    /// `$CURTAIL_KTHREADS` or else that of the cores.
    ///
    /// It is an error with a policy that has a dispatcher: dispatcher and workers keep their cores.
    ///
    /// Default: the one at `$CURTAILD`, if that is set; if it is not there, or the policy has a
    /// dispatcher, a warning, and none.
    #[must_use]
    pub fn daemon(mut self, path: impl Into<PathBuf>) -> Self {
        self.wish.set_daemon(path.into());
        self
    }

    /// How many cores the daemon is to have for the server whenever it needs them; it refuses to
    /// promise one twice. Default: 0.
    #[must_use]
    pub fn guaranteed(mut self, cores: usize) -> Self {
        self.wish.set_guaranteed(cores);
        self
    }

    /// How many cores it may have besides, as long as no other program is guaranteed them. Default:
    /// as many as it has workers, less those that are guaranteed.
    #[must_use]
    pub fn burstable(mut self, cores: usize) -> Self {
        self.wish.set_burstable(cores);
        self
    }

    /// The daemon receives datagrams for the server at that URL (`udp://IP:PORT`; port 0: the kernel
    /// chooses), spreads them over the workers that have cores, and sends what they answer
    /// (Shenango §4.3): the server makes no system call for them. Datagrams and answers of up to 1,472
    /// bytes. The port is closed while there is no daemon, and opened again by the next one, at the
    /// same number. Such a server can do without other transports. See [`Server::listens`].
    ///
    /// [`Server::listens`]: crate::Server::listens
    #[must_use]
    pub fn daemon_port(mut self, url: impl Into<String>) -> Self {
        self.wish.set_port(url.into());
        self
    }

    /// Under a daemon, how long a request without a quantum runs at most until its worker looks
    /// whether it is to give its core back, if the program has safepoints that time themselves.
    /// Default: 5 µs.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.wish.set_heartbeat(heartbeat);
        self
    }

    /// See [`RuntimeBuilder::poll_page`].
    ///
    /// [`RuntimeBuilder::poll_page`]: curtail_rt::RuntimeBuilder::poll_page
    #[must_use]
    pub fn poll_page(mut self, is_lent: bool) -> Self {
        self.wish.set_poll_pages(is_lent);
        self
    }
}
