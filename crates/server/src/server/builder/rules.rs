//! Settings about requests: of those that are cancelled, of classes, of locks.

use super::{ServerBuilder, StartError};
use crate::server::rules::{ClassRule, Rules};
use curtail_rt::cancel::OnCancel;
use curtail_rt::clock::Clock;
use curtail_rt::thread::Grace;
use std::sync::Arc;
use std::time::Duration;

impl ServerBuilder {
    /// What becomes of a quantum that ends while its request holds a lock. Default:
    /// [`Grace::Quantum`].
    #[must_use]
    pub fn lock_grace(mut self, grace: Grace) -> Self {
        self.tasks.grace = grace;
        self
    }

    /// Whether half of [`ServerBuilder::capacity`] and of [`ServerBuilder::memory`] is kept for the
    /// application's classes, each as much as another: then a flood of one class refuses that class
    /// alone. Otherwise the class that comes first may have all of it. Default: yes. Of a single class there
    /// may be as many as fit in any case.
    #[must_use]
    pub fn keep_room(mut self, yes: bool) -> Self {
        self.keeps_room = yes;
        self
    }

    /// The quantum of threads of one class that handlers spawn ([`Builder::class`]); `None`: they run to
    /// completion. It counts in whole multiples of the smallest of all quanta, and holds where requests
    /// are pre-empted by safepoints. Default: the policy's quantum, or 20 µs where it pre-empts without
    /// one; to completion where it does not pre-empt.
    ///
    /// # Panics
    /// A quantum of zero.
    ///
    /// [`Builder::class`]: curtail_rt::Builder::class
    #[must_use]
    pub fn thread_quantum(mut self, class: u16, quantum: Option<Duration>) -> Self {
        assert!(quantum.is_none_or(|quantum| !quantum.is_zero()), "a quantum of zero");
        self.thread_quanta.retain(|(other, _)| *other != class);
        // A century is never over.
        const MOST: Duration = Duration::from_secs(100 * 365 * 86_400);
        let cycles = |quantum: Duration| Clock::get().cycles(quantum.min(MOST).as_nanos() as u64);
        self.thread_quanta.push((class, quantum.map(cycles)));
        self
    }

    /// Within which time from their arrival the requests of a class are wanted: then they are
    /// cancelled, those that wait and those that run. [`App::deadline`](crate::App::deadline) may say
    /// less for a request. Default: without a limit.
    #[must_use]
    pub fn deadline(mut self, class: impl Into<String>, limit: Duration) -> Self {
        let class = class.into();
        self.rules.push(ClassRule { class, deadline: Some(limit), on_cancel: None });
        self
    }

    /// What becomes of requests of a class that are cancelled while they run. Default:
    /// [`OnCancel::End`].
    #[must_use]
    pub fn on_cancel(mut self, class: impl Into<String>, what: OnCancel) -> Self {
        let class = class.into();
        self.rules.push(ClassRule { class, deadline: None, on_cancel: Some(what) });
        self
    }

    /// What holds for each class.
    pub(super) fn rules(&self) -> Result<Arc<Rules>, StartError> {
        let names = self.app.classes().into_iter().map(|class| class.name);
        let names: Vec<String> = names.chain(["unknown".to_owned()]).collect();
        Rules::new(&names, &self.rules).map(Arc::new).map_err(StartError::Setting)
    }
}
