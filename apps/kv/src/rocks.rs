//! RocksDB in memory (feature `rocksdb`), by the crate of that name, with what [`crate::Store`] needs of it.
//!
//! Any thread may use a store at any time. RocksDB keeps a reference to what it reads from (a
//! SuperVersion) in a thread-local while it reads, and takes it for granted that no one else on that
//! thread reads meanwhile: that holds, since each request has thread-locals of its own.

use crate::types::{StoreError, StoreOptions};
use rocksdb::{BlockBasedOptions, Cache, DB, DBRawIterator, Env, ErrorKind, Options};

/// Where its files are, in memory of its own.
const PATH: &str = "/kv";

pub(crate) struct Rocks(DB);

impl From<rocksdb::Error> for StoreError {
    fn from(error: rocksdb::Error) -> Self {
        let kind = error.kind();
        let text = error.into_string();
        match kind {
            ErrorKind::Corruption => Self::Corruption(text),
            ErrorKind::NotSupported => Self::NotSupported(text),
            ErrorKind::InvalidArgument => Self::InvalidArgument(text),
            _ => Self::Io(text),
        }
    }
}

impl Rocks {
    pub(crate) fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(size(options.block_cache_bytes)));
        let mut all = Options::default();
        all.create_if_missing(true);
        all.set_env(&Env::mem_env()?);
        all.set_block_based_table_factory(&table);
        // As LevelDB takes it.
        all.set_write_buffer_size(size(options.write_buffer_bytes).clamp(64 << 10, 1 << 30));
        Ok(Self(DB::open(&all, PATH)?))
    }

    pub(crate) fn get(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, StoreError> {
        let value = self.0.get_pinned(key)?;
        if let Some(value) = &value {
            out.extend_from_slice(value);
        }
        Ok(value.is_some())
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        Ok(self.0.put(key, value)?)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        Ok(self.0.delete(key)?)
    }

    pub(crate) fn iter(&self, start: &[u8]) -> RocksIter<'_> {
        let mut iter = self.0.raw_iterator();
        iter.seek(start);
        RocksIter(iter)
    }

    pub(crate) fn property(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self.0.property_value(name)?)
    }

    pub(crate) fn compact(&self) {
        self.0.compact_range(None::<&[u8]>, None::<&[u8]>);
    }
}

/// A snapshot being walked through.
pub(crate) struct RocksIter<'s>(DBRawIterator<'s>);

impl RocksIter<'_> {
    /// The current entry, `None` at the end.
    pub(crate) fn entry(&self) -> Result<Option<(&[u8], &[u8])>, StoreError> {
        match self.0.item() {
            Some(entry) => Ok(Some(entry)),
            None => Ok(self.0.status().map(|()| None)?),
        }
    }

    /// Moves on; at the end it stays there.
    pub(crate) fn advance(&mut self) {
        if self.0.valid() {
            self.0.next();
        }
    }
}
