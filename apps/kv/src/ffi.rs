//! The border to C++: the functions of `shim/kv_shim.h`, and two owners that make them safe.
//!
//! Any thread may use a [`RawStore`] at any time (LevelDB synchronises itself); a [`RawIter`] belongs
//! to its holder. The shim lets no C++ exception out and never calls Rust, so neither language's
//! unwinding meets the other's frames.

use crate::types::{Entry, StoreError, StoreOptions};
use std::ffi::{CStr, c_char};
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::{self, NonNull};
use std::slice;

/// `kv_store`, known to C++ only.
#[repr(C)]
struct CStore {
    _opaque: [u8; 0],
    _not_movable: PhantomData<(*mut u8, PhantomPinned)>,
}

/// `kv_iter`, known to C++ only.
#[repr(C)]
struct CIter {
    _opaque: [u8; 0],
    _not_movable: PhantomData<(*mut u8, PhantomPinned)>,
}

/// `struct kv_entry`.
#[repr(C)]
struct CEntry {
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
}

#[repr(C)]
struct COptions {
    write_buffer_bytes: u64,
    block_cache_bytes: u64,
}

#[repr(C)]
#[must_use]
struct CStatus {
    code: i32,
    message: *mut c_char,
}

// enum kv_code
const OK: i32 = 0;
const NOT_FOUND: i32 = 1;
const CORRUPTION: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const INVALID_ARGUMENT: i32 = 4;
const IO: i32 = 5;
const NO_MEMORY: i32 = 6;
const SMALL_BUFFER: i32 = 8;

unsafe extern "C" {
    fn kv_free_text(text: *mut c_char);
    fn kv_open(options: *const COptions, store: *mut *mut CStore) -> CStatus;
    fn kv_close(store: *mut CStore);
    fn kv_get(
        store: *mut CStore,
        key: *const u8,
        key_length: usize,
        out: *mut u8,
        capacity: usize,
        length: *mut usize,
    ) -> CStatus;
    fn kv_put(
        store: *mut CStore,
        key: *const u8,
        key_length: usize,
        value: *const u8,
        value_length: usize,
    ) -> CStatus;
    fn kv_delete(store: *mut CStore, key: *const u8, key_length: usize) -> CStatus;
    fn kv_iter_open(
        store: *mut CStore,
        start: *const u8,
        start_length: usize,
        iter: *mut *mut CIter,
    ) -> CStatus;
    fn kv_iter_entry(iter: *const CIter) -> *const CEntry;
    fn kv_iter_next(iter: *mut CIter);
    fn kv_iter_status(iter: *const CIter) -> CStatus;
    fn kv_iter_close(iter: *mut CIter);
    fn kv_property(
        store: *mut CStore,
        name: *const u8,
        name_length: usize,
        text: *mut *mut c_char,
    ) -> CStatus;
    fn kv_compact(store: *mut CStore);
}

/// A text that the shim allocated.
struct Text(NonNull<c_char>);

impl Text {
    fn read(&self) -> String {
        // SAFETY: the shim's texts are NUL-terminated and live until kv_free_text, which only our
        // Drop calls.
        unsafe { CStr::from_ptr(self.0.as_ptr()) }.to_string_lossy().into_owned()
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: the text came from the shim, is ours, and is freed once.
        unsafe { kv_free_text(self.0.as_ptr()) }
    }
}

impl CStatus {
    /// The text, and the code that went with it.
    fn take(self) -> (i32, String) {
        let text = NonNull::new(self.message).map(Text);
        (self.code, text.map_or_else(String::new, |t| t.read()))
    }

    fn into_error(self) -> StoreError {
        match self.take() {
            (CORRUPTION, text) => StoreError::Corruption(text),
            (NOT_SUPPORTED, text) => StoreError::NotSupported(text),
            (INVALID_ARGUMENT, text) => StoreError::InvalidArgument(text),
            (IO, text) => StoreError::Io(text),
            (NO_MEMORY, _) => StoreError::NoMemory,
            (code, text) if text.is_empty() => StoreError::Exception(format!("code {code}")),
            (_, text) => StoreError::Exception(text),
        }
    }

    fn check(self) -> Result<(), StoreError> {
        if self.code == OK { Ok(()) } else { Err(self.into_error()) }
    }
}

/// An open store.
pub(crate) struct RawStore(NonNull<CStore>);

// SAFETY: nothing in a leveldb::DB, its Env or its Cache belongs to the thread that made it.
unsafe impl Send for RawStore {}
// SAFETY: leveldb::DB may be used from any number of threads without outside help (db.h says so),
// and the shim adds no state of its own.
unsafe impl Sync for RawStore {}

impl RawStore {
    pub(crate) fn open(options: &StoreOptions) -> Result<Self, StoreError> {
        let options = COptions {
            write_buffer_bytes: options.write_buffer_bytes,
            block_cache_bytes: options.block_cache_bytes,
        };
        let mut store = ptr::null_mut();
        // SAFETY: both pointers are to live locals of the types that the header names.
        unsafe { kv_open(&options, &mut store) }.check()?;
        NonNull::new(store).map(Self).ok_or_else(|| StoreError::Exception("no store".into()))
    }

    /// Appends the value to `out`; false: there is none, and `out` is as it was.
    pub(crate) fn get(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, StoreError> {
        loop {
            let room = out.spare_capacity_mut();
            let mut length = 0;
            // SAFETY: the store is open; key and room are valid for the lengths passed, and the
            // shim writes at most `capacity` bytes to `out`.
            let status = unsafe {
                kv_get(
                    self.0.as_ptr(),
                    key.as_ptr(),
                    key.len(),
                    room.as_mut_ptr().cast(),
                    room.len(),
                    &mut length,
                )
            };
            match status.code {
                OK => {
                    // SAFETY: the shim has written `length` bytes, and no more than there was room
                    // for, behind the bytes that were there.
                    unsafe { out.set_len(out.len() + length) };
                    return Ok(true);
                }
                NOT_FOUND => return Ok(false),
                // Another writer may make the value longer still in the meantime: ask again.
                SMALL_BUFFER => out.reserve(length),
                _ => return Err(status.into_error()),
            }
        }
    }

    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        // SAFETY: the store is open, and the slices are valid for their lengths during the call;
        // LevelDB copies them.
        unsafe {
            kv_put(self.0.as_ptr(), key.as_ptr(), key.len(), value.as_ptr(), value.len()).check()
        }
    }

    pub(crate) fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        // SAFETY: the store is open, and the key is valid for its length during the call.
        unsafe { kv_delete(self.0.as_ptr(), key.as_ptr(), key.len()) }.check()
    }

    pub(crate) fn iter(&self, start: &[u8]) -> Result<RawIter<'_>, StoreError> {
        let mut iter = ptr::null_mut();
        // SAFETY: the store is open, `start` is valid for its length during the call, and `iter` is
        // a live local.
        unsafe { kv_iter_open(self.0.as_ptr(), start.as_ptr(), start.len(), &mut iter) }.check()?;
        let iter = NonNull::new(iter).ok_or_else(|| StoreError::Exception("no iterator".into()))?;
        // SAFETY: the iterator is open.
        let entry = unsafe { kv_iter_entry(iter.as_ptr()) };
        Ok(RawIter { iter, entry, store: PhantomData })
    }

    pub(crate) fn property(&self, name: &str) -> Result<Option<String>, StoreError> {
        let mut text = ptr::null_mut();
        // SAFETY: the store is open, `name` is valid for its length during the call, and `text` is
        // a live local.
        let status = unsafe { kv_property(self.0.as_ptr(), name.as_ptr(), name.len(), &mut text) };
        let text = NonNull::new(text).map(Text);
        match status.code {
            NOT_FOUND => Ok(None),
            OK => Ok(text.map(|t| t.read())),
            _ => Err(status.into_error()),
        }
    }

    pub(crate) fn compact(&self) {
        // SAFETY: the store is open.
        unsafe { kv_compact(self.0.as_ptr()) }
    }
}

impl Drop for RawStore {
    fn drop(&mut self) {
        // SAFETY: the store is open and closed once; a RawIter borrows it, so none is left.
        unsafe { kv_close(self.0.as_ptr()) }
    }
}

/// A snapshot being walked through.
pub(crate) struct RawIter<'s> {
    iter: NonNull<CIter>,
    /// Part of the iterator; each move writes it.
    entry: *const CEntry,
    store: PhantomData<&'s RawStore>,
}

impl RawIter<'_> {
    /// The current entry, `None` at the end.
    pub(crate) fn entry(&self) -> Result<Option<Entry<'_>>, StoreError> {
        // SAFETY: a place in the iterator, which is open; `advance` alone writes there, and needs
        // `&mut self`.
        let entry = unsafe { &*self.entry };
        if entry.key.is_null() {
            // SAFETY: the iterator is open.
            return unsafe { kv_iter_status(self.iter.as_ptr()) }.check().map(|()| None);
        }
        // SAFETY: there is an entry, so both pairs describe bytes that stay as they are until the
        // iterator moves or is closed: both need `&mut self` or ownership, which outlasts neither
        // slice, since they borrow `self`. LevelDB's slices are never null.
        Ok(Some(unsafe {
            (
                slice::from_raw_parts(entry.key, entry.key_length),
                slice::from_raw_parts(entry.value, entry.value_length),
            )
        }))
    }

    /// Moves on; at the end it stays there. If it fails, [`RawIter::entry`] says so.
    pub(crate) fn advance(&mut self) {
        // SAFETY: the iterator is open, and no slice of it is borrowed.
        unsafe { kv_iter_next(self.iter.as_ptr()) }
    }
}

impl Drop for RawIter<'_> {
    fn drop(&mut self) {
        // SAFETY: the iterator is open and closed once, before its store, which it borrows.
        unsafe { kv_iter_close(self.iter.as_ptr()) }
    }
}
