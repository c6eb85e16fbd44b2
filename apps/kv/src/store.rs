//! LevelDB (or another [`Engine`]) in memory, as a safe type. A [`Store`] is shared by reference among any number of threads
//! and fibers; LevelDB's own mutex orders writers, and readers go on beside them.

use crate::engine::{Engine, Opened, OpenedIter};
use crate::types::{Entry, StoreError, StoreOptions};
use std::fmt;
use std::ops::ControlFlow;

/// Keys from `start` on (empty: from the first) and below `end` (`None`: to the last), in bytewise
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The first key that belongs to the range.
    pub start: &'a [u8],
    /// The first key that does not any more.
    pub end: Option<&'a [u8]>,
}

impl KeyRange<'_> {
    /// Every key.
    pub const ALL: Self = Self { start: &[], end: None };
}

/// A key-value store in this process's memory; what it holds ends with it.
pub struct Store {
    raw: Opened,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl Store {
    /// A new, empty store.
    ///
    /// # Errors
    /// What LevelDB says.
    pub fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        Self::open_with(Engine::LevelDb, options)
    }

    /// A new, empty store of that engine.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open_with(engine: Engine, options: &StoreOptions) -> Result<Self, StoreError> {
        Ok(Self { raw: Opened::open(engine, options)? })
    }

    /// Appends the key's value to `out`. `false`: there is none, and nothing is appended. With room
    /// for the value in `out` this copies it once and allocates nothing here.
    ///
    /// # Errors
    /// What LevelDB says; `out` is unchanged.
    pub fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.raw.get(key, out)
    }

    /// The key's value.
    ///
    /// # Errors
    /// What LevelDB says.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut value = Vec::new();
        Ok(self.raw.get(key, &mut value)?.then_some(value))
    }

    /// Sets the key's value.
    ///
    /// # Errors
    /// What LevelDB says.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.raw.put(key, value)
    }

    /// Removes the key, if it is there.
    ///
    /// # Errors
    /// What LevelDB says.
    pub fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        self.raw.delete(key)
    }

    /// Shows `each` the entries of `range` in order, at most `limit` of them, all of one moment,
    /// until it breaks. Answers how many it showed.
    ///
    /// `each` runs between LevelDB's calls, not inside one: it may use the store, and it may panic.
    ///
    /// # Errors
    /// What LevelDB says; `each` may have seen entries already.
    pub fn scan(
        &self,
        range: KeyRange<'_>,
        limit: usize,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, StoreError> {
        let mut shown = 0;
        if limit == 0 {
            return Ok(0);
        }
        let mut entries = self.snapshot(range)?;
        while let Some((key, value)) = entries.entry()? {
            shown += 1;
            if each(key, value).is_break() || shown == limit {
                break;
            }
            entries.advance();
        }
        Ok(shown)
    }

    /// The entries of `range` as they are now, to be walked through; later writes do not show.
    ///
    /// # Errors
    /// What LevelDB says.
    pub fn snapshot<'s>(&'s self, range: KeyRange<'s>) -> Result<Scan<'s>, StoreError> {
        Ok(Scan { raw: self.raw.iter(range.start)?, end: range.end })
    }

    /// One of LevelDB's properties, such as `leveldb.stats` or `leveldb.sstables` (made while it
    /// holds its mutex); `None` where it knows no such name.
    ///
    /// # Errors
    /// What LevelDB says.
    pub fn property(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.raw.property(name)
    }

    /// Merges all that was written so far into as few tables as can be, and waits for that.
    pub fn compact(&self) {
        self.raw.compact();
    }
}

/// A range of a store as it was at one moment. It keeps what it shows alive: drop it soon.
pub struct Scan<'s> {
    raw: OpenedIter<'s>,
    end: Option<&'s [u8]>,
}

impl fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Scan<'_> {
    /// Key and value where the scan stands; `None` behind the range's last.
    ///
    /// # Errors
    /// What LevelDB says.
    pub fn entry(&self) -> Result<Option<Entry<'_>>, StoreError> {
        let entry = self.raw.entry()?;
        Ok(entry.filter(|(key, _)| self.end.is_none_or(|end| *key < end)))
    }

    /// Moves to the next entry; at the end of everything it stays there. If it fails,
    /// [`Scan::entry`] says so.
    pub fn advance(&mut self) {
        self.raw.advance();
    }
}
