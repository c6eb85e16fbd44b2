//! The engines that a store may be, one interface for all of them.

use crate::ffi::{RawIter, RawStore};
#[cfg(feature = "rocksdb")]
use crate::rocks::{Rocks, RocksIter};
use crate::types::{Entry, StoreError, StoreOptions};
use std::str::FromStr;

/// What keeps the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// LevelDB.
    #[default]
    LevelDb,
    /// RocksDB, where this was built with the feature `rocksdb`.
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

impl Engine {
    /// `leveldb` or `rocksdb`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LevelDb => "leveldb",
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => "rocksdb",
        }
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "leveldb" => Ok(Self::LevelDb),
            #[cfg(feature = "rocksdb")]
            "rocksdb" => Ok(Self::RocksDb),
            #[cfg(not(feature = "rocksdb"))]
            "rocksdb" => {
                Err("this was built without RocksDB: build it with `--features rocksdb`, \
                              or run `./x bench rocksdb`"
                    .to_owned())
            }
            other => Err(format!("there is no engine `{other}`, only leveldb and rocksdb")),
        }
    }
}

/// An open store.
pub(crate) enum Opened {
    LevelDb(RawStore),
    #[cfg(feature = "rocksdb")]
    RocksDb(Rocks),
}

/// Does the same by each engine.
macro_rules! each {
    ($kind:ident, $self:expr, $engine:ident => $body:expr) => {
        match $self {
            $kind::LevelDb($engine) => $body,
            #[cfg(feature = "rocksdb")]
            $kind::RocksDb($engine) => $body,
        }
    };
}

impl Opened {
    pub(crate) fn open(engine: Engine, options: &StoreOptions) -> Result<Self, StoreError> {
        Ok(match engine {
            Engine::LevelDb => Self::LevelDb(RawStore::open(options)?),
            #[cfg(feature = "rocksdb")]
            Engine::RocksDb => Self::RocksDb(Rocks::open(options)?),
        })
    }

    /// Appends the value to `out`; false: there is none, and `out` is as it was.
    pub(crate) fn get(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, StoreError> {
        each!(Opened, self, engine => engine.get(key, out))
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        each!(Opened, self, engine => engine.put(key, value))
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        each!(Opened, self, engine => engine.delete(key))
    }

    pub(crate) fn iter(&self, start: &[u8]) -> Result<OpenedIter<'_>, StoreError> {
        Ok(match self {
            Self::LevelDb(engine) => OpenedIter::LevelDb(engine.iter(start)?),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb(engine) => OpenedIter::RocksDb(engine.iter(start)),
        })
    }

    pub(crate) fn property(&self, name: &str) -> Result<Option<String>, StoreError> {
        each!(Opened, self, engine => engine.property(name))
    }

    pub(crate) fn compact(&self) {
        each!(Opened, self, engine => engine.compact());
    }
}

/// A snapshot being walked through.
pub(crate) enum OpenedIter<'s> {
    LevelDb(RawIter<'s>),
    #[cfg(feature = "rocksdb")]
    RocksDb(RocksIter<'s>),
}

impl OpenedIter<'_> {
    /// The current entry, `None` at the end.
    pub(crate) fn entry(&self) -> Result<Option<Entry<'_>>, StoreError> {
        each!(OpenedIter, self, iter => iter.entry())
    }

    /// Moves on; at the end it stays there.
    pub(crate) fn advance(&mut self) {
        each!(OpenedIter, self, iter => iter.advance());
    }
}
