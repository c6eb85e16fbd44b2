//! Settings about requests: of those that are cancelled, of classes, of locks.

use super::{ServerBuilder, StartError};
use crate::server::rules::{ClassRule, Rules};
use curtail_rt::cancel::OnCancel;
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
