//! What every engine takes and says.

/// Why the store could not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// What is stored contradicts itself.
    #[error("corrupted: {0}")]
    Corruption(String),
    /// LevelDB cannot do this.
    #[error("not supported: {0}")]
    NotSupported(String),
    /// A parameter makes no sense.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The environment failed.
    #[error("input or output failed: {0}")]
    Io(String),
    /// Memory ran out inside LevelDB.
    #[error("out of memory")]
    NoMemory,
    /// Another C++ exception was caught at the border.
    #[error("C++ exception: {0}")]
    Exception(String),
}

/// How a store is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Size in bytes at which LevelDB turns its write buffer into a table. LevelDB takes at least
    /// 64 KiB and at most 1 GiB.
    pub write_buffer_bytes: u64,
    /// Size in bytes of the cache of table blocks.
    pub block_cache_bytes: u64,
}

impl Default for StoreOptions {
    /// A write buffer of 64 MiB, which holds the papers' 15,000 keys many times over, and a block
    /// cache of 8 MiB, LevelDB's own default.
    fn default() -> Self {
        Self { write_buffer_bytes: 64 << 20, block_cache_bytes: 8 << 20 }
    }
}

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);
