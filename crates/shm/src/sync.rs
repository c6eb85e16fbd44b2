//! Atomics: the standard library's, or loom's when built with `--cfg loom`, so that the model checker
//! sees every access to what both sides use while a core changes hands.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
