//! A running server, from any thread.

use super::ChangeError;
use crate::app::ClassifyFn;
use crate::control::{Command, Control};
use crate::report::merge_stats;
use crate::stats::Stats;
use curtail_policy::{Nanos, Spec, SpecError};
use curtail_rt::cancel::Cause;
use curtail_rt::context::RequestId;
use curtail_rt::thread::{StallPlace, Stalls};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Looks at and steers a running server, from any thread.
#[derive(Clone)]
pub struct Handle {
    /// Each dispatcher's mailbox, and how many workers it has.
    domains: Arc<[(Arc<Control>, usize)]>,
    /// The policy that it was built with, if it has no dispatcher.
    dispatcherless: Option<Arc<str>>,
    stalls: Arc<Stalls>,
}

impl Handle {
    pub(super) fn new(
        domains: Arc<[(Arc<Control>, usize)]>,
        dispatcherless: Option<Arc<str>>,
        stalls: Arc<Stalls>,
    ) -> Self {
        Self { domains, dispatcherless, stalls }
    }

    /// No more requests are taken; [`Server::run`](super::Server::run) returns when those under way
    /// are done.
    pub fn shutdown(&self) {
        let _ = self.post(|| Command::Shutdown);
    }

    /// [`Handle::shutdown`] when the process gets SIGINT or SIGTERM; a second of these ends the process
    /// at once. For all servers of a process that ask for it.
    ///
    /// # Errors
    /// As [`on_terminate`](curtail_rt::on_terminate).
    pub fn shutdown_on_signals(&self) -> std::io::Result<()> {
        let server = self.clone();
        curtail_rt::on_terminate(move || server.shutdown())
    }

    /// How it stands, all dispatchers together; `None`: it has ended, or has not begun within a
    /// second.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        let asked = self.domains.iter().map(|(control, _)| {
            let (answer, stats) = sync_channel(1);
            control.post(Command::Stats(answer));
            stats
        });
        let asked: Vec<_> = asked.collect();
        let until = Instant::now() + Duration::from_secs(1);
        let answer = |stats: std::sync::mpsc::Receiver<Stats>| {
            stats.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
        };
        let parts = asked.into_iter().map(answer).collect::<Option<Vec<_>>>();
        parts.map(|parts| Stats { stalls: self.stalls.list(), ..merge_stats(parts) })
    }

    /// Whether the server runs, or may still begin.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.domains.iter().any(|(control, _)| control.is_open())
    }

    /// Where code stalled so far, the most frequent place first; also of a server that has ended.
    #[must_use]
    pub fn stalls(&self) -> Vec<StallPlace> {
        self.stalls.list()
    }

    /// Changes the policy while requests are being served; none is lost. Several dispatchers change
    /// one after the other.
    ///
    /// # Errors
    /// When the policy does not fit the workers (of each dispatcher), or the server has ended; between a
    /// policy with a dispatcher and one without ([`Spec::is_dispatcherless`]).
    pub fn switch(&self, spec: Spec) -> Result<(), ChangeError> {
        self.domains.iter().try_for_each(|&(_, workers)| spec.validate(workers))?;
        match &self.dispatcherless {
            Some(policy) if !spec.is_dispatcherless() => {
                return Err(SpecError::Dispatcherless(policy.as_ref().into()).into());
            }
            None if spec.is_dispatcherless() => {
                return Err(SpecError::Dispatcherless(spec.name).into());
            }
            _ => {}
        }
        self.post(|| Command::Switch(spec.clone()))
    }

    /// Changes the quantum; `None`: to completion.
    ///
    /// # Errors
    /// For a quantum of zero, and when the server has ended.
    pub fn set_quantum(&self, quantum: Option<Nanos>) -> Result<(), ChangeError> {
        if quantum == Some(Nanos::ZERO) {
            return Err(SpecError::ZeroQuantum.into());
        }
        self.post(|| Command::Quantum(quantum))
    }

    /// Cancels a request ([`Context::id`](curtail_rt::Context::id)). Without effect where it has ended.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn cancel(&self, request: RequestId) -> Result<(), ChangeError> {
        self.post(|| Command::Cancel(request, Cause::Asked))
    }

    /// Has requests classified by `classify` from now on, in place of
    /// [`App::classify`](crate::App::classify); `None`: by that again. It is called as that is, and for
    /// several requests at once where it waits or where there are several dispatchers. Requests in the
    /// system keep the class that they have; a [`Handle::stats`] that is asked for later is answered
    /// when it is in force.
    ///
    /// # Errors
    /// When the server has ended.
    pub fn classify_by(&self, classify: Option<Box<ClassifyFn>>) -> Result<(), ChangeError> {
        let shared: Option<Arc<ClassifyFn>> = classify.map(Arc::from);
        self.post(|| Command::Classify(shared.clone()))
    }

    fn post(&self, command: impl Fn() -> Command) -> Result<(), ChangeError> {
        // To each of them, also where one has ended.
        let posted: Vec<bool> =
            self.domains.iter().map(|(control, _)| control.post(command())).collect();
        told(posted.into_iter().all(|posted| posted))
    }
}

fn told(posted: bool) -> Result<(), ChangeError> {
    if posted { Ok(()) } else { Err(ChangeError::Ended) }
}
