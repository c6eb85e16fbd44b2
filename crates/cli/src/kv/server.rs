//! A server and its client, for the length of one run.
//!
//! Each is on threads of its own, which end with the run: the dispatcher and the worker pin
//! themselves (first and second core); the client gets the last core where there are three, and
//! shares the dispatcher's where there are two. Both sleep when they have nothing to do there, so
//! that neither waits for the other's time slice to end.

use crate::failure::Failure;
use clap::ValueEnum;
use curtail::{Report, Server, allowed_cores};
use curtail_load::client::{App, Client, Url, Wire};
use curtail_policy::Spec;
use curtail_workload::Mix;
use kv_app::{KvApp, KvOptions};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::thread::{Builder, scope};
use std::time::Duration;
use tempfile::TempDir;

/// Worker threads of such a server.
pub(crate) const WORKERS: usize = 1;
/// How long the server may take to answer for the first time.
const WAIT_NS: u64 = 5_000_000_000;
/// How long it may take to finish what is under way.
const DRAIN: Duration = Duration::from_secs(2);

/// How client and server talk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Shared memory: next to nothing but service is in the figures
    #[default]
    Shm,
    /// Datagrams over 127.0.0.1: the kernel's network is in them, too
    Udp,
}

impl Way {
    /// Where the server listens; a directory that is to live as long.
    fn place(self) -> Result<(String, Option<TempDir>), Failure> {
        match self {
            Self::Udp => Ok(("udp://127.0.0.1:0".to_owned(), None)),
            Self::Shm => {
                let directory = tempfile::tempdir().map_err(Failure::failed)?;
                let url = format!("shm://{}/kv", directory.path().display());
                Ok((url, Some(directory)))
            }
        }
    }
}

/// Serves a fresh store by this policy while `client` runs; what the client gave, and the server's report.
pub(crate) fn with<T: Send>(
    (spec, way): (&Spec, Way),
    options: &KvOptions,
    connect: impl FnOnce(&Url) -> Result<Client, Failure> + Send,
    client: impl FnOnce(Client) -> Result<T, Failure> + Send,
) -> Result<(T, Report), Failure> {
    let (place, directory) = way.place()?;
    let transport = curtail_net::open(&place).map_err(Failure::failed)?;
    // With the port that the kernel chose.
    let url = Url::parse(&transport.describe()).map_err(Failure::failed)?;
    let (server_cores, client_core) = places(&allowed_cores());
    let app = KvApp::open(options.clone()).map_err(Failure::failed)?;
    let server = Server::builder(app)
        .policy(spec.clone())
        .workers(WORKERS)
        .cores(server_cores)
        .drain(DRAIN)
        .transport(transport)
        .build()
        .map_err(Failure::failed)?;
    let handle = server.handle();
    scope(|scope| {
        let thread = |name: &str| Builder::new().name(name.to_owned());
        let dispatcher = thread("dispatcher")
            .spawn_scoped(scope, || server.run().map_err(Failure::failed))
            .map_err(Failure::failed)?;
        let run = || {
            pin(client_core);
            let connected = connect(&url);
            // An interrupt from here on leaves no file behind.
            drop(directory);
            client(connected?)
        };
        // Whatever becomes of the client, the server is told to end.
        let got = match thread("client").spawn_scoped(scope, run) {
            Ok(client) => client.join().unwrap_or_else(|_| Err(panicked("client"))),
            Err(error) => Err(Failure::failed(error)),
        };
        handle.shutdown();
        let report = dispatcher.join().unwrap_or_else(|_| Err(panicked("dispatcher")))?;
        Ok((got?, report))
    })
}

fn panicked(who: &str) -> Failure {
    Failure::failed(format!("the {who}'s thread panicked"))
}

/// A client whom the server has answered.
pub(crate) fn client(url: &Url, mix: &Mix, options: &KvOptions) -> Result<Client, Failure> {
    let KvOptions { keys, value_bytes, .. } = *options;
    let wire = Wire::new(App::Kv, mix.classes(), keys, value_bytes).map_err(Failure::failed)?;
    let mut client = Client::open(url, 1, wire, WAIT_NS)?;
    client.greet(WAIT_NS)?;
    Ok(client)
}

/// The server's cores and the client's.
fn places(cores: &[usize]) -> (Vec<usize>, Option<usize>) {
    match cores {
        [server @ .., client] if server.len() > WORKERS => (server.to_vec(), Some(*client)),
        cores => (cores.to_vec(), cores.first().copied()),
    }
}

/// Refused: the client runs wherever the kernel puts it, and its lateness is measured as ever.
fn pin(core: Option<usize>) {
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        let _ = sched_setaffinity(None, &set);
    }
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn the_client_never_has_the_workers_core() {
        assert_eq!(places(&[3]), (vec![3], Some(3)));
        assert_eq!(places(&[0, 1]), (vec![0, 1], Some(0)));
        assert_eq!(places(&[0, 1, 2]), (vec![0, 1], Some(2)));
        assert_eq!(places(&[4, 5, 6, 7]), (vec![4, 5, 6], Some(7)));
    }
}
