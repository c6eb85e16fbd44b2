//! The classifier in force: the application's own, or one that was put in its place while the server
//! runs (Perséphone §4.2: at most one is active at a time).
//!
//! The dispatcher's, and called on its thread only.

use crate::app::{ClassifyFn, ErasedApp};
use crate::contain::contain;
use curtail_policy::ClassId;
use std::sync::Arc;

/// See the module's head.
pub(crate) struct Classifier {
    app: Arc<dyn ErasedApp>,
    given: Option<Box<ClassifyFn>>,
    last: ClassId,
}

impl Classifier {
    /// The application's, which has `classes` classes.
    pub(crate) fn new(app: Arc<dyn ErasedApp>, classes: usize) -> Self {
        let last = ClassId(classes.clamp(1, usize::from(ClassId::UNKNOWN.0)) as u16 - 1);
        Self { app, given: None, last }
    }

    /// Another one from now on; `None`: the application's again.
    pub(crate) fn replace(&mut self, given: Option<Box<ClassifyFn>>) {
        let old = std::mem::replace(&mut self.given, given);
        // What it holds is the user's, and so is what happens when it is dropped.
        let _ = contain(|| drop(old));
    }

    /// What a number beyond the classes counts as.
    pub(crate) fn last(&self) -> ClassId {
        self.last
    }

    /// The class of a request; `None`: the classifier panicked at it.
    pub(crate) fn class_of(&self, request: &[u8]) -> Option<ClassId> {
        let classify = || match &self.given {
            None => self.app.classify(request),
            Some(given) => given(request),
        };
        let class = contain(classify)?;
        Some(if class == ClassId::UNKNOWN { class } else { class.min(self.last) })
    }
}

impl Drop for Classifier {
    fn drop(&mut self) {
        self.replace(None);
    }
}
