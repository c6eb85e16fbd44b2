//! Words by which the daemon has a thread yield at its next safepoint, without a signal and without
//! that thread ever looking at the board by itself.
//!
//! ```text
//!   for each kthread   a page: what the safepoints of the kthread look at (`curtail_safepoint.h`),
//!                      with the poll word at POLL_AT
//! ```
//!
//! The program makes the memory, and each kthread puts its page in the place of the page on which its
//! safepoint's block is ([`PollPages::lend`]): so the block is private memory's no more, and the daemon
//! stores to the word that the safepoints poll.
//!
//! **Trust.** The daemon can write all of a page, and with it what safepoints call. A program passes its
//! pages to a daemon of its own user only, which could stop, trace or kill it anyway. The program can
//! write what it likes: the daemon stores there and reads nothing.
//!
//! **Children.** A child of a fork has the pages of all its parent's threads, under stacks that it uses
//! again. They are among what [`crate::leave_to_parent`] replaces.

use crate::fork::{self, Place};
use crate::memory::{MapError, Memory};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where in its page the word is.
pub const POLL_AT: usize = 8;
/// Of the only architecture there is.
const PAGE: usize = 4096;
/// As many kthreads as a program may have.
const MOST_KTHREADS: usize = 1024;

/// The program's side. See the module's head.
pub struct PollPages {
    memory: Memory,
    kthreads: u32,
}

impl PollPages {
    /// A page for each of so many kthreads.
    ///
    /// # Errors
    /// What the system says, or pages are not of 4,096 bytes.
    ///
    /// # Panics
    /// With no kthread.
    pub fn create(kthreads: u32) -> io::Result<Self> {
        assert!(kthreads > 0, "no kthreads");
        if rustix::param::page_size() != PAGE {
            return Err(io::Error::other("pages are not of 4,096 bytes"));
        }
        let memory = Memory::create_for_both("curtail-poll-pages", kthreads as usize * PAGE)?;
        Ok(Self { memory, kthreads })
    }

    /// To be passed to the daemon.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// A kthread's word: not zero after the daemon has raised it.
    ///
    /// # Panics
    /// There is no such kthread.
    #[must_use]
    pub fn word(&self, kthread: u32) -> &AtomicU32 {
        word(&self.memory, self.kthreads, kthread).expect("a kthread of the program")
    }

    /// Puts a kthread's page in the place of the one at `at`, until what this returns is dropped. It holds
    /// the same then and now.
    ///
    /// # Errors
    /// What the system says. Then nothing has changed.
    ///
    /// # Panics
    /// There is no such kthread, or `at` is not where a page begins.
    ///
    /// # Safety
    /// At `at` is a page of private anonymous memory. Until the end it stays mapped, is used by the
    /// calling thread alone, and holds plain words, of which the one at [`POLL_AT`] may become 1 at any
    /// moment. The thread that calls does all of it, the end included.
    pub unsafe fn lend(&self, kthread: u32, at: NonNull<u8>) -> io::Result<LentPage> {
        assert!(kthread < self.kthreads && at.addr().get().is_multiple_of(PAGE));
        let offset = kthread as usize * PAGE;
        // Before it is shared: a child that has it is to find it on the list.
        let mut lent = LentPage { at, place: fork::enter(at, PAGE), is_shared: false };
        // SAFETY: both are pages of plain words; by contract the caller alone uses the one; of the other, the
        // daemon writes the word alone.
        unsafe { copy_page(at, self.memory.region(offset, PAGE)) };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: takes the place of a page that is the caller's, with the same in it.
        unsafe { mmap(at.as_ptr().cast(), PAGE, access, flags, self.fd(), offset as u64) }?;
        lent.is_shared = true;
        Ok(lent)
    }
}

/// A page that lies in the place of a thread's own, and gives that back.
pub struct LentPage {
    at: NonNull<u8>,
    place: &'static Place,
    is_shared: bool,
}

impl LentPage {
    fn take_back(&self) -> io::Result<()> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel likes.
        let own = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, access, MapFlags::PRIVATE) }?;
        let own = NonNull::new(own).expect("the kernel maps nothing at zero");
        // SAFETY: pages of plain words; the new one is ours, the other this thread's.
        unsafe { copy_page(self.at, own.cast()) };
        let to = self.at.as_ptr().cast();
        // In one step: whatever this thread's signal handlers do, they find the block there.
        // SAFETY: takes the place of the page that `lend` put there, with the same in it; nothing points
        // into the new page where it was.
        unsafe { mremap_fixed(own.as_ptr(), PAGE, PAGE, MremapFlags::MAYMOVE, to) }?;
        Ok(())
    }
}

impl Drop for LentPage {
    fn drop(&mut self) {
        // Where the system has no memory, the page stays: memory like any other to this process, and
        // children leave it alone.
        if !self.is_shared || self.take_back().is_ok() {
            self.place.leave();
        }
    }
}

/// # Safety
/// At both places are pages of plain words. Others may write single ones of `from` meanwhile; the caller
/// alone uses `to`, or others write single words there.
unsafe fn copy_page(from: NonNull<u8>, to: NonNull<u8>) {
    let (from, to) = (from.cast::<u64>().as_ptr(), to.cast::<u64>().as_ptr());
    for word in 0..PAGE / size_of::<u64>() {
        // SAFETY: within both pages, and aligned; volatile, since others may write there.
        unsafe { to.add(word).write_volatile(from.add(word).read_volatile()) };
    }
}

fn word(memory: &Memory, kthreads: u32, kthread: u32) -> Option<&AtomicU32> {
    let offset = kthread as usize * PAGE + POLL_AT;
    // SAFETY: an atomic.
    (kthread < kthreads).then(|| unsafe { memory.at(offset) })
}

/// The daemon's side: it raises words, and reads none.
pub struct PollWords {
    memory: Memory,
    kthreads: u32,
}

impl PollWords {
    /// The pages of a program with so many kthreads.
    ///
    /// # Errors
    /// Where it is not sealed, or too small or too large for that.
    pub fn map(fd: OwnedFd, kthreads: u32) -> Result<Self, MapError> {
        let bytes = kthreads as usize * PAGE;
        let memory = Memory::share(fd, bytes.max(PAGE), MOST_KTHREADS * PAGE)?;
        Ok(Self { memory, kthreads })
    }

    /// The kthread yields at its next safepoint; what it is to do then is in its line of the board, which
    /// was written before. One store. False: there is no such kthread.
    pub fn raise(&self, kthread: u32) -> bool {
        let word = word(&self.memory, self.kthreads, kthread);
        // A thread that sees it sees what was written before.
        word.map(|word| word.store(1, Ordering::Release)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private_page() -> NonNull<u8> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel likes.
        let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE, access, MapFlags::PRIVATE) };
        NonNull::new(page.unwrap().cast()).unwrap()
    }

    fn daemon_of(pages: &PollPages, kthreads: u32) -> Result<PollWords, MapError> {
        PollWords::map(pages.fd().try_clone_to_owned().unwrap(), kthreads)
    }

    #[test]
    fn a_lent_page_holds_what_was_there_and_hears_the_daemon() {
        let pages = PollPages::create(2).unwrap();
        let daemon = daemon_of(&pages, 2).unwrap();
        let page = private_page();
        let at = |offset: usize| {
            // SAFETY: within the page, which stays mapped; atomics.
            unsafe { page.add(offset).cast::<AtomicU32>().as_ref() }
        };
        at(0).store(7, Ordering::Relaxed);
        at(PAGE - 4).store(9, Ordering::Relaxed);
        // SAFETY: a page of this test's own, used by this thread alone.
        let lent = unsafe { pages.lend(1, page) }.unwrap();
        assert!(daemon.raise(0));
        assert_eq!(at(POLL_AT).load(Ordering::Acquire), 0, "another's word");
        assert!(daemon.raise(1) && !daemon.raise(2));
        assert_eq!(at(POLL_AT).load(Ordering::Acquire), 1);
        assert_eq!(pages.word(1).load(Ordering::Acquire), 1);
        at(0).store(8, Ordering::Relaxed);
        drop(lent);
        // Private again, as it was left.
        at(POLL_AT).store(0, Ordering::Relaxed);
        assert!(daemon.raise(1));
        let now = [0, POLL_AT, PAGE - 4].map(|offset| at(offset).load(Ordering::Relaxed));
        assert_eq!(now, [8, 0, 9]);
        // SAFETY: mapped above; nothing uses it any more.
        unsafe { rustix::mm::munmap(page.as_ptr().cast(), PAGE) }.unwrap();
    }

    #[test]
    fn pages_that_could_end_under_the_daemon_are_refused() {
        let pages = PollPages::create(1).unwrap();
        assert!(matches!(daemon_of(&pages, 2), Err(MapError::Header(_))), "too few");
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("pages", flags).unwrap();
        rustix::fs::ftruncate(&fd, PAGE as u64).unwrap();
        assert!(matches!(PollWords::map(fd, 1), Err(MapError::NotSealed)));
        assert!(daemon_of(&pages, 1).is_ok());
    }
}
