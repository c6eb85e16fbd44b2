//! Options of a server under a core allocator.

use super::System;
use crate::failure::Failure;
use clap::Args;
use curtail::ServerBuilder;
use std::path::PathBuf;

/// Where a server's cores come from.
#[derive(Args, Clone, Debug)]
pub(crate) struct CoresArgs {
    /// Get the cores from the core allocator (curtaild) at this socket: the workers have them while they
    /// have work, a dispatcher keeps one [default: $CURTAILD, if that is set]
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Cores that the core allocator is to have for this server whenever it needs them [default: one for
    /// the dispatcher, where the policy has one]
    #[arg(long, value_name = "N", requires = "daemon")]
    guaranteed: Option<u16>,
    /// Cores that it may have besides [default: one for each kthread, less those guaranteed]
    #[arg(long, value_name = "N", requires = "daemon")]
    burstable: Option<u16>,
}

impl CoresArgs {
    /// Has the core allocator receive the server's datagrams there.
    pub(crate) fn daemon_port(
        &self,
        server: ServerBuilder,
        url: &str,
    ) -> Result<ServerBuilder, Failure> {
        if self.daemon.is_none() && !is_inherited() {
            return Err(Failure::usage("--listen daemon+…: with --daemon, or $CURTAILD"));
        }
        Ok(server.daemon_port(url))
    }

    /// Hands it to a server.
    pub(crate) fn configure(&self, mut server: ServerBuilder, system: &System) -> ServerBuilder {
        let elastic = self.daemon.is_some() || is_inherited();
        // Then it is for the server to say how many workers there are.
        if let Some(workers) = system.asked_workers().or((!elastic).then(|| system.workers())) {
            server = server.workers(workers);
        }
        let Some(path) = &self.daemon else { return server };
        server = server.daemon(path);
        if let Some(cores) = self.guaranteed {
            server = server.guaranteed(usize::from(cores));
        }
        if let Some(cores) = self.burstable {
            server = server.burstable(usize::from(cores));
        }
        server
    }
}

fn is_inherited() -> bool {
    std::env::var_os("CURTAILD").is_some_and(|path| !path.is_empty())
}
