//! The classifier in force: the application's own, or one that was put in its place while the server
//! runs (Perséphone §4.2: at most one is active at a time).
//!
//! Called by the threads that take requests in: by the dispatcher's questions ([`crate::ask`]), or
//! by the threads that read connections; by several at once, where one waits.

use crate::app::{ClassifyFn, ErasedApp};
use curtail_policy::ClassId;
use curtail_rt::contain::contain;
use curtail_rt::sync::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

/// The classifier in force.
pub(crate) struct Classifier {
    app: Arc<dyn ErasedApp>,
    given: Mutex<Option<Arc<ClassifyFn>>>,
    /// One is given.
    is_given: AtomicBool,
    last: ClassId,
}

impl Classifier {
    /// The application's, which has `classes` classes.
    pub(crate) fn new(app: Arc<dyn ErasedApp>, classes: usize) -> Self {
        let last = ClassId(classes.clamp(1, usize::from(ClassId::UNKNOWN.0)) as u16 - 1);
        Self { app, given: Mutex::new(None), is_given: AtomicBool::new(false), last }
    }

    /// The lock is held for some instructions, and nothing panics in there.
    fn given(&self) -> MutexGuard<'_, Option<Arc<ClassifyFn>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another one from now on; `None`: the application's again.
    pub(crate) fn replace(&self, new: Option<Arc<ClassifyFn>>) {
        let mut given = self.given();
        self.is_given.store(new.is_some(), Ordering::Release);
        let old = std::mem::replace(&mut *given, new);
        drop(given);
        // What it holds is the user's, and so is what happens when it is dropped.
        let _ = contain(|| drop(old));
    }

    /// What a number beyond the classes counts as.
    pub(crate) fn last(&self) -> ClassId {
        self.last
    }

    /// The class of a request; `None`: the classifier panicked at it.
    pub(crate) fn class_of(&self, request: &[u8]) -> Option<ClassId> {
        let class = match self.is_given.load(Ordering::Acquire) {
            false => contain(|| self.app.classify(request))?,
            true => {
                let given = self.given().clone();
                contain(|| match given {
                    None => self.app.classify(request),
                    Some(given) => given(request),
                })?
            }
        };
        Some(if class == ClassId::UNKNOWN { class } else { class.min(self.last) })
    }
}

impl Drop for Classifier {
    fn drop(&mut self) {
        self.replace(None);
    }
}
