//! Bytes that wait to be sent, in blocks that come from the kernel and go back to it.
//!
//! Not from the allocator: worker threads fill them and the dispatcher empties them, megabytes at a
//! time, and what is freed in the middle of a heap stays the process's. And a buffer that grows by
//! being copied would do that under the lock that other workers wait for.
//!
//! It belongs to an outbox, under its lock. Invariants: each block but the last is filled to its end,
//! each but the first from its beginning, none is empty.

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// Bytes of a block. Untouched pages of it are no memory, but it counts as a whole.
const BLOCK: usize = 32 << 10;

#[derive(Default)]
pub(super) struct Unsent {
    blocks: VecDeque<Block>,
    /// Bytes at the front of the first block that have been sent.
    sent: usize,
    len: usize,
}

/// A mapping of [`BLOCK`] bytes, all of them initialised (to zero at first).
struct Block(NonNull<[u8; BLOCK]>);

// SAFETY: it owns plain memory that nothing else refers to.
unsafe impl Send for Block {}

impl Block {
    fn new() -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping where the kernel has room; nothing else is touched.
        let memory =
            unsafe { mmap_anonymous(std::ptr::null_mut(), BLOCK, access, MapFlags::PRIVATE)? };
        NonNull::new(memory.cast()).map(Self).ok_or(Errno::NOMEM)
    }

    fn bytes(&self) -> &[u8; BLOCK] {
        // SAFETY: the mapping is as large, is ours until `drop`, and zeroed pages are initialised.
        unsafe { self.0.as_ref() }
    }

    fn bytes_mut(&mut self) -> &mut [u8; BLOCK] {
        // SAFETY: as in `bytes`, and exclusive as `self` is.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, to which no reference is left. It can't fail for such a
        // range, short of the kernel's own memory; then the block is leaked.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), BLOCK) };
    }
}

impl Unsent {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that it may have.
    pub(super) fn capacity(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Adds `bytes` at the end.
    ///
    /// # Errors
    /// The kernel has no memory; then a part of them may have been added.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let end = (self.sent + self.len) % BLOCK;
            if end == 0 {
                self.blocks.push_back(Block::new()?);
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - end));
            if let Some(last) = self.blocks.back_mut() {
                last.bytes_mut()[end..end + now.len()].copy_from_slice(now);
            }
            self.len += now.len();
            bytes = later;
        }
        Ok(())
    }

    /// The first bytes that wait: some, where any do.
    pub(super) fn front(&self) -> &[u8] {
        let end = BLOCK.min(self.sent + self.len);
        self.blocks.front().map_or(&[], |block| &block.bytes()[self.sent..end])
    }

    /// Of [`Unsent::front`], `count` bytes have been sent.
    pub(super) fn consume(&mut self, count: usize) {
        self.sent += count;
        self.len -= count;
        if self.sent == BLOCK || self.len == 0 {
            self.blocks.pop_front();
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn comes_out_as_it_went_in(steps in prop::collection::vec((0..3 * BLOCK, 0..4_u8), 1..40)) {
            let mut unsent = Unsent::default();
            let mut model = VecDeque::new();
            let mut next = 0_u64;
            for (count, what) in steps {
                if what > 0 {
                    let bytes: Vec<u8> = (next..next + count as u64).map(|n| (n % 251) as u8).collect();
                    next += count as u64;
                    unsent.push(&bytes).unwrap();
                    model.extend(bytes);
                } else {
                    let mut left = count;
                    while left > 0 && !unsent.is_empty() {
                        let front = unsent.front();
                        prop_assert!(!front.is_empty());
                        let now = left.min(front.len());
                        let expected: Vec<u8> = model.drain(..now).collect();
                        prop_assert!(front[..now] == expected[..]);
                        unsent.consume(now);
                        left -= now;
                    }
                }
                prop_assert_eq!(unsent.len(), model.len());
                prop_assert!(unsent.capacity() < unsent.len() + 2 * BLOCK);
                prop_assert!(!unsent.is_empty() || unsent.capacity() == 0);
            }
        }
    }
}
