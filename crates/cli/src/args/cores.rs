//! Options of a server under a core allocator.

use super::System;
use crate::failure::Failure;
use clap::Args;
use curtail::ServerBuilder;
use curtail_policy::Spec;
use std::path::PathBuf;

/// Where a server's cores come from.
#[derive(Args, Clone, Debug)]
pub(crate) struct CoresArgs {
    /// Get the workers' cores from the core allocator (curtaild) at this socket: with a policy without
    /// a dispatcher (shenango) [default: $CURTAILD, if that is set]
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Cores that the core allocator is to have for this server whenever it needs them [default: 0]
    #[arg(long, value_name = "N", requires = "daemon")]
    guaranteed: Option<u16>,
    /// Cores that it may have besides [default: one for each worker, less those guaranteed]
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

    /// Hands it to a server of that policy.
    pub(crate) fn configure(
        &self,
        mut server: ServerBuilder,
        spec: &Spec,
        system: &System,
    ) -> Result<ServerBuilder, Failure> {
        let elastic = spec.is_dispatcherless() && (self.daemon.is_some() || is_inherited());
        // No core is the front's: then it is for the server to say how many workers there are.
        if let Some(workers) = system.asked_workers().or((!elastic).then(|| system.workers())) {
            server = server.workers(workers);
        }
        let Some(path) = &self.daemon else { return Ok(server) };
        if !spec.is_dispatcherless() {
            return Err(Failure::usage(format!(
                "--daemon: `{}` has a dispatcher, which keeps its cores, as its workers do; use \
                 --policy shenango",
                spec.name
            )));
        }
        server = server.daemon(path);
        if let Some(cores) = self.guaranteed {
            server = server.guaranteed(usize::from(cores));
        }
        if let Some(cores) = self.burstable {
            server = server.burstable(usize::from(cores));
        }
        Ok(server)
    }
}

fn is_inherited() -> bool {
    std::env::var_os("CURTAILD").is_some_and(|path| !path.is_empty())
}
