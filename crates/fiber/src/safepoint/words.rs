//! The words of a block that are the kthread's, and how they come from one stack's block to another's.
//!
//! They are read by instructions that name the thread pointer (`%fs`) anew behind each call that may
//! change memory, as a switch does: an address that was formed before would be another stack's.

use super::Block;
use crate::context::Context;
use std::arch::asm;
use std::arch::x86_64::{_mm_loadu_si128, _mm_storeu_si128};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

/// The thread pointer: where the running code's thread-locals are.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: the first word there is its own address (the psABI's variant II).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer,
            options(nostack, pure, readonly, preserves_flags));
    }
    pointer
}

/// The block among the thread-locals at that thread pointer.
#[inline(always)]
pub(crate) fn block_of(thread_pointer: usize) -> *mut Block {
    let offset: usize;
    // SAFETY: reads where the linker put the block: the same for every thread pointer.
    unsafe {
        asm!("mov {}, qword ptr [rip + curtail_safepoint@GOTTPOFF]", out(reg) offset,
            options(nostack, pure, readonly, preserves_flags));
    }
    ptr::with_exposed_provenance_mut(thread_pointer.wrapping_add(offset))
}

/// A word of the running code's block.
#[inline(always)]
fn word<const AT: usize>() -> usize {
    let word;
    // SAFETY: reads a word of the running code's own block.
    unsafe {
        asm!("mov {word}, qword ptr [rip + curtail_safepoint@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word} + {at}]", word = out(reg) word, at = const AT,
            options(nostack, pure, readonly, preserves_flags));
    }
    word
}

/// The kthread that runs the code; null: none does, or it has not said so.
#[inline(always)]
#[must_use]
pub fn kthread() -> *const () {
    ptr::with_exposed_provenance(word::<{ offset_of!(Block, kthread) }>())
}

/// The context of the fiber that runs; null: none does.
#[inline(always)]
pub(crate) fn context() -> *const Context {
    ptr::with_exposed_provenance(word::<{ offset_of!(Block, context) }>())
}

/// The kthread's own thread pointer; 0: it has not prepared itself for fibers.
#[inline(always)]
pub(crate) fn base() -> usize {
    word::<{ offset_of!(Block, base) }>()
}

/// What the handler of ticks needs; null: there are none here.
pub(crate) fn ticks() -> *const () {
    ptr::with_exposed_provenance(word::<{ offset_of!(Block, ticks) }>())
}

fn block() -> *mut Block {
    block_of(thread_pointer())
}

/// Says which kthread runs the code, for [`kthread`]: here, and on each stack that is switched to from
/// here on.
pub fn set_kthread(kthread: *const ()) {
    // SAFETY: the running code's own block.
    unsafe { (*block()).kthread = kthread };
}

/// The calling thread's own thread-locals are its kthread's.
pub(crate) fn set_base() {
    // SAFETY: the running code's own block.
    unsafe { (*block()).base = thread_pointer() };
}

/// What runs with the thread-locals at `there` is no kthread's any more: nothing yields.
///
/// # Safety
/// There are thread-locals that no other thread uses.
pub(crate) unsafe fn leave_kthread(there: usize) {
    let block = block_of(there);
    // SAFETY: by contract.
    unsafe {
        super::curtail_safepoint_disarm(block);
        (*block).yield_hook = None;
        (*block).watch = ptr::null();
        (*block).depth = 0;
        (*block).context = ptr::null();
        (*block).kthread = ptr::null();
        (*block).base = 0;
        (*block).ticks = ptr::null();
        (*block).raised_at = ptr::null();
    }
}

pub(crate) fn set_ticks(ticks: *const ()) {
    // SAFETY: the running code's own block.
    unsafe { (*block()).ticks = ticks };
}

#[inline(always)]
pub(crate) fn set_context(context: *const Context) {
    // SAFETY: the running code's own block.
    unsafe { (*block()).context = context.cast() };
}

/// What a tick looks at.
#[derive(Clone, Copy)]
pub(crate) struct Ticking {
    mode: u32,
    deadline: u64,
    ticks: *const (),
}

/// The kthread uses other thread-locals for a while, at `there`, and yields nowhere meanwhile: a tick finds
/// its owner there, and that it is to be put off. Returns what was there, for [`take_back`].
///
/// # Safety
/// There are thread-locals at `there` that no other thread uses.
pub(crate) unsafe fn lend(there: usize) -> Ticking {
    // SAFETY: both are blocks, the calling thread's and one that it alone has.
    unsafe {
        let Block { mode, deadline, ticks, .. } = *block();
        let before = &*block_of(there);
        let before = Ticking { mode: before.mode, deadline: before.deadline, ticks: before.ticks };
        take_back(there, Ticking { mode, deadline, ticks });
        before
    }
}

/// The kthread has its own thread-locals again.
///
/// # Safety
/// As for [`lend`], which has returned `before`.
pub(crate) unsafe fn take_back(there: usize, before: Ticking) {
    let there = block_of(there);
    // SAFETY: by contract.
    unsafe {
        (*there).mode = before.mode;
        (*there).deadline = before.deadline;
        (*there).ticks = before.ticks;
    }
}

/// The kthread goes on with other thread-locals, at `there`: their block gets what the kthread's words are
/// now, and that depth and context. Returns the depth here.
///
/// # Safety
/// There are thread-locals at `there` that no other thread uses.
#[inline(always)]
pub(crate) unsafe fn hand_over(there: usize, depth: u32, context: *const Context) -> u32 {
    /// Pairs of words: from the deadline to the watch, and behind the context.
    const PAIRS: [usize; 9] = [24, 40, 56, 72, 88, 104, 136, 152, 168];
    const _: () = {
        assert!(
            offset_of!(Block, deadline) == PAIRS[0] && offset_of!(Block, watch) == PAIRS[5] + 8
        );
        assert!(
            offset_of!(Block, kthread) == PAIRS[6] && offset_of!(Block, raised_at) == PAIRS[7] + 8
        );
        assert!(offset_of!(Block, grace) == PAIRS[8]);
    };
    let (from, to) = (block(), block_of(there));
    // SAFETY: both are blocks, the calling thread's and one that it alone has.
    unsafe {
        (*to).budget = (*from).budget;
        (*to).depth = depth;
        (*to).mode = (*from).mode;
        for at in PAIRS {
            let (words, place) = (from.byte_add(at), to.byte_add(at));
            _mm_storeu_si128(place.cast(), _mm_loadu_si128(words.cast()));
        }
        (*to).slack = (*from).slack;
        (*to).pending = 0;
        (*to).context = context.cast();
        let raised_at = (*from).raised_at;
        if raised_at.is_null() {
            let raised = (*from).poll.load(Ordering::Relaxed);
            (*to).poll.store(raised, Ordering::Relaxed);
        } else {
            (*to).poll.store(0, Ordering::Relaxed);
            (*raised_at).store((&raw const (*to).poll).cast_mut(), Ordering::Release);
            // See `Poll::raise`.
            fence(Ordering::SeqCst);
            if (*from).poll.load(Ordering::Relaxed) != 0 {
                (*to).poll.store(1, Ordering::Relaxed);
            }
        }
        (*from).depth
    }
}
