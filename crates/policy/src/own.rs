//! A policy of a program's own, beside those of the catalogue: what it is called, and how it is made.
//!
//! It plugs in wherever a [`Spec`] does: a server, a live switch, the simulator. Each dispatcher gets
//! one, made on the thread that makes the dispatcher, and moved to the dispatcher's.

use crate::{Policy, Spec};
use std::fmt;
use std::sync::Arc;

/// What a policy has to make room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Workers, by [`WorkerId`](crate::WorkerId) from 0.
    pub workers: usize,
    /// Jobs at once: all have ids below this.
    pub jobs: usize,
    /// Of what is random in it.
    pub seed: u64,
}

type Make = dyn Fn(&Spec, Size) -> Box<dyn Policy + Send> + Send + Sync;

/// How a policy is made that is none of the catalogue's; see [`Spec::own`].
#[derive(Clone)]
pub struct Own {
    make: Arc<Make>,
}

impl Own {
    pub(crate) fn new(
        make: impl Fn(&Spec, Size) -> Box<dyn Policy + Send> + Send + Sync + 'static,
    ) -> Self {
        Self { make: Arc::new(make) }
    }

    pub(crate) fn make(&self, spec: &Spec, size: Size) -> Box<dyn Policy + Send> {
        (self.make)(spec, size)
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Own")
    }
}

/// Policies that are made by one and the same code are equal.
impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl Eq for Own {}
