//! `kv`: LevelDB behind a small binary protocol, as an [`App`](curtail::App) on the runtime.
//!
//! * [`protocol`] and [`load`]: what goes over the wire, and requests in the papers' mixes. Plain
//!   safe code, also without the feature `leveldb`;
//! * [`Store`]: LevelDB in memory, as a safe type. All `unsafe` is in the private module `ffi`. With the
//!   feature `rocksdb` RocksDB is a second [`Engine`];
//! * [`KvApp`]: the server.
//!
//! A `Store` is shared by all workers, and a handler may be pre-empted anywhere in it, C++ included,
//! except where LevelDB holds one of its mutexes.
#![deny(unsafe_code)]

pub mod load;
pub mod protocol;

#[cfg(feature = "leveldb")]
mod app;
#[cfg(feature = "leveldb")]
mod engine;
#[cfg(feature = "leveldb")]
#[allow(unsafe_code)]
mod ffi;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "leveldb")]
mod store;
#[cfg(feature = "leveldb")]
mod types;

#[cfg(feature = "leveldb")]
pub use app::{KvApp, KvOptions};
#[cfg(feature = "leveldb")]
pub use engine::Engine;
#[cfg(feature = "leveldb")]
pub use store::{KeyRange, Scan, Store};
#[cfg(feature = "leveldb")]
pub use types::{Entry, StoreError, StoreOptions};
